"""IOHMM: an input–output hidden Markov model, trained by EM.

    P(Y | X) = Σ_s Π_t P(s_t | s_{t-1}, x_t) P(y_t | s_t, x_t)          s_t one of S hidden states

    P(s_t = j | s_{t-1} = i, x) = softmax_j (W_i · x)_j                 W_⊥ for the first position
    P(y_t = k | s_t = j, x)     = softmax_k (U_j · x)_k                 x: the features of `LinearColumns`, and 1

The E-step asks ``seqboost.chain`` for P(s_{t-1}, s_t | Y, X): states are the labels of its chain. The M-step climbs

    Q = Σ_t Σ_ij P(i, j | Y, X) log P(j | i, x_t) + Σ_t Σ_j P(j | Y, X) log P(y_t | j, x_t) − λ/2 (‖W‖² + ‖U‖²)

by a few steps of L-BFGS, and never takes one that lowers it; so log P(Y | X) − λ/2 (‖W‖² + ‖U‖²) never falls.

Given X alone states see no labels, so P(s_t | X) depends on what came before t only (label bias).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from seqboost.chain import Potentials, posterior
from seqboost.core.parameters import (
    Rule,
    check_parameters,
    integer,
    n_jobs_rule,
    plain_number,
    random_state_rule,
    real,
)
from seqboost.core.stored import LARGEST_SCORE, Stored, part_of
from seqboost.estimators.arguments import unchanged_on_failure
from seqboost.estimators.family.linear import fit_columns
from seqboost.estimators.family.matrices import indicator_matrix
from seqboost.estimators.labeler import Labeler
from seqboost.features import FeatureBinner
from seqboost.linear import LinearColumns
from seqboost.sequences import LabelCoder, SequenceBatch
from seqboost.training.defaults import automatic_window

__all__ = ["IOHMM"]

STEPS = 10  # of L-BFGS in each M-step
TIED = 2.0  # how much a state prefers its own label at the start
NOISE = 0.01

RULES: dict[str, Rule] = {
    "random_state": random_state_rule(),
    "n_states": integer(2, 1000, none=True),
    "max_iter": integer(1),
    "tol": real(0),
    "l2_regularization": real(0),
    "n_jobs": n_jobs_rule(),
}


class IOHMM(Labeler):
    """Label sequences with an input–output hidden Markov model.

    For small data: the number of weights is (states + 1) × states + states × labels for each feature of the window.

    Parameters
    ----------
    n_states : int or None, default=None
        Number of hidden states; None: as many as labels.
    max_iter : int, default=30
        Largest number of rounds of EM.
    tol : float, default=1e-4
        Rise of the penalised log-likelihood per position below which EM ends.
    l2_regularization : float, default=1.0
        λ.
    window : "auto", int, tuple, list or dict, default=0
        As in :class:`~seqboost.TreeCRF`.
    random_state : int, RandomState or None, default=None
        Seed of the weights to start from.
    categorical_features, sequence, time, n_jobs
        As in :class:`~seqboost.HMM`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels.
    history_ : list of float
        Penalised log-likelihood per position before EM and after each round.
    n_iter_ : int
        Rounds done.
    window_ : int, tuple, list or dict
        What "auto" came to.
    n_features_in_ : int
        Number of columns.

    References
    ----------
    Bengio, Y. and Frasconi, P. (1995). An input output HMM architecture. NIPS 7.

    Examples
    --------
    >>> from seqboost import IOHMM
    >>> model = IOHMM(random_state=0, l2_regularization=0.1).fit(["banana", "tomato"], ["010101", "010101"])
    >>> print("".join(model.predict(["manana"])[0]))
    010101
    """

    _prediction_rules: ClassVar[Mapping[str, Rule]] = {"n_jobs": RULES["n_jobs"]}

    def __init__(
        self,
        *,
        n_states: int | None = None,
        max_iter: int = 30,
        tol: float = 1e-4,
        l2_regularization: float = 1.0,
        window: Any = 0,
        random_state: Any = None,
        categorical_features: Any = None,
        sequence: str | list[str] | None = None,
        time: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_states = n_states
        self.max_iter = max_iter
        self.tol = tol
        self.l2_regularization = l2_regularization
        self.window = window
        self.random_state = random_state
        self.categorical_features = categorical_features
        self.sequence = sequence
        self.time = time
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> IOHMM:
        """Train by EM.

        Parameters
        ----------
        X, y : as in :meth:`seqboost.TreeCRF.fit`
            Unobserved labels are summed over.
        sample_weight : array-like of shape (n_sequences,), optional
            Weights of sequences.

        Returns
        -------
        self : IOHMM
        """
        check_parameters("IOHMM", vars(self), RULES)
        with unchanged_on_failure(self):
            training = self._learned(X, y, sample_weight)
            self.window_ = automatic_window(self.window, training.batch)
            self._columns = fit_columns(training.batch, self.window_)
            x, weights = self._inputs(training.batch), np.repeat(training.weights, training.batch.lengths)
            self._start(x.shape[1])
            penalty, total = float(self.l2_regularization), float(weights.sum())
            first = training.batch.offsets[:-1]
            self.history_ = []
            for iteration in range(int(self.max_iter) + 1):
                found = posterior(self._chain(x, training.batch.offsets, training.labels), n_threads=self._n_threads)
                size = float((self._moves**2).sum() + (self._emits**2).sum())
                value = (float(training.weights @ found.log_z) - 0.5 * penalty * size) / total
                self.history_.append(value)
                if iteration == self.max_iter or (iteration and value - self.history_[-2] < self.tol):
                    break
                pairs = weights[:, None, None] * found.marginals.transpose(1, 2, 0).astype(np.float64)  # (N, i, j)
                self._improve(x, pairs, first, training.labels, penalty)
            self.n_iter_ = len(self.history_) - 1
        return self

    def _start(self, n_features: int) -> None:
        """Begin with states that have a label each, and nearly nothing else."""
        rng, n_labels = check_random_state(self.random_state), len(self.classes_)
        n_states = n_labels if self.n_states is None else int(plain_number(self.n_states))
        self._moves = NOISE * rng.normal(size=(n_features, n_states + 1, n_states))  # the last one: from ⊥
        self._emits = NOISE * rng.normal(size=(n_features, n_states, n_labels))
        states = np.arange(n_states)
        self._emits[-1, states, states % n_labels] += TIED

    def _inputs(self, batch: SequenceBatch) -> sp.csr_array:
        """Return the features of all positions, and a column of ones."""
        features = indicator_matrix(self._columns, self._columns.transform(batch)).astype(np.float64)
        return sp.hstack([features, np.ones((batch.n_rows, 1))]).tocsr()

    def _chain(self, x: sp.csr_array, offsets: NDArray[np.int64], labels: NDArray[np.int32] | None) -> Potentials:
        """Return the chain of states: log P(j | i, x_t), and log P(y_t | j, x_t) where labels are observed."""
        n_states, n_rows = self._moves.shape[2], x.shape[0]
        moves = _scores(x, self._moves)  # (N, i, j)
        scores = np.ascontiguousarray(moves[:, :n_states].transpose(2, 0, 1))  # (j, N, i)
        scores[:, offsets[:-1], 0] = moves[offsets[:-1], n_states].T  # the only context of a first position
        if labels is not None:
            seen = np.flatnonzero(labels >= 0)
            told = np.zeros((n_rows, n_states))
            told[seen] = _scores(x[seen], self._emits)[np.arange(len(seen)), :, labels[seen]]
            scores += told.T[:, :, None]
        scores = np.maximum(scores, -LARGEST_SCORE)
        return Potentials(scores.astype(np.float32), np.zeros((n_states + 1, n_states)), offsets, 1)

    def _improve(
        self,
        x: sp.csr_array,
        pairs: NDArray[np.float64],
        first: NDArray[np.int64],
        labels: NDArray[np.int32],
        penalty: float,
    ) -> None:
        """Do an M-step: fit the moves to the expected pairs of states, the emissions to the labels."""
        n_rows, n_states, _ = pairs.shape
        targets = np.zeros((n_rows, n_states + 1, n_states))
        targets[:, :n_states] = pairs
        targets[first, n_states] = pairs[first, 0]
        targets[first, :n_states] = 0.0
        self._moves = _climb(x, targets, self._moves, penalty)
        seen = np.flatnonzero(labels >= 0)
        said = np.zeros((len(seen), n_states, len(self.classes_)))
        said[np.arange(len(seen)), :, labels[seen]] = pairs[seen].sum(axis=1)
        self._emits = _climb(x[seen], said, self._emits, penalty)

    def _marginals(self, batch: SequenceBatch) -> NDArray[np.float64]:
        x = self._inputs(batch)
        states = posterior(self._chain(x, batch.offsets, None), n_threads=self._n_threads).node_marginals()
        found: NDArray[np.float64] = np.einsum("ns,nsk->nk", states, softmax(_product(x, self._emits), axis=2))
        found /= found.sum(axis=1, keepdims=True)
        return found

    def log_prob(self, X: Any, y: Any, *, allow_missing_columns: bool = False) -> NDArray[np.float64]:
        """Return log P(y | X) of each sequence; labels that are None or NaN are summed over.

        Parameters
        ----------
        X, y : as in ``fit``
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

        Returns
        -------
        ndarray of float64 of shape (n_sequences,)
        """
        check_is_fitted(self)
        y = self._labels(X, y)
        batch = self._opened(X, allow_missing_columns)
        labels = LabelCoder.from_classes(self.classes_).encode(y, batch)
        chain = self._chain(self._inputs(batch), batch.offsets, labels)
        return np.minimum(posterior(chain, n_threads=self._n_threads).log_z, 0.0)

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, header = self._columns.binner.to_arrays()
        arrays = {f"binner.{name}": array for name, array in arrays.items()}
        arrays |= {f"columns.{name}": array for name, array in self._columns.to_arrays().items()}
        return arrays | {"moves": self._moves, "emits": self._emits}, {"binner": header, "history": self.history_}

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        stored = Stored("weights", arrays, header)
        binner = FeatureBinner.from_arrays(part_of(arrays, "binner."), stored.field("binner", dict))
        binner.check_schema(self._schema)
        self._columns = LinearColumns.from_arrays(part_of(arrays, "columns."), binner)
        n_features = self._columns.n_features + 1
        self._emits = stored.scores("emits", (n_features, None, len(self.classes_)))
        n_states = self._emits.shape[1]
        stored.require(n_states >= 1, "there is no state")
        self._moves = stored.scores("moves", (n_features, n_states + 1, n_states))
        for weights in (self._moves, self._emits):
            self._columns.check_weights(np.abs(weights[:-1]).max(axis=(1, 2)))
        history = stored.field("history", list)
        stored.require(all(isinstance(value, (int, float)) for value in history), "'history' holds others than numbers")
        self.history_ = list(map(float, history))
        self.n_iter_ = len(self.history_) - 1


def _product(x: sp.csr_array, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x · weights, (n_rows, B, J) of weights (F, B, J)."""
    n_features, *shape = weights.shape
    found: NDArray[np.float64] = (x @ weights.reshape(n_features, -1)).reshape(x.shape[0], *shape)
    return found


def _scores(x: sp.csr_array, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log softmax of x · weights over the last axis."""
    found: NDArray[np.float64] = log_softmax(_product(x, weights), axis=2)
    return found


def _climb(
    x: sp.csr_array, targets: NDArray[np.float64], weights: NDArray[np.float64], penalty: float
) -> NDArray[np.float64]:
    """Return better weights of soft logistic regressions, one for each block; never worse ones.

    Climbs Σ_n Σ_b Σ_j targets[n, b, j] log softmax_j (x_n · w_b)_j − penalty/2 ‖w‖².
    """
    mass = targets.sum(axis=2, keepdims=True)

    def lost(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        w = flat.reshape(weights.shape)
        scores = _scores(x, w)
        value = 0.5 * penalty * float(flat @ flat) - float((targets * scores).sum())
        slope = (mass * np.exp(scores) - targets).reshape(x.shape[0], -1)
        return value, (x.T @ slope).reshape(-1) + penalty * flat

    start = weights.reshape(-1)
    with threadpool_limits(1):  # its vectors are too short for threads
        found = minimize(lost, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    better = np.isfinite(found.fun) and found.fun <= lost(start)[0]
    climbed: NDArray[np.float64] = found.x.reshape(weights.shape) if better else weights
    return climbed
