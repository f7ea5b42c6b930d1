"""Estimators: scikit-learn faces on the rooms below."""

from seqboost.estimators.treecrf import TreeCRF

__all__ = ["TreeCRF"]
