"""Objectives: scores and labels -> derivatives for the trees."""

from seqboost.objectives.bags import BagLikelihood, Bags
from seqboost.objectives.beams import BeamLikelihood
from seqboost.objectives.derivatives import Derivatives
from seqboost.objectives.durations import DurationLikelihood, raise_if_short
from seqboost.objectives.effects import best_effect
from seqboost.objectives.forbidden import find_forbidden, raise_if_forbidden
from seqboost.objectives.likelihood import Likelihood
from seqboost.objectives.local import LocalLikelihood
from seqboost.objectives.objective import Objective
from seqboost.objectives.positionlikelihood import PositionLikelihood
from seqboost.objectives.predictions import Predictions
from seqboost.objectives.pseudolikelihood import PseudoLikelihood
from seqboost.objectives.seen import SeenLikelihood

__all__ = [
    "BagLikelihood",
    "Bags",
    "BeamLikelihood",
    "Derivatives",
    "DurationLikelihood",
    "Likelihood",
    "LocalLikelihood",
    "Objective",
    "PositionLikelihood",
    "Predictions",
    "PseudoLikelihood",
    "SeenLikelihood",
    "best_effect",
    "find_forbidden",
    "raise_if_forbidden",
    "raise_if_short",
]
