"""Which features the trees of a model make use of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from seqboost.core.exceptions import ParameterError
from seqboost.features import FeatureLayout
from seqboost.inspection.nodes import node_means
from seqboost.model import Forest
from seqboost.trees.tree import LAG, SPARSE

__all__ = ["FeatureImportances", "feature_importances", "split_names"]


@dataclass(frozen=True, eq=False)
class FeatureImportances:
    """How much each feature is used for each label.

    Attributes
    ----------
    labels : tuple
        The labels.
    names : tuple of str
        Features that some tree tests: columns at an offset (``x[-1]``), and labels before (``label[-1]``).
    values : ndarray of float64, shape (n_labels, n_features)
        Gains or numbers of splits.
    kind : {"gain", "splits"}
        What the values are.
    """

    labels: tuple[Any, ...]
    names: tuple[str, ...]
    values: NDArray[np.float64]
    kind: str

    def top(self, label: Any = None, n: int = 10) -> list[tuple[str, float]]:
        """Return the features that matter most for a label (None: for all together), and their values."""
        if label is None:
            totals = self.values.sum(axis=0)
        elif label in self.labels:
            totals = self.values[self.labels.index(label)]
        else:
            raise ParameterError(
                f"there is no label {label!r}; the labels are {', '.join(map(repr, self.labels[:20]))}"
            )
        order = np.argsort(-totals, kind="stable")[:n]
        return [(self.names[j], float(totals[j])) for j in order if totals[j] > 0]

    def by_column(self) -> FeatureImportances:
        """Return the same with the offsets of a column taken together."""
        plain = [name[: name.rindex("[")] if name.endswith("]") and "[" in name else name for name in self.names]
        names = list(dict.fromkeys(plain))
        values = np.zeros((len(self.labels), len(names)))
        for j, name in enumerate(plain):
            values[:, names.index(name)] += self.values[:, j]
        return FeatureImportances(self.labels, tuple(names), values, self.kind)


def split_names(forest: Forest, layout: FeatureLayout) -> tuple[NDArray[np.int64], list[str]]:
    """Return a number for the feature of each split, and the names of the features that occur."""
    feature = forest.feature.astype(np.int64)
    n_window = layout.n_features
    feature[forest.kind == SPARSE] += layout.n_dense_features
    feature[forest.kind == LAG] += n_window
    used, numbers = np.unique(feature, return_inverse=True)
    names = [layout.feature_name(int(f)) if f < n_window else f"label[-{f - n_window}]" for f in used]
    return numbers.reshape(-1), names


def feature_importances(model: Any, kind: str = "gain") -> FeatureImportances:
    r"""Sum the gains (or count the splits) of each feature, for each label.

    A tree of one label gives its gains to that label. A tree for all labels divides the gain of a split among them by
    how far it parts their means: label k gets the share :math:`s_k / \sum_j s_j` with

        s_k = n_l (v_l,k − v_k)² + n_r (v_r,k − v_k)²,

    where v are means of the nodes (:mod:`seqboost.inspection.nodes`) and n their rows. The linear part of a model
    (``init="linear"``) has no gains: see :func:`linear_weights`.

    Parameters
    ----------
    model : TreeCRF
        A fitted model.
    kind : {"gain", "splits"}, default="gain"
        What is summed. Splits of a tree for all labels count for each label.

    Returns
    -------
    FeatureImportances

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.inspection import feature_importances
    >>> model = TreeCRF(window=1, max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
    >>> feature_importances(model).top(n=1)[0][0] in ("x0", "x0[-1]", "x0[+1]", "label[-1]")
    True
    """
    if kind not in ("gain", "splits"):
        raise ParameterError(f"kind={kind!r}: expected 'gain' or 'splits'")
    check_is_fitted(model)
    forest, layout = model._result.model.forest, model._result.model.binner.layout
    numbers, names = split_names(forest, layout)
    shares = np.ones((len(numbers), forest.n_labels))
    if not forest.is_shared:
        tree_of = np.repeat(np.arange(forest.n_trees), np.diff(forest.split_start))
        shares = (forest.tree_label[tree_of][:, None] == np.arange(forest.n_labels)).astype(np.float64)
    elif kind == "gain":
        shares = _label_shares(forest)
    weights = shares * (forest.gain.astype(np.float64)[:, None] if kind == "gain" else 1.0)
    values = np.zeros((forest.n_labels, len(names)))
    np.add.at(values.T, numbers, weights)
    return FeatureImportances(tuple(model.classes_.tolist()), tuple(names), values, kind)


def _label_shares(forest: Forest) -> NDArray[np.float64]:
    """Divide each split of trees for all labels among the labels; (n_splits, n_labels), rows sum to one."""
    shares = np.empty((len(forest.kind), forest.n_labels))
    for number in range(forest.n_trees):
        tree, first = forest.tree(number), int(forest.split_start[number])
        means, weights = node_means(tree)
        for node in range(tree.n_splits):
            parted = np.zeros(forest.n_labels)
            for child in (int(tree.left[node]), int(tree.right[node])):
                mean = means[child] if child >= 0 else tree.value[~child].astype(np.float64)
                n = weights[child] if child >= 0 else max(float(tree.leaf_rows[~child]), 1.0)
                parted += n * (mean - means[node]) ** 2
            total = parted.sum()
            shares[first + node] = parted / total if total > 0 else 1.0 / forest.n_labels
    return shares
