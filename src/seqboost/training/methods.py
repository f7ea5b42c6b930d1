"""From parameter to method: which objective, which examples, which steps, which directions.

=============================  ======================================  ===============================================
in the literature              parameter                               module
=============================  ======================================  ===============================================
pseudo-likelihood start        ``pseudo_likelihood_rounds``            ``objectives/pseudolikelihood.py``
posteriors of single labels    ``objective="position_likelihood"``     ``objectives/positionlikelihood.py``
step 1, line search            ``step``                                ``boosting/steps.py``
conjugate directions           ``direction="conjugate"``               ``boosting/directions.py``
stratified sampling, "1p/3n"   ``sampling``                            ``boosting/sampling.py``
reweighted examples            ``sampling="balanced"``                 ``boosting/sampling.py``
influence trimming, GOSS       ``sampling``                            ``boosting/sampling.py``
forests of bagged trees        ``n_bags``                              ``boosting/ensemble.py``
mean of gradients in leaves    ``curvature="count"``                   ``objectives/curvature.py``
=============================  ======================================  ===============================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seqboost.boosting import (
    ConjugateEnsemble,
    Ensemble,
    Everything,
    FixedStep,
    Goss,
    LineSearch,
    SafeStep,
    Sampler,
    Sequences,
    Step,
    Stratified,
    Trimmed,
    Uniform,
)
from seqboost.core.exceptions import ParameterError
from seqboost.core.parameters import Rule, real
from seqboost.objectives import Likelihood, LocalLikelihood, PositionLikelihood, PseudoLikelihood

__all__ = [
    "ObjectiveClass",
    "ensemble_maker",
    "objective_class",
    "sampler_of",
    "sampling_rule",
    "step_of",
]

ObjectiveClass = type[Likelihood] | type[LocalLikelihood] | type[PositionLikelihood] | type[PseudoLikelihood]

BAG_SHARE = 0.632  # of the positions in a bootstrap sample that are different ones

SAMPLERS = (Uniform, Sequences, Stratified, Trimmed, Goss)


def sampling_rule() -> Rule:
    """Allow what :func:`sampler_of` understands."""

    def holds(value: Any) -> bool:
        try:
            sampler_of(value, 1)
        except ParameterError:
            return False
        return True

    expected = (
        "None, a share above 0 and at most 1, 'goss', 'balanced', a scheme such as '1p/3n', or a sampler of "
        "seqboost.sampling"
    )
    return holds, expected


def sampler_of(sampling: Any, n_bags: int) -> Sampler:
    """Return the sampler that a value of ``sampling`` stands for; bags without one get one each."""
    if sampling is None:
        return Everything() if n_bags == 1 else Uniform(BAG_SHARE)
    if isinstance(sampling, SAMPLERS):
        return sampling
    if isinstance(sampling, str):
        if sampling in ("goss", "balanced"):
            return Goss() if sampling == "goss" else Stratified(balanced=True)
        return Stratified.parse(sampling)
    if real(0, 1, open_low=True)[0](sampling):
        return Uniform(float(sampling))
    raise ParameterError(f"sampling cannot be {sampling!r}")


def step_of(step: str, curvature: str, learning_rate: float) -> Step:
    """Return the rule of steps; with "auto", the papers' curvature gets the papers' fixed one."""
    if step == "auto":
        step = "fixed" if curvature == "count" else "safe"
    if step == "line_search":
        return LineSearch(min(1.0, learning_rate))
    return SafeStep() if step == "safe" else FixedStep()


OBJECTIVES: dict[str, ObjectiveClass] = {
    "likelihood": Likelihood,
    "position_likelihood": PositionLikelihood,
    "pseudo_likelihood": PseudoLikelihood,
    "local": LocalLikelihood,  # of MEMM
}


def objective_class(objective: str) -> ObjectiveClass:
    """Return the objective."""
    return OBJECTIVES[objective]


def ensemble_maker(direction: str, n_fitted: int) -> Callable[..., Ensemble]:
    """Return what makes the ensemble from scores, table and number of threads."""
    if direction == "gradient":
        return Ensemble
    return lambda *start: ConjugateEnsemble(*start, n_fitted=n_fitted)
