"""The penalised log-likelihood of a linear chain, as a function of its parameters.

    F_t(c, k) = Σ_j x_tj w_jk + A_0(c, k) + A(c, k)          A_0 = the table to start from, that of the labels alone

W and A maximise  L(W, A) − λ (‖W‖² + ‖A‖²),  L = Σ_sequences weight · log P(observed labels | X).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from seqboost.core.labelsets import LabelSets
from seqboost.linear.columns import LinearColumns, LinearRows
from seqboost.linear.weights import LinearGradient, LinearWeights
from seqboost.objectives import Likelihood

__all__ = ["LinearObjective", "LinearTask"]

SCALING = 0.1  # ρ; S2, conll2000 and ncbi_disease ask for 0.01 to 0.3
HELD_OUT = 0.1  # share of sequences, if there are none for validation
ALL_LABELS_FROM = 5
"""Features seen at this many positions have weights for all labels; rarer ones for the labels they were seen with."""


@dataclass(frozen=True, eq=False)
class LinearTask:
    """Sequences and the chain to fit to them.

    Attributes
    ----------
    columns : LinearColumns
        The features.
    rows : LinearRows
        Training sequences, then validation sequences.
    labels : ndarray of int32, shape (n_rows,)
        −1 = unobserved, −3 − i = one of set i.
    weights : ndarray of float64, shape (n_sequences,)
        Weights of sequences.
    n_training : int
        Number of training sequences.
    table : ndarray of float64, shape (E, K)
        A_0; −inf = forbidden.
    order : int
        Markov order.
    end : ndarray of float64, shape (K,)
        As in `Likelihood`.
    n_threads : int
        The result does not depend on it.
    sets : ndarray of bool, shape (n_sets, K), or None
        The labels of each set.
    """

    columns: LinearColumns
    rows: LinearRows
    labels: NDArray[np.int32]
    weights: NDArray[np.float64]
    n_training: int
    table: NDArray[np.float64]
    order: int
    end: NDArray[np.float64]
    n_threads: int = 1
    sets: LabelSets | None = None

    @property
    def has_validation(self) -> bool:
        """Whether there are validation sequences."""
        return self.n_training < len(self.weights)

    def divided(self, seed: int) -> LinearTask:
        """Return the training sequences with some of them held out as validation sequences."""
        n_held = max(1, round(HELD_OUT * self.n_training))
        order = np.random.default_rng(seed).permutation(self.n_training)
        sequences = np.concatenate([np.sort(order[n_held:]), np.sort(order[:n_held])])
        return self.rearranged(sequences, self.n_training - n_held)[0]

    def rearranged(self, sequences: NDArray[np.intp], n_training: int) -> tuple[LinearTask, NDArray[np.int64]]:
        """Return the task of some sequences, the first of them for training, and the rows they come from."""
        rows, taken = self.rows.take(sequences)
        labels, weights = self.labels[taken], self.weights[sequences]
        return replace(self, rows=rows, labels=labels, weights=weights, n_training=n_training), taken


class LinearObjective:
    """The objective in the form SciPy minimises: a vector θ → −(L − λ‖θ‖²) and its gradient.

    θ holds the weights, then the cells of A, row by row.

    Parameters
    ----------
    task : LinearTask
        The sequences and the chain to fit.
    all_labels_from : int, default=5
        See `ALL_LABELS_FROM`.

    Attributes
    ----------
    penalty : float
        λ.
    validation_score : float
        Mean log-likelihood of the validation sequences per observed label at the last θ.
    """

    def __init__(self, task: LinearTask, all_labels_from: int = ALL_LABELS_FROM) -> None:
        self._task = task
        n_labels = task.table.shape[1]
        self._gradient = LinearGradient(task.columns, task.rows, task.n_training)
        start, label = self._gradient.label_pairs(task.labels, n_labels, all_labels_from)
        self._weights = LinearWeights(task.columns, n_labels, start, label, np.zeros(len(label), dtype=np.float32))
        self._is_training = np.arange(len(task.weights)) < task.n_training
        self._likelihood = Likelihood(
            task.labels, task.rows.offsets, n_labels=n_labels, order=task.order, joint=False,
            sequence_weights=np.where(self._is_training, task.weights, 0.0), curvature="newton", end=task.end,
            sets=task.sets,
        )  # fmt: skip
        self.penalty = 0.0
        self.validation_score = -np.inf
        self._last = np.empty(0)
        self._curvature = self._start_curvature()

    @property
    def n_parameters(self) -> int:
        """Length of θ."""
        return len(self._weights.label) + self._task.table.size

    def weights(self, theta: NDArray[np.float64]) -> LinearWeights:
        """Return the weights of θ."""
        return self._weights.with_value(theta[: len(self._weights.label)])

    def table(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return A_0 + A."""
        return self._task.table + theta[len(self._weights.label) :].reshape(self._task.table.shape)

    def scale(self) -> NDArray[np.float64]:
        """Return d of each parameter."""
        return np.sqrt(2.0 * self.penalty + SCALING * self._curvature + 1e-12)

    def __call__(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return −(L − λ‖θ‖²) and its gradient."""
        task = self._task
        weights = self.weights(theta)
        found = self._likelihood.derivatives(
            weights.scores(task.rows, task.n_threads), self.table(theta), task.n_threads
        )
        of_table = found.table_gradient
        if of_table is None:  # order 0: one context, its label scores are in every position
            of_table = found.gradient.sum(axis=(1, 2), dtype=np.float64)
        of_weights = self._gradient(weights, found.gradient, task.n_threads)
        gradient = np.concatenate([of_weights, of_table.reshape(-1)])
        training = self._is_training
        value = float(np.dot(task.weights[training], found.log_likelihood[training]))
        if task.has_validation:
            held = task.weights[~training]
            observed = float(np.dot(held, found.n_observed[~training]))
            self.validation_score = float(np.dot(held, found.log_likelihood[~training])) / max(observed, 1e-300)
        self._last = theta.copy()
        penalised = -value + self.penalty * float(np.dot(theta, theta))
        return penalised, 2.0 * self.penalty * theta - gradient

    def score_at(self, theta: NDArray[np.float64]) -> float:
        """Return the validation score at θ; free if the objective was last evaluated there."""
        if not np.array_equal(theta, self._last):
            self(theta)
        return self.validation_score

    def _start_curvature(self) -> NDArray[np.float64]:
        """Return h: Σ_t x_t² p_t(1 − p_t) of the weights, Σ_t p_t(1 − p_t) of the pairs for A."""
        task = self._task
        found = self._likelihood.derivatives(
            np.zeros((task.table.shape[1], task.rows.n_rows, 1), dtype=np.float32), task.table, task.n_threads
        )
        of_table = found.table_hessian
        if of_table is None:
            of_table = found.hessian.sum(axis=(1, 2), dtype=np.float64)
        of_weights = self._gradient(self._weights, found.hessian, task.n_threads, squared=True)
        return np.concatenate([of_weights, of_table.reshape(-1)])
