"""What a prediction is asked besides X: labels that are known, costs of errors, a beam."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Chain
from seqboost.core.exceptions import ParameterError
from seqboost.core.labelsets import UNOBSERVED, LabelSets, allowed_labels, forbid_others

__all__ = ["NO_QUERY", "Query", "cheapest", "cost_matrix", "expected_costs", "scaled_costs"]


COSTS_EXPECTED = (
    "expected a dict {(true, predicted): cost} or {true: {predicted: cost}}, a DataFrame with true labels as index and "
    "predicted ones as columns, or an array of shape (n_labels, n_labels) in the order of classes_ (row = true)"
)


@dataclass(frozen=True, eq=False)
class Query:
    """Labels that are known, costs of errors, and a beam; each may be absent."""

    labels: NDArray[np.int32] | None = None  # (n_rows,) codes, −1 = unknown, −3 − i = one of set i
    sets: LabelSets | None = None  # (n_sets, n_labels)
    costs: NDArray[np.float64] | None = None  # (n_labels, n_labels), row = true, column = predicted
    beam: int | None = None  # None: that of the labeler

    def rows(self, start: int, stop: int) -> Query:
        """Return the same for some of the rows."""
        return self if self.labels is None else replace(self, labels=self.labels[start:stop])

    def allowed(self, potentials: Chain) -> Chain:
        """Return the chain with -inf for labels other than the known ones."""
        if self.labels is None:
            return potentials
        scores = potentials.scores.copy()
        forbid_others(scores, self.labels, self.sets)
        return potentials.with_scores(scores)

    @classmethod
    def of(cls, labels: NDArray[np.int32] | None, sets: LabelSets | None, costs: Any, beam: int | None) -> Query:
        """Return a query; labels of which none is known are none."""
        if labels is not None and bool(np.all(labels == UNOBSERVED)):
            labels = None
        return cls(labels, sets, costs, beam)


NO_QUERY = Query()


def expected_costs(prob: NDArray[Any], query: Query) -> NDArray[np.float64]:
    """Return Σ_j P(y_t = j | X) costs[j, k], (N, K), infinite for labels other than the known ones."""
    costs = 1.0 - np.eye(prob.shape[1]) if query.costs is None else query.costs
    expected = prob.astype(np.float64) @ costs
    if query.labels is not None:
        expected[~allowed_labels(query.labels, prob.shape[1], query.sets)] = np.inf
    return expected


def scaled_costs(prob: NDArray[Any], query: Query) -> NDArray[np.float32]:
    """Return expected costs as scores of a chain: the largest cost is 1, for it may be too large for their type."""
    expected, largest = expected_costs(prob, query), 1.0 if query.costs is None else float(np.abs(query.costs).max())
    return (expected / largest if largest > 0.0 else expected).astype(np.float32)


def cheapest(prob: NDArray[Any], query: Query) -> NDArray[np.int32]:
    """Return the code of the label of least expected cost at each position, (N,); without costs the most probable."""
    gain = prob if query.costs is None else -expected_costs(prob, query)
    codes: NDArray[np.int32] = np.argmax(gain, axis=1).astype(np.int32)
    return codes


def cost_matrix(costs: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the costs as an array, row = true label, column = predicted label.

    Parameters
    ----------
    costs : dict, DataFrame or array
        ``{(true, predicted): cost}`` or ``{true: {predicted: cost}}``; pairs that it does not name cost 0 if they are
        right and 1 if they are wrong. Tables and arrays hold the cost of every pair.
    classes : ndarray of shape (n_labels,)
        The labels.

    Examples
    --------
    >>> cost_matrix({("ill", "well"): 20}, np.array(["ill", "well"]))
    array([[ 0., 20.],
           [ 1.,  0.]])
    """
    if hasattr(costs, "columns"):
        matrix = _from_table(costs, classes)
    elif isinstance(costs, Mapping):
        matrix = _from_mapping(costs, classes)
    else:
        try:
            matrix = np.array(costs, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(f"costs is {costs!r:.100}; {COSTS_EXPECTED}.") from None
        if matrix.shape != (len(classes), len(classes)):
            raise ParameterError(
                f"costs has shape {matrix.shape}, but there are {len(classes)} labels; {COSTS_EXPECTED}."
            )
    strange = np.argwhere(~np.isfinite(matrix))
    if len(strange):
        true, predicted = classes[strange[0]].tolist()
        raise ParameterError(
            f"costs must be finite, but predicting {predicted!r} for {true!r} costs {matrix[tuple(strange[0])]}."
        )
    return matrix


def _from_mapping(costs: Mapping[Any, Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the matrix of a dict."""
    pairs: dict[tuple[Any, Any], Any] = {}
    for key, value in costs.items():
        if isinstance(value, Mapping):
            pairs |= {(key, predicted): cost for predicted, cost in value.items()}
        elif isinstance(key, tuple) and len(key) == 2:
            pairs[key] = value
        else:
            raise ParameterError(f"costs holds {value!r} for {key!r}; {COSTS_EXPECTED}.")
    matrix = 1.0 - np.eye(len(classes))
    true, predicted = (_codes([pair[side] for pair in pairs], classes) for side in (0, 1))
    for i, (pair, cost) in enumerate(pairs.items()):
        try:
            matrix[true[i], predicted[i]] = float(cost)
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(f"costs[{pair!r}] is {cost!r}; a cost must be a finite number.") from None
    return matrix


def _from_table(costs: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the matrix of a table, by the labels in its index and columns."""
    if not hasattr(costs, "index"):
        raise ParameterError(
            f"costs is a table without names for its rows ({type(costs).__name__}), so rows cannot be matched with "
            f"labels. Pass a pandas DataFrame with the true labels as index, or a dict {{true: {{predicted: cost}}}}."
        )
    sides = costs.index.tolist(), costs.columns.tolist()
    true, predicted = (_codes(side, classes) for side in sides)
    for codes, what in ((true, "index"), (predicted, "columns")):
        if sorted(codes) != list(range(len(classes))):
            raise ParameterError(f"The {what} of costs must hold every label once: {classes.tolist()[:20]}.")
    matrix = np.empty((len(classes), len(classes)))
    try:
        matrix[np.ix_(true, predicted)] = costs.to_numpy().astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError("The costs table must hold numbers, and no missing values.") from None
    return matrix


def _codes(labels: Iterable[Any], classes: NDArray[Any]) -> list[int]:
    """Return the codes of labels."""
    code_of = {(isinstance(label, bool), label): k for k, label in enumerate(classes.tolist())}  # True is not 1
    codes = []
    for label in labels:
        code = code_of.get((isinstance(label, (bool, np.bool_)), label))
        if code is None:
            raise ParameterError(
                f"costs names the label {label!r}, which training did not have. The labels are "
                f"{classes.tolist()[:20]}; 0 and '0' are different labels."
            )
        codes.append(code)
    return codes
