"""Why a position got its label: what spoke for it, and what against it, in log odds.

Let k be the label that was given and j a rival. With c the labels given to the positions before (the context), and
F^k(c, x_t) the sum of the trees (and of the linear part) for label k,

    log P(y_t = k | X) − log P(y_t = j | X)
        = Σ_f [φ_f^k − φ_f^j]           what the features say
        + [b^k − b^j]                   what the trees say without looking
        + r                             what the labels around say

A walk of a tree from its root to a leaf goes through means of nodes v_0 (root), v_1, …, v_d (the leaf's value). The
split at step i tests one feature, which is credited with v_i − v_{i−1}. Summed over all trees of label k, credits make
φ_f^k and root means b^k, so that exactly

    b^k + Σ_f φ_f^k = F^k(c, x_t).

The linear part credits each of its features with weight · value. The rest, r, is the difference between the log odds
and F^k(c, x_t) − F^j(c, x_t): transitions from the labels before and to those after, and through them all that is known
about other positions. For factored potentials r is exactly what the messages of forward–backward say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from seqboost.core.contexts import ContextSpace
from seqboost.core.exceptions import InputError, ParameterError
from seqboost.features import BinnedRows
from seqboost.inspection.linear import column_names
from seqboost.inspection.nodes import node_means
from seqboost.sequences import SequenceBatch
from seqboost.trees import Tree
from seqboost.trees.tree import DENSE, LAG, SPARSE

__all__ = ["Contribution", "Explanation", "PositionExplanation", "explain"]

LEAST = 1e-30  # probabilities below are those of forbidden labels
TOLERANCE = 1e-3  # of scores, which are sums of float32

Key = tuple[str, int]  # column, offset; "label" for labels before


class Contribution(NamedTuple):
    """What one feature adds to the log odds of the label against its rival.

    Attributes
    ----------
    name : str
        A column, with its offset: ``x[-1]``; ``label[-1]`` is the label before.
    value : str
        What the feature is there; "" for an indicator that is on, "–" for nothing there.
    log_odds : float
        Positive: it spoke for the label.
    """

    name: str
    value: str
    log_odds: float


@dataclass(frozen=True, eq=False)
class PositionExplanation:
    """Why a position got its label.

    Attributes
    ----------
    position : int
    label, rival : object
        The label given, and the one it is compared with.
    proba : ndarray of shape (n_labels,)
        Probabilities of all labels.
    log_odds : float
        log P(label) − log P(rival) = base + around + sum of the contributions.
    base : float
        What the trees say on average.
    around : float
        What the labels around say.
    contributions : tuple of Contribution
        What the features say, the strongest first.
    """

    position: int
    label: Any
    rival: Any
    proba: NDArray[np.float64]
    log_odds: float
    base: float
    around: float
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a sequence got its labels.

    Attributes
    ----------
    labels : tuple
        All labels, in the order of ``proba``.
    positions : tuple of PositionExplanation
    """

    labels: tuple[Any, ...]
    positions: tuple[PositionExplanation, ...]


