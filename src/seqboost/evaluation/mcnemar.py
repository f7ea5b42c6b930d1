"""McNemar's test: whether two labellers differ, or only err in different places."""

from __future__ import annotations

from typing import Any, NamedTuple

from scipy import stats

from seqboost.core.exceptions import ParameterError
from seqboost.evaluation.labels import right_labels

__all__ = ["McNemar", "mcnemar"]


class McNemar(NamedTuple):
    """What McNemar's test found.

    Attributes
    ----------
    only_a, only_b : int
        Positions where only the first, or only the second labeller is right.
    statistic : float
        The smaller of the two (exact test), or χ² with continuity correction.
    pvalue : float
        Two-sided.
    """

    only_a: int
    only_b: int
    statistic: float
    pvalue: float


def mcnemar(y_true: Any, a: Any, b: Any, *, exact: bool = True) -> McNemar:
    """Test whether two labellings are right equally often, position by position.

    Only positions where one is right and the other wrong count, n = n_a + n_b of them. If labellers were equally good,
    n_a would be binomial with p = 1/2; for large n

        χ² = (|n_a − n_b| − 1)² / (n_a + n_b)        with 1 degree of freedom.

    Parameters
    ----------
    y_true : list of label sequences, or flat sequence of labels
        None or NaN = unobserved: left out.
    a, b : as y_true
        Predictions of two labellers.
    exact : bool, default=True
        The binomial test, or the χ² test with continuity correction.

    Returns
    -------
    McNemar

    Raises
    ------
    InputError
        If the labellings do not have the same shape.

    Examples
    --------
    >>> from seqboost.evaluation import mcnemar
    >>> test = mcnemar([[0, 1, 1], [0, 0]], [[0, 1, 1], [0, 1]], [[0, 0, 0], [1, 0]])
    >>> test.only_a, test.only_b, test.pvalue
    (3, 1, 0.625)
    """
    if not isinstance(exact, bool):
        raise ParameterError(f"exact={exact!r}: expected True (binomial test) or False (chi-squared test).")
    right = right_labels(y_true, a=a, b=b)
    only_a, only_b = int((right["a"] & ~right["b"]).sum()), int((right["b"] & ~right["a"]).sum())
    n = only_a + only_b
    if exact:
        pvalue = float(stats.binomtest(only_a, n).pvalue) if n else 1.0
        return McNemar(only_a, only_b, float(min(only_a, only_b)), pvalue)
    statistic = max(abs(only_a - only_b) - 1, 0) ** 2 / n if n else 0.0
    return McNemar(only_a, only_b, statistic, float(stats.chi2.sf(statistic, 1)))
