"""Patterns somewhere ahead: the log-likelihood of labels as a function of a score G of single positions.

A position t has a bag B_t of other positions: the next u, the last u, or both. G says how much a position looks like
the pattern sought, Q how sure it is that the bag holds one (a noisy or), and Q speaks for or against labels by η::

    p_s = σ(G_s)        Q_t = 1 − Π_{s in B_t} (1 − p_s)        P(y_t = k | ·) ∝ exp(F_tk + η_k Q_t)

With a_s = log(1 + exp G_s) = −log(1 − p_s), the product over a bag is a sum, and sums over all bags are two passes over
the sequence, whatever the size of the bags::

    A_t = Σ_{s in B_t} a_s           Q_t = 1 − exp(−A_t)

    ρ_t = ∂L/∂Q_t = Σ_k η_k (I(y_t = k) − P_tk)
    ∂L/∂G_s = p_s · Σ_{t: s in B_t} ρ_t exp(−A_t)          (Proposition 5.2 of Hao 2009, summed over the bags of s)

The sum on the right is one over bags that look the other way.

Curvature: the absolute terms of −∂²L/∂G_s², with v_t the variance of η under P_t. It stays positive where patterns are
rare (p → 0) and makes a leaf's step at most about 1 there::

    H_s = p_s (1 − p_s) Σ_t |ρ_t| exp(−A_t)  +  p_s² Σ_t v_t exp(−2 A_t)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from seqboost.core.jit import jit
from seqboost.objectives.derivatives import Derivatives
from seqboost.objectives.predictions import Predictions

__all__ = ["BOTH", "FUTURE", "PAST", "BagLikelihood", "Bags", "bag_sums"]

FUTURE, PAST, BOTH = 1, -1, 0


@jit
def bag_sums(
    values: NDArray[np.float64],  # IN (N,)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    size: int,  # IN u; 0: to the end of the sequence
    direction: int,  # IN FUTURE, PAST or BOTH
    suffix: NDArray[np.float64],  # SCRATCH (N,)
    prefix: NDArray[np.float64],  # SCRATCH (N,)
    sums: NDArray[np.float64],  # OUT (N,) Σ of the values over the bag of each position; 0 for an empty one
) -> None:
    """Sum over the bags of all positions in two passes.

    A sequence is cut into blocks of u positions; a window of u positions is the end of one block and the beginning of
    the next. Nothing is subtracted, so nothing is lost where large and small values meet.
    """
    for q in range(offsets.size - 1):
        start, length = offsets[q], offsets[q + 1] - offsets[q]
        u = length if size == 0 else min(size, length)
        for i in range(length):
            before = 0.0 if i % u == 0 else prefix[start + i - 1]
            prefix[start + i] = before + values[start + i]
        for i in range(length - 1, -1, -1):
            behind = 0.0 if (i + 1) % u == 0 or i + 1 == length else suffix[start + i + 1]
            suffix[start + i] = behind + values[start + i]
        for i in range(length):
            total = 0.0
            if direction >= 0 and i + 1 < length:
                a, b = i + 1, min(i + u, length - 1)
                total += suffix[start + a]
                if a // u != b // u:
                    total += prefix[start + b]
            if direction <= 0 and i > 0:
                a, b = max(i - u, 0), i - 1
                total += prefix[start + b]
                if a // u != b // u:
                    total += suffix[start + a]
            sums[start + i] = total


class Bags:
    """The bags of all positions.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    size : int or None
        Positions in a bag, u; None: all to the end of the sequence.
    direction : {"future", "past", "both"}
        Where they lie.

    Examples
    --------
    >>> Bags(np.array([0, 4]), size=2, direction="future").sums(np.array([1.0, 2.0, 4.0, 8.0]))
    array([ 6., 12.,  8.,  0.])
    """

    def __init__(self, offsets: NDArray[np.int64], size: int | None, direction: str) -> None:
        self._offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        self._size = 0 if size is None else int(size)
        self._direction = {"future": FUTURE, "past": PAST, "both": BOTH}[direction]
        n_rows = int(self._offsets[-1])
        self._suffix, self._prefix = np.empty(n_rows), np.empty(n_rows)

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum values over the bag of each position."""
        return self._sums(values, self._direction)

    def sums_of_holders(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum values over the positions whose bags hold each position."""
        return self._sums(values, -self._direction)

    def exponents(self, pattern: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return A_t = −log(1 − Q_t) from G."""
        return self.sums(np.logaddexp(0.0, pattern.astype(np.float64)))

    def probabilities(self, pattern: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return Q_t from G."""
        return -np.expm1(-self.exponents(pattern))

    def _sums(self, values: NDArray[np.float64], direction: int) -> NDArray[np.float64]:
        sums = np.empty(len(values))
        values = np.ascontiguousarray(values, dtype=np.float64)
        bag_sums(values, self._offsets, self._size, direction, self._suffix, self._prefix, sums)
        return sums


class BagLikelihood:
    """Log-likelihood of labels, each given its own scores and what its bag shows, as a function of G.

    An objective of the boosting loop whose scores are G, of shape (1, N, 1).

    Parameters
    ----------
    bags : Bags
        The bags of all positions.
    labels : ndarray of int32, shape (N,)
        Label codes, −1 = unobserved.
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    base : ndarray of float64, shape (N, K)
        F at the observed contexts.
    effect : ndarray of float64, shape (K,)
        η.
    sequence_weights : ndarray of float64, shape (n_sequences,)
        0 for held-out sequences.
    """

    def __init__(
        self,
        bags: Bags,
        labels: NDArray[np.int32],
        offsets: NDArray[np.int64],
        base: NDArray[np.float64],
        effect: NDArray[np.float64],
        sequence_weights: NDArray[np.float64],
    ) -> None:
        self._bags, self._base, self._effect = bags, base, np.asarray(effect, dtype=np.float64)
        self._offsets = offsets
        self._observed = labels >= 0
        self._known = np.where(self._observed, labels, 0)
        lengths = np.diff(offsets)
        self._row_weights = np.where(self._observed, np.repeat(sequence_weights, lengths), 0.0)
        self._labels = labels
        self._predictions: Predictions | None = None
        self._n_observed: NDArray[np.int64] = np.add.reduceat(self._observed, offsets[:-1], dtype=np.int64)

    def derivatives(
        self, scores: NDArray[np.float32], table: NDArray[np.float64] | None = None, n_threads: int = 1
    ) -> Derivatives:
        """Return value, gradient and curvature by G, both times the same factor.

        In a round, derivatives by G are as small as patterns are rare. They are multiplied until the mean curvature is
        that of a coin, 1/4, so that λ and the least gain mean what they mean elsewhere; the ratio G/H is what it was.
        """
        gradient, hessian, log_p = self._plain(scores)
        fitted = self._row_weights > 0
        factor = 0.25 / max(float(hessian[fitted].mean()) if fitted.any() else 0.0, 1e-30)
        gradient, hessian = factor * gradient, factor * hessian
        rows = np.arange(len(log_p))
        own = np.where(self._observed, log_p[rows, self._known], 0.0)
        correct = self._observed & (log_p.argmax(axis=1) == self._known)
        starts = self._offsets[:-1]
        if self._predictions is not None:
            self._predictions.fill(np.exp(log_p).T[:, :, None].astype(np.float32), 0)
        return Derivatives(
            gradient=gradient.astype(np.float32)[None, :, None],
            hessian=hessian.astype(np.float32)[None, :, None],
            table_gradient=None,
            table_hessian=None,
            log_likelihood=np.add.reduceat(own, starts),
            n_correct=np.add.reduceat(correct, starts, dtype=np.int64),
            n_observed=self._n_observed,
            caution=1.0,
            predictions=self._predictions,
        )

    def watch_positions(self, first_row: int = 0, label_weights: NDArray[np.float64] | None = None) -> None:
        """Have ``derivatives`` say from now on what positions are labeled; see ``Predictions``."""
        self._predictions = Predictions(self._labels, first_row, label_weights)

    def log_likelihood(
        self, scores: NDArray[np.float32], table: NDArray[np.float64] | None = None, n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Return the log-likelihood of each sequence."""
        log_p = self._log_p(self._bags.probabilities(scores.reshape(-1)))
        own = np.where(self._observed, log_p[np.arange(len(log_p)), self._known], 0.0)
        found: NDArray[np.float64] = np.add.reduceat(own, self._offsets[:-1])
        return found

    def gradient(self, scores: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return ∂L/∂G, weighted, as it is."""
        return self._plain(scores)[0]

    def _log_p(self, probability: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = log_softmax(self._base + probability[:, None] * self._effect, axis=1)
        return found

    def _plain(
        self, scores: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return ∂L/∂G, H and log P."""
        pattern = scores.reshape(-1).astype(np.float64)
        exponents = self._bags.exponents(pattern)
        log_p = self._log_p(-np.expm1(-exponents))
        p_label, survive = np.exp(log_p), np.exp(-exponents)
        mean = p_label @ self._effect
        rho = self._row_weights * (self._effect[self._known] - mean)
        variance = self._row_weights * np.maximum(p_label @ self._effect**2 - mean**2, 0.0)
        p = expit(pattern)
        gradient = p * self._bags.sums_of_holders(rho * survive)
        hessian = p * (1.0 - p) * self._bags.sums_of_holders(np.abs(rho) * survive)
        hessian += p**2 * self._bags.sums_of_holders(variance * survive**2)
        return gradient, hessian, log_p