def explain(model: Any, X: Any, sequence: int = 0, against: Any = None) -> Explanation:
    """Say for each position of a sequence what spoke for its label, and what against it.

    Parameters
    ----------
    model : TreeCRF
        A fitted model.
    X : as in ``fit``
        Sequences.
    sequence : int, default=0
        Which of them.
    against : object, optional
        The rival label; the most probable other one at each position unless given.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.inspection import explain
    >>> model = TreeCRF(window=1, max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
    >>> found = explain(model, ["manana"]).positions[1]
    >>> parts = found.base + found.around + sum(c.log_odds for c in found.contributions)
    >>> found.label, found.rival, abs(parts - found.log_odds) < 1e-6
    (np.str_('1'), np.str_('0'), True)
    """
    check_is_fitted(model)
    labels = model.classes_.tolist()
    if against is not None and against not in labels:
        raise ParameterError(f"there is no label {against!r}; the labels are {', '.join(map(repr, labels[:20]))}")
    batch = model._batch(X)
    if not 0 <= sequence < batch.n_sequences:
        raise InputError(f"there is no sequence {sequence}: X has {batch.n_sequences}, numbered from 0")
    batch = batch[[sequence]]
    _, potentials = model._potentials(batch)
    proba = model._label_probs(potentials).astype(np.float64)
    given = model._codes(batch)
    scorer = _Scorer(model, batch)
    positions = []
    for t in range(batch.n_rows):
        k = int(given[t])
        j = _rival(proba[t], k) if against is None else labels.index(against)
        before = [int(given[t - lag]) if lag <= t else len(labels) for lag in range(1, scorer.order + 1)]
        base, credits = scorer.credits(t, before)
        _check(base, credits, potentials.scores, t, before, len(labels))
        features = {key: float(credit[k] - credit[j]) for key, credit in credits.items()}
        log_odds = float(np.log(max(proba[t, k], LEAST)) - np.log(max(proba[t, j], LEAST)))
        own = float(base[k] - base[j])
        strongest = sorted(features.items(), key=lambda item: -abs(item[1]))
        said = tuple(Contribution(_name(key), scorer.value(t, key, before), credit) for key, credit in strongest)
        around = log_odds - own - sum(features.values())
        positions.append(
            PositionExplanation(t, model.classes_[k], model.classes_[j], proba[t], log_odds, own, around, said)
        )
    return Explanation(tuple(labels), tuple(positions))


def _rival(proba: NDArray[np.float64], label: int) -> int:
    others = proba.copy()
    others[label] = -1.0
    return int(np.argmax(others))


def _name(key: Key) -> str:
    return key[0] if key[1] == 0 else f"{key[0]}[{key[1]:+d}]"


def _check(base: Any, credits: dict[Key, Any], scores: Any, t: int, before: list[int], n_labels: int) -> None:
    """Refuse to explain scores that the walks do not add up to: the model scores in another way than it was walked."""
    slot = 0
    if scores.shape[2] > 1:
        slot = ContextSpace(n_labels, len(before)).number(label for label in before if label < n_labels)
    total = base + sum(credits.values())
    if not np.allclose(total, scores[:, t, slot], rtol=TOLERANCE, atol=TOLERANCE):
        raise InputError(
            f"position {t} cannot be explained: what its features are credited with does not add up to its scores; "
            "models whose trees send a position both ways (missing=...) are not explained yet"
        )


