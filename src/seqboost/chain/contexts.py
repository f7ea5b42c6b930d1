"""Constraints on labels as tables of scores, by the contexts of :mod:`seqboost.core.contexts`."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqboost.core.contexts import ContextSpace
from seqboost.core.exceptions import ParameterError

__all__ = ["end_scores", "transition_table"]


def transition_table(
    space: ContextSpace,
    start: ArrayLike | None = None,
    allowed: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Turn constraints on labels into a table of scores: 0 where allowed, -inf where forbidden.

    Parameters
    ----------
    space : ContextSpace
        Contexts of the chain.
    start : bool array (K,), optional
        Labels that may open a sequence.
    allowed : bool array (K, K), optional
        ``allowed[a, b]``: label b may follow label a.

    Returns
    -------
    float64 array (E, K)
    """
    n_labels = space.n_labels
    table = np.zeros((space.n_extended, n_labels))
    if start is not None:
        if space.order == 0:
            raise _constraint_without_order("start")
        table[0, ~_boolean(start, (n_labels,), "start")] = -np.inf
    if allowed is not None:
        if space.order == 0:
            raise _constraint_without_order("allowed")
        may_follow = _boolean(allowed, (n_labels, n_labels), "allowed")
        for context_type in range(1, space.order + 1):
            first = int(space.base[context_type])
            previous = np.arange(n_labels**context_type) % n_labels
            table[first : first + previous.size][~may_follow[previous]] = -np.inf
    return table


def end_scores(space: ContextSpace, end: ArrayLike | None = None) -> NDArray[np.float64]:
    """Turn the labels that may close a sequence (bool (K,)) into scores 0 / -inf, shape (K,)."""
    scores = np.zeros(space.n_labels)
    if end is not None:
        if space.order == 0:
            raise _constraint_without_order("end")
        scores[~_boolean(end, (space.n_labels,), "end")] = -np.inf
    return scores


def _constraint_without_order(name: str) -> ParameterError:
    return ParameterError(
        f"the constraint {name!r} needs labels that see each other, but order is 0; use order=1 or more, "
        f"or drop the constraint"
    )


def _boolean(values: ArrayLike, shape: tuple[int, ...], name: str) -> NDArray[np.bool_]:
    array = np.asarray(values)
    if array.shape != shape or array.dtype != np.bool_:
        raise ParameterError(
            f"{name} must be a boolean array of shape {shape}, one entry per label in coded order; "
            f"got {array.dtype} of shape {array.shape}"
        )
    return array
