"""The family of labellers around TreeCRF, all with its faces: see :mod:`seqboost.estimators.labeler`.

==============================  ==========================================================  ======================
labeller                        model                                                       trained by
==============================  ==========================================================  ======================
``SlidingWindow``               P(y_t | w_t(X)), any classifier of scikit-learn             that classifier
``RecurrentSlidingWindow``      P(y_t | y_{t-1}, .., w_t(X)), read greedily                 that classifier
``HMM``                         P(y_t | y_{t-1}, ..) P(x_t | y_t)                           counting
``MEMM``                        P(y_t | y_{t-1}, .., w_t(X)), boosted trees                 our own loop
``IOHMM``                       P(s_t | s_{t-1}, w_t) P(y_t | s_t, w_t), s hidden           EM
``LinearCRF``                   exp Σ w·φ(y_{t-1}, y_t, w_t(X)) / Z(X)                      CRFsuite
``VotedPerceptron``             argmax Σ w·φ(y_{t-1}, y_t, w_t(X))                          mistakes
``OutputCoding``                many binary labellers of any kind, a code of labels         their own training
==============================  ==========================================================  ======================

Two ways to see a window: classifiers of scikit-learn get a matrix (``matrices.py``); linear models of our own get the
sparse pairs of ``seqboost.features.LinearColumns``.
"""

from seqboost.estimators.family.hmm import HMM
from seqboost.estimators.family.iohmm import IOHMM
from seqboost.estimators.family.linearcrf import LinearCRF
from seqboost.estimators.family.memm import MEMM
from seqboost.estimators.family.outputcoding import OutputCoding
from seqboost.estimators.family.perceptron import VotedPerceptron
from seqboost.estimators.family.windows import RecurrentSlidingWindow, SlidingWindow

__all__ = [
    "HMM",
    "IOHMM",
    "LinearCRF",
    "MEMM",
    "OutputCoding",
    "RecurrentSlidingWindow",
    "SlidingWindow",
    "VotedPerceptron",
]
