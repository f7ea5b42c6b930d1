"""How good labellings are, and whether one is better than another."""

from __future__ import annotations

from seqboost.evaluation.calibration import Calibration, CalibrationBin, calibration
from seqboost.evaluation.chunks import SpanScores, span_scores
from seqboost.evaluation.compare import Comparison, compare
from seqboost.evaluation.deviance import DevianceAnalysis, deviance_analysis
from seqboost.evaluation.labelling import LabelledSequences, label_sequences
from seqboost.evaluation.mcnemar import McNemar, mcnemar
from seqboost.evaluation.permutation import PermutationTest, permutation_test
from seqboost.evaluation.report import Evaluation, evaluate
from seqboost.evaluation.scorers import SequenceScorer, sequence_scorer
from seqboost.evaluation.scores import (
    Confusion,
    LabelScore,
    accuracy,
    confusion,
    label_scores,
    sequence_accuracy,
)
from seqboost.evaluation.splitting import SequenceKFold

__all__ = [
    "Calibration",
    "CalibrationBin",
    "Comparison",
    "Confusion",
    "DevianceAnalysis",
    "Evaluation",
    "LabelScore",
    "LabelledSequences",
    "McNemar",
    "PermutationTest",
    "SequenceKFold",
    "SequenceScorer",
    "SpanScores",
    "accuracy",
    "calibration",
    "compare",
    "confusion",
    "deviance_analysis",
    "evaluate",
    "label_scores",
    "label_sequences",
    "mcnemar",
    "permutation_test",
    "sequence_accuracy",
    "sequence_scorer",
    "span_scores",
]
