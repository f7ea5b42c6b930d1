"""How much a feature of positions speaks for each label, on top of scores that are there already.

    max_η  Σ_t w_t log P(y_t | ·) − λ/2 ‖η‖²          P(y_t = k | ·) ∝ exp(F_tk + η_k Q_t)

concave in η: Newton steps, halved until they climb.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

__all__ = ["best_effect"]

RIDGE = 1.0
MAX_STEPS = 25
TOLERANCE = 1e-8  # relative rise that ends the climb


def best_effect(
    base: NDArray[np.float64],
    feature: NDArray[np.float64],
    labels: NDArray[np.int32],
    weights: NDArray[np.float64],
    free: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return η.

    Parameters
    ----------
    base : ndarray of float64, shape (N, K)
        F.
    feature : ndarray of float64, shape (N,)
        Q.
    labels : ndarray of int32, shape (N,)
        Label codes, −1 = unobserved.
    weights : ndarray of float64, shape (N,)
        w.
    free : ndarray of bool, shape (K,)
        Labels that the feature may speak for; η of the others is 0.

    Examples
    --------
    >>> feature = np.array([1.0, 1.0, 0.0, 0.0] * 100)
    >>> labels = np.array([1, 1, 1, 0] * 100, dtype=np.int32)
    >>> best_effect(np.zeros((400, 2)), feature, labels, np.ones(400), np.array([False, True])).round(1)
    array([0. , 3.9])
    """
    rows = (labels >= 0) & (weights > 0)
    base, q, w = base[rows], feature[rows], weights[rows]
    own = np.arange(len(base)), labels[rows]
    indicator = np.zeros_like(base)
    indicator[own] = 1.0
    effect = np.zeros(len(free))

    def at(eta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_p = log_softmax(base + q[:, None] * eta, axis=1)
        return float(w @ log_p[own]) - RIDGE / 2 * float(eta @ eta), np.exp(log_p)

    value, p = at(effect)
    for _ in range(MAX_STEPS):
        gradient = (w * q) @ (indicator - p) - RIDGE * effect
        of_squares = w * q**2
        curvature = np.diag(of_squares @ p) - (p * of_squares[:, None]).T @ p + RIDGE * np.eye(len(free))
        move = np.zeros(len(free))
        move[free] = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        before, step = value, 1.0
        while step > 1e-6:
            value, p_there = at(effect + step * move)
            if value >= before:
                break
            step /= 2
        else:
            break
        effect, p = effect + step * move, p_there
        if value - before <= TOLERANCE * abs(before):
            break
    return effect
