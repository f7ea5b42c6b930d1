"""Analysis of deviance: which method labels better, whatever training set it happened to have.

The model of chapter 4 of Hao (2009), after Agresti (1996):

    log P(ŷ_t = y_t) / P(ŷ_t ≠ y_t) = Σ_i δ_i m_i + Σ_ℓ σ_ℓ S_ℓ

m_i = 1 for predictions of method i (the baseline has none), S_ℓ = 1 for those after training on set ℓ. δ_i is the
change in log odds of a right label from the baseline to method i. Positions are taken as independent, as there.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from seqboost.core.exceptions import InputError, MissingExtraError, ParameterError

__all__ = ["Coefficient", "DevianceAnalysis", "DevianceTerm", "deviance_analysis"]

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


class Coefficient(NamedTuple):
    """One coefficient: a method's change in log odds from the baseline, or a training set's log odds."""

    name: Any
    value: float
    standard_error: float
    z: float
    pvalue: float

    @property
    def stars(self) -> str:
        """How significantly it differs from zero: ``*`` p < 0.05, ``**`` p < 0.01, ``***`` p < 0.001."""
        return next((stars for level, stars in STARS if self.pvalue < level), "")

    def __str__(self) -> str:
        """Write the coefficient as in the table of the source."""
        return f"{self.value:.3f}{self.stars}"


class DevianceTerm(NamedTuple):
    """What a term takes off the deviance when it joins those before it."""

    name: str
    degrees: int
    deviance: float
    pvalue: float


@dataclass(frozen=True)
class DevianceAnalysis:
    """What the analysis found.

    Attributes
    ----------
    baseline : object
        The method that others are measured against.
    methods : tuple of Coefficient
        δ of each other method.
    training_sets : tuple of Coefficient
        σ of each training set.
    terms : tuple of DevianceTerm
        First what the training sets, then what the methods take off the deviance.
    residual : float
        The deviance that is left.
    residual_degrees : int
    """

    baseline: Any
    methods: tuple[Coefficient, ...]
    training_sets: tuple[Coefficient, ...]
    terms: tuple[DevianceTerm, ...]
    residual: float
    residual_degrees: int

    def __str__(self) -> str:
        """Write coefficients and deviances as a table."""
        lines = [f"{'':24} {'coefficient':>12} {'error':>8} {'z':>8} {'p':>9}"]
        for c in (*self.methods, *self.training_sets):
            lines.append(
                f"{c.name!s:24} {c.value:12.4f} {c.standard_error:8.4f} {c.z:8.2f} {c.pvalue:9.2g} {c.stars}".rstrip()
            )
        lines += ["", f"{'':24} {'df':>12} {'deviance':>8} {'':>8} {'p':>9}"]
        lines += [f"{t.name:24} {t.degrees:12d} {t.deviance:8.2f} {'':>8} {t.pvalue:9.2g}" for t in self.terms]
        lines.append(f"{'residual':24} {self.residual_degrees:12d} {self.residual:8.2f}")
        lines.append(f"baseline: {self.baseline}; * p < 0.05, ** p < 0.01, *** p < 0.001")
        return "\n".join(lines)


def deviance_analysis(
    right: Any, method: Sequence[Any], training_set: Sequence[Any], *, n: Any = None, baseline: Any = None
) -> DevianceAnalysis:
    """Fit a logistic model of correctness on methods and training sets, and test its coefficients.

    Parameters
    ----------
    right : array-like
        Whether each label is right; or, with ``n``, how many labels of each evaluation are.
    method, training_set : array-like of the same length
        The method that made the predictions, and the training set it was fitted to.
    n : array-like, optional
        Number of labels of each evaluation.
    baseline : object, optional
        The method that others are measured against; the first one unless given.

    Returns
    -------
    DevianceAnalysis

    Raises
    ------
    MissingExtraError
        If statsmodels is not installed: ``pip install "seqboost[stats]"``.
    InputError
        If shapes differ, there are fewer than two methods, or a method or training set is always or never right, which
        has no finite log odds.
    ParameterError
        If there is no such baseline.

    Examples
    --------
    >>> from seqboost.evaluation import deviance_analysis
    >>> found = deviance_analysis([80, 83, 70, 75], ["a", "a", "b", "b"], [0, 1, 0, 1], n=[100] * 4)
    >>> print(*found.methods)
    -0.515*
    """
    counts = _counts(right, method, training_set, n)
    methods = list(dict.fromkeys(m for m, _ in counts))
    sets = list(dict.fromkeys(s for _, s in counts))
    if len(methods) < 2:
        raise InputError(f"An analysis of deviance compares methods; got only {methods[0]!r}.")
    baseline = methods[0] if baseline is None else baseline
    if baseline not in methods:
        raise ParameterError(f"baseline={baseline!r} is not one of the methods: {', '.join(map(repr, methods))}.")
    others = [m for m in methods if m != baseline]
    _check_finite(counts)
    answers = np.array([(r, total - r) for r, total in counts.values()], dtype=np.float64)
    of_methods = np.array([[m == other for other in others] for m, _ in counts], dtype=np.float64)
    of_sets = np.array([[s == known for known in sets] for _, s in counts], dtype=np.float64)
    if np.linalg.matrix_rank(np.hstack([of_methods, of_sets])) < len(others) + len(sets):
        raise InputError(
            "Methods and training sets cannot be told apart: every method needs training sets in common with others."
        )
    constant = np.ones((len(answers), 1))
    full = _fit(answers, np.hstack([of_methods, of_sets]))
    by_sets, alone = _fit(answers, of_sets), _fit(answers, constant)
    coefficients = [
        Coefficient(name, *(float(x) for x in values))
        for name, *values in zip([*others, *sets], full.params, full.bse, full.tvalues, full.pvalues, strict=True)
    ]
    terms = (
        _term("training sets", len(sets) - 1, alone.deviance - by_sets.deviance),
        _term("methods", len(others), by_sets.deviance - full.deviance),
    )
    return DevianceAnalysis(
        baseline, tuple(coefficients[: len(others)]), tuple(coefficients[len(others) :]), terms, float(full.deviance),
        int(full.df_resid),
    )  # fmt: skip


def _counts(right: Any, method: Any, training_set: Any, n: Any) -> dict[tuple[Any, Any], tuple[float, float]]:
    """Sum right and all labels of each pair of method and training set: all that the likelihood depends on."""
    right, method, training_set = np.asarray(right, dtype=np.float64), list(method), list(training_set)
    n = np.ones(len(right)) if n is None else np.asarray(n, dtype=np.float64)
    if not len(right) == len(n) == len(method) == len(training_set) or right.ndim != 1 or n.ndim != 1:
        raise InputError(
            f"right, method, training_set and n need one entry for each evaluation; got {right.shape}, "
            f"({len(method)},), ({len(training_set)},) and {n.shape}."
        )
    if len(right) == 0 or not ((right >= 0) & (right <= n)).all():
        raise InputError("right must hold truth values, or with n numbers of right labels from 0 to n; not nothing.")
    counts: dict[tuple[Any, Any], tuple[float, float]] = {}
    for pair, r, total in zip(zip(method, training_set, strict=True), right.tolist(), n.tolist(), strict=True):
        before = counts.get(pair, (0.0, 0.0))
        counts[pair] = (before[0] + r, before[1] + total)
    return counts


def _check_finite(counts: dict[tuple[Any, Any], tuple[float, float]]) -> None:
    """Refuse methods and training sets that are always or never right."""
    for place, what in enumerate(("method", "training set")):
        sums: dict[Any, NDArray[np.float64]] = {}
        for pair, count in counts.items():
            sums[pair[place]] = sums.get(pair[place], np.zeros(2)) + np.array(count)
        for name, (r, total) in sums.items():
            if r in (0, total):
                raise InputError(
                    f"{what} {name!r} has {r:g} of {total:g} labels right: its log odds are infinite. Leave it out, or "
                    f"test on more sequences."
                )


def _fit(answers: NDArray[np.float64], design: NDArray[np.float64]) -> Any:
    try:
        import statsmodels.api as sm
        from statsmodels.tools.sm_exceptions import PerfectSeparationWarning
    except ImportError as error:
        raise MissingExtraError(
            'deviance_analysis needs statsmodels, which is not installed: pip install "seqboost[stats]"'
        ) from error
    # A model with as many coefficients as answers fits perfectly, and rightly: infinite log odds are refused before.
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", PerfectSeparationWarning)
        return sm.GLM(answers, design, family=sm.families.Binomial()).fit()


def _term(name: str, degrees: int, deviance: float) -> DevianceTerm:
    deviance = max(float(deviance), 0.0)
    return DevianceTerm(name, degrees, deviance, float(stats.chi2.sf(deviance, degrees)) if degrees else 1.0)