class _Scorer:
    """Credits features for the scores of the positions of one sequence."""

    def __init__(self, model: Any, batch: SequenceBatch) -> None:
        frozen = model._result.model
        self.batch = batch
        self.forest = frozen.forest
        self.order = frozen.forest.order
        self.layout = frozen.binner.layout
        self.binned: BinnedRows = frozen.binner.transform(batch)
        self.linear = frozen.linear
        if self.linear is not None:
            self.linear_names = column_names(self.linear.columns, model._schema)
            self.rows = self.linear.columns.transform(batch)
        self.trees = [self.forest.tree(number) for number in range(self.forest.n_trees)]
        self.means = [node_means(tree)[0] for tree in self.trees]
        self.n_labels = self.forest.n_labels
        self._values = _values(batch)

    def credits(self, t: int, before: list[int]) -> tuple[NDArray[np.float64], dict[Key, NDArray[np.float64]]]:
        """Return b (n_labels,), and φ (n_labels,) of each feature, for the labels ``before`` (nearest first)."""
        base = np.zeros(self.n_labels)
        credits: dict[Key, NDArray[np.float64]] = {}
        for tree, means, label in zip(self.trees, self.means, self.forest.tree_label.tolist(), strict=True):
            target: Any = slice(None) if label < 0 else slice(label, label + 1)
            leaves = tree.value.reshape(tree.n_leaves, -1)
            node = 0 if tree.n_splits else -1
            now = means[0] if tree.n_splits else leaves[0].astype(np.float64)
            base[target] += now
            while node >= 0:
                key, left = self._test(tree, node, t, before)
                node = int(tree.left[node] if left else tree.right[node])
                then = means[node] if node >= 0 else leaves[~node].astype(np.float64)
                credits.setdefault(key, np.zeros(self.n_labels))[target] += then - now
                now = then
        if self.linear is not None:
            self._add_linear(t, credits)
        return base, credits

    def _test(self, tree: Tree, node: int, t: int, before: list[int]) -> tuple[Key, bool]:
        """Return the feature that a split tests, and whether a position goes left there."""
        feature = int(tree.feature[node])
        words = tree.words[tree.word_start[node] : tree.word_start[node + 1]]
        layout, binned = self.layout, self.binned
        if tree.kind[node] == DENSE:
            place = binned.address[t] + layout.displacement[feature]
            values = [int(binned.codes.ravel()[place])]
            key = (layout.column_names[layout.column[feature]], int(layout.offset[feature]))
        elif tree.kind[node] == SPARSE:
            o, s = divmod(feature, layout.n_sparse)
            row = binned.padded_row[t] + layout.sparse_offsets[o]
            slots = binned.slot_indices[binned.slot_indptr[row] : binned.slot_indptr[row + 1]]
            first, end = layout.slot_start[s], layout.slot_start[s + 1]
            values = [int(slot - first) for slot in slots if first <= slot < end]
            key = (layout.sparse_names[s], int(layout.sparse_offsets[o]))
        else:
            assert tree.kind[node] == LAG
            values, key = [before[feature - 1]], ("label", -feature)
        return key, any(int(words[v // 64]) >> (v % 64) & 1 for v in values)

    def _add_linear(self, t: int, credits: dict[Key, NDArray[np.float64]]) -> None:
        """Credit the features of the linear part with weight · value."""
        linear, rows, columns = self.linear, self.rows, self.linear.columns
        for o, offset in enumerate(columns.offsets.tolist()):
            at = t + offset
            if 0 <= at < self.batch.n_rows:
                pairs = range(rows.indptr[at], rows.indptr[at + 1])
                found = [(int(rows.column[p]), float(rows.value[p])) for p in pairs if rows.column[p] >= 0]
                used = [(columns.feature_of[o, j], value, (self.linear_names[j][0], offset)) for j, value in found]
            else:
                used = [(columns.boundary[o], 1.0, ("(outside)", offset))]
            for feature, value, key in used:
                if feature >= 0:
                    span = slice(linear.start[feature], linear.start[feature + 1])
                    credit = credits.setdefault(key, np.zeros(self.n_labels))
                    credit[linear.label[span]] += value * linear.value[span].astype(np.float64)

    def value(self, t: int, key: Key, before: list[int]) -> str:
        """Return what a feature is at a position."""
        column, offset = key
        if column == "label" and column not in self._values:
            return ""
        at = t + offset
        if not 0 <= at < self.batch.n_rows:
            return "–"
        known = self._values.get(column)
        return "" if known is None else known[at]


def _values(batch: SequenceBatch) -> dict[str, list[str]]:
    """Return the values of all columns of a short batch as text; indicators "1" or "–"."""
    values: dict[str, list[str]] = {}
    n_numeric = n_categorical = 0
    for column in batch.schema.columns:
        if column.kind == "numeric":
            numbers = batch.numeric[:, n_numeric].tolist()
            values[column.name] = ["missing" if x != x else f"{x:g}" for x in numbers]
            n_numeric += 1
        else:
            codes, categories = batch.categorical[:, n_categorical].tolist(), batch.categories[n_categorical]
            values[column.name] = ["missing" if c < 0 else str(categories[c]) for c in codes]
            n_categorical += 1
    if batch.sparse is not None:
        for row in range(batch.n_rows):
            for place in range(batch.sparse.indptr[row], batch.sparse.indptr[row + 1]):
                name = batch.schema.sparse_names[batch.sparse.indices[place]]
                column_values = values.setdefault(name, ["–"] * batch.n_rows)
                column_values[row] = f"{batch.sparse.data[place]:g}"
    return values
