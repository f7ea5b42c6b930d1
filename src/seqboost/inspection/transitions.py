"""Which label follows which, before the input says anything."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from seqboost.core.exceptions import ParameterError

__all__ = ["Transition", "transitions"]


class Transition(NamedTuple):
    """A label, the label after it, and the score of that: −inf = forbidden."""

    before: Any
    after: Any
    score: float


def transitions(model: Any) -> list[Transition]:
    """Return all transitions of a model of order 1, the strongest first.

    Scores of transitions from one label are comparable with one another; the trees are added to them.

    Parameters
    ----------
    model : TreeCRF
        A fitted model of order 1.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.inspection import transitions
    >>> model = TreeCRF(max_iter=5).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
    >>> [(t.before, t.after) for t in transitions(model)][:2]
    [('0', '1'), ('1', '0')]
    """
    check_is_fitted(model)
    if model._result.model.order != 1:
        raise ParameterError(
            f"transitions are pairs of labels in models of order 1; this one is of order {model._result.model.order}"
        )
    scores = model.transition_scores_
    labels = model.classes_.tolist()
    order = np.argsort(-scores, axis=None, kind="stable")
    places = (divmod(int(i), len(labels)) for i in order)
    return [Transition(labels[i], labels[j], float(scores[i, j])) for i, j in places]
