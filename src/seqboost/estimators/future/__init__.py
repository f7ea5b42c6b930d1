"""Labellers that look for what decides a label further on: future features by multiple-instance boosting.

The model of Hao (2009, chapter 5), for any number of labels and either direction::

    P(y_t = k | y_{t−1}, …, X) ∝ exp( F^k(context, window, h_t) + Σ_i η_ik Q_i(B_t) )        h_t = Q_1(B_t), Q_2(B_t), …

    level 1   trees of F on the window, the labels before and the patterns known so far
    level 2   a pattern: trees of G on single positions, Q its noisy or over the bag B_t, η its weight for each label

Level 1 grows until held-out sequences gain no more, then level 2 finds a pattern, whose Q becomes a column of level 1,
and so on until no pattern helps.
"""

from seqboost.estimators.future.features import FutureFeatures
from seqboost.estimators.future.memm import FutureFeatureMEMM
from seqboost.estimators.future.model import FuturePattern

__all__ = ["FutureFeatureMEMM", "FutureFeatures", "FuturePattern"]
