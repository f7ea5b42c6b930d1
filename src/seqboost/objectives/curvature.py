"""How far a label reaches along its sequence: the sums R_t and L_t of the mixing bound.

Let e_t be what the cells of position t indicate: (c_t, y_t) in a joint model, y_t in a factored one. The second
derivative of -log P(Y|X) by two scores is the covariance of their cells, so the absolute row sum of cell e of t is

    Σ_s Σ_e' |Cov(I(e_t=e), I(e_s=e'))| = 2 p Σ_s TV( P(e_s | e_t=e), P(e_s) ),           p = P(e_t=e)

and TV (total variation) at s = t is 1 − p. To the right of t the chain knows e_t only through what it shares with the
next context, a (joint: a = c_{t+1}; factored: a = y_t). As P(e_s) is a mixture of P(e_s|a) and P(e_s|not a),

    TV( P(e_s|e_t=e), P(e_s) ) <= (1 − P(a)) · d_s,        d_s = largest TV of the laws of e_s from two starts

With τ_u the contraction coefficient of the posterior kernel P(y_u | c_u, X), two copies of the chain started apart and
coupled maximally emit the same label at u with probability >= 1 − τ_u, whatever went before, and have met after m such
positions:

    d_s <= 1 (joint: e_s shares a label with e_t)  or  τ_s (factored)               s = t+1 .. t+m
    κ_t  = 1 − Π_{u=t+1}^{t+m} (1 − τ_u)                                            not met after m positions
    R_t  = Σ_{s>t} d_s = Σ_{s=t+1}^{t+m} (1 or τ_s) + κ_t R_{t+m}                   nothing beyond the last position

For order 1: R_t = 1 + τ_{t+1} R_{t+1} (joint), R_t = τ_{t+1}(1 + R_{t+1}) (factored). To the left the same with the
coefficients τ'_u of P(y_u | y_{u+1}, .., y_{u+m}, X); there a joint cell is known through a = c_t, which already holds
y_{t-1} .. y_{t-m}, so the block that must meet is one order further on:

    κ'_t = 1 − Π_{u=t-2m}^{t-m-1} (1 − τ'_u)  (joint),   1 − Π_{u=t-m}^{t-1} (1 − τ'_u)  (factored)
    L_t  = Σ_{s=t-m}^{t-1} (1 or τ'_s) + κ'_t L_{t-m}

Hence the curvature, with 2|δ_i δ_j H_ij| <= |H_ij| (δ_i² + δ_j²),

    joint     2 p [ (1 − p) + R_t (1 − P(c_{t+1})) + L_t (1 − P(c_t)) ]             <=  2 γ_t p (1 − p)
    factored  2 p (1 − p) γ_t,                                                      γ_t = 1 + R_t + L_t

For the table of a factored model, which all positions share, the joint bound 2 γ_t p (1 − p), p = P(c_t, y_t), is
summed over positions: a step that is the same at all positions is one of the steps it covers. With unobserved labels
minus the second derivative is Cov(free) − Cov(clamped), which is no more than Cov(free), so the bound of the free model
serves.

References
----------
Chen, T., Singh, S., Taskar, B. and Guestrin, C. (2015). Efficient second-order gradient boosting for conditional random
fields. AISTATS. (The bound by mixing rates; the joint cells and the factors 1 − P(a) are derived here.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import ContextSpace
from seqboost.core.jit import jit

__all__ = ["COUNT", "MIXING", "NEWTON", "count_cells", "count_table", "mean_caution", "mixing_sums"]

COUNT, NEWTON, MIXING = 0, 1, 2


def count_cells(
    space: ContextSpace,
    row_weights: NDArray[np.float64],  # IN (N,)
    context_type: NDArray[np.uint8],  # IN (N,)
    hessian: NDArray[np.float32],  # OUT (K, N, C)
) -> None:
    """Fill the curvature COUNT: the weight of the row at every slot that exists."""
    hessian[:] = row_weights.astype(np.float32)[None, :, None]
    for j in range(space.order if hessian.shape[2] > 1 else 0):
        hessian[:, context_type == j, space.n_labels**j :] = 0


def count_table(
    space: ContextSpace,
    row_weights: NDArray[np.float64],  # IN (N,)
    context_type: NDArray[np.uint8],  # IN (N,)
) -> NDArray[np.float64]:
    """Give the curvature COUNT of the table, (E, K): the weights of all rows that an extended context exists at."""
    per_type = np.bincount(context_type, weights=row_weights, minlength=space.order + 1)
    return np.tile(per_type[space.extended_types(), None], space.n_labels)


def mean_caution(hessian: NDArray[np.float32], reach: NDArray[np.float32]) -> float:
    """Return Σ_t H_t / Σ_t H_t/(2γ_t), with H_t = Σ_{c,k} h_t(c,k) ≈ 2γ_t Σ_{c,k} w·p(1 − p), γ = 1 + R + L."""
    of_rows = hessian.sum(axis=0, dtype=np.float64) @ np.ones(hessian.shape[2])
    newton = float(np.sum(of_rows / (2.0 * (1.0 + reach[0] + reach[1]))))
    return float(of_rows.sum()) / newton if newton > 0 else 1.0


def mixing_sums(
    offsets: NDArray[np.int64],
    first: int,
    last: int,
    order: int,
    joint: bool,
    tau_forward: NDArray[np.float32],
    tau_backward: NDArray[np.float32],
    right: NDArray[np.float32],
    left: NDArray[np.float32],
    weights: NDArray[np.float64] | None = None,
) -> None:
    """Fill R_t and L_t of the module's formulas for a range of sequences.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    first, last : int
        Sequences first .. last-1.
    order : int
        m.
    joint : bool
        Whether cells are (c_t, y_t) rather than y_t.
    tau_forward, tau_backward : ndarray of float32, shape (N,)
        Contraction of P(y_t | c_t, X) and of P(y_{t-m} | y_{t-m+1} .. y_t, X).
    right, left : ndarray of float32, shape (N,)
        OUT: R_t and L_t.
    weights : ndarray of float64, shape (N,), optional
        What the term of each position s counts in the sums of the others; 1 if not given.
    """
    if order == 1 and weights is None:
        _mixing_sums_of_pairs(offsets, first, last, joint, tau_forward, tau_backward, right, left)
        return
    weights = np.empty(0) if weights is None else weights
    _mixing_sums(offsets, (first, last, order, joint), tau_forward, tau_backward, weights, right, left)


@jit
def _mixing_sums(
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    setting: tuple[int, int, int, bool],  # first, last (sequences); order, joint
    tau_forward: NDArray[np.float32],  # IN (N,)
    tau_backward: NDArray[np.float32],  # IN (N,)
    weights: NDArray[np.float64],  # IN (N,), or (0,) for weights of 1
    right: NDArray[np.float32],  # OUT (N,)
    left: NDArray[np.float32],  # OUT (N,)
) -> None:
    first, last, order, joint = setting
    weighted = weights.size > 0
    for sequence in range(first, last):
        start, stop = offsets[sequence], offsets[sequence + 1]
        for t in range(stop - 1, start - 1, -1):
            near, meet = 0.0, 1.0
            for u in range(t + 1, min(t + order, stop - 1) + 1):
                near += (1.0 if joint else float(tau_forward[u])) * (weights[u] if weighted else 1.0)
                meet *= 1.0 - float(tau_forward[u])
            right[t] = near
            if order > 0 and t + order < stop:
                right[t] += (1.0 - meet) * right[t + order]
        for t in range(start, stop):
            near, meet = 0.0, 1.0
            for u in range(max(start, t - order), t):
                # τ'_u is tau_backward[u + m]; at the last positions, where fewer than m labels follow, 1 is safe.
                tau_u = 1.0 if u + order >= stop else float(tau_backward[u + order])
                near += (1.0 if joint else tau_u) * (weights[u] if weighted else 1.0)
                # Joint: τ'_{u-m} is tau_backward[u], which is 0 where position u - m does not exist.
                meet *= 1.0 - (float(tau_backward[u]) if joint else tau_u)
            left[t] = near
            if order > 0 and t - order >= start:
                left[t] += (1.0 - meet) * left[t - order]


@jit
def _mixing_sums_of_pairs(
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    first: int,
    last: int,
    joint: bool,
    tau_forward: NDArray[np.float32],  # IN (N,)
    tau_backward: NDArray[np.float32],  # IN (N,)
    right: NDArray[np.float32],  # OUT (N,)
    left: NDArray[np.float32],  # OUT (N,)
) -> None:
    """Do the same for order 1, where nothing is read back from memory."""
    one = np.float32(1.0)
    for sequence in range(first, last):
        start, stop = offsets[sequence], offsets[sequence + 1]
        right[stop - 1], left[start] = 0.0, 0.0
        reach = np.float32(0.0)
        for t in range(stop - 2, start - 1, -1):
            tau = tau_forward[t + 1]
            reach = one + tau * reach if joint else tau + tau * reach
            right[t] = reach
        reach = np.float32(0.0)
        for t in range(start + 1, stop):
            tau = tau_backward[t - 1] if joint else tau_backward[t]
            reach = one + tau * reach if joint else tau + tau * reach
            left[t] = reach
