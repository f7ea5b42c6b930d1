"""Spans found, as conlleval counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from seqboost.core.exceptions import InputError
from seqboost.evaluation.scores import LabelScore, is_observed, paired
from seqboost.files import spans_of

__all__ = ["SpanScores", "span_scores"]


@dataclass(frozen=True)
class SpanScores:
    """Precision, recall and F1 of spans.

    Attributes
    ----------
    overall : LabelScore
        Of all spans together ("micro" average), conlleval's bottom line.
    by_type : tuple of LabelScore
        Of the spans of each type.
    n_left_out : int
        Sequences with unobserved labels, which have no spans to compare.
    """

    overall: LabelScore
    by_type: tuple[LabelScore, ...]
    n_left_out: int = 0


def span_scores(y_true: Any, y_pred: Any, scheme: str) -> SpanScores:
    """Compare the spans of two taggings: a span is right if its type and both its ends are.

    Tags that break their scheme count as conlleval counts them; see :func:`seqboost.files.spans_of`.

    Parameters
    ----------
    y_true, y_pred : list of label sequences
        Tags of the same sequences.
    scheme : {"IOB1", "IOB2", "BIO", "BIOES", "IOBES"}
        The scheme of the tags; never guessed.

    Examples
    --------
    >>> found = span_scores([["B-NP", "I-NP", "O"]], [["B-NP", "O", "B-VP"]], "IOB2")
    >>> found.overall.n_true, found.overall.n_predicted, found.overall.f1
    (1, 2, 0.0)
    """
    n_true: Counter[str] = Counter()
    n_predicted: Counter[str] = Counter()
    n_right: Counter[str] = Counter()
    n_left_out = 0
    for s, (true, predicted) in enumerate(paired(y_true, y_pred)):
        if not all(map(is_observed, true)):
            n_left_out += 1
            continue
        try:
            spans, found = set(spans_of(true, scheme)), set(spans_of(predicted, scheme))
        except InputError as error:
            raise InputError(f"sequence {s}, {error}") from None
        n_true.update(span.kind for span in spans)
        n_predicted.update(span.kind for span in found)
        n_right.update(span.kind for span in spans & found)
    kinds = sorted(set(n_true) | set(n_predicted))
    scores = [LabelScore.from_counts(kind, n_true[kind], n_predicted[kind], n_right[kind]) for kind in kinds]
    overall = LabelScore.from_counts("all", n_true.total(), n_predicted.total(), n_right.total())
    return SpanScores(overall, tuple(scores), n_left_out)
