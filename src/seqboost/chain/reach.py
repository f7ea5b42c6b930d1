"""How far a label or an arc reaches along its sequence, from forward contraction coefficients alone.

Letters: τ_t bounds the total variation between the laws of y_t from any two states at t, so two copies of the chain
that are coupled as well as can be have different labels at t with probability at most τ_t, and after m positions they
are still apart with at most κ_t = 1 − Π_{u=t+1}^{t+m} (1 − τ_u).

For X_t a function of what is seen at t, Cov(X_t, X_s) <= ρ_ts σ_t σ_s with ρ the maximal correlation, whose square is
at most Dobrushin's coefficient η of the law of what is seen at s given that at t < s (Polyanskiy and Wu 2017).  So

    Var Σ_t X_t <= Σ_t γ_t Var X_t,            γ_t = 1 + R_t + L_t,  R_t = Σ_{s>t} √η_ts,  L_t = Σ_{s<t} √η_st

Unlike row sums this needs no coefficients of the backward chain, whose states are not those of the forward one.  Labels
are apart at s with η <= τ_s if all before may be apart; what shares labels (arcs at most m apart) has η <= 1:

    labels    R_t = Σ_{s=t+1}^{t+m} √τ_s + √κ_t R_{t+m}         L_s = √τ_s (Q_{s-1} + .. + Q_{s-m})
    arcs      R_t = Σ_{s=t+1}^{t+m} 1    + √κ_t R_{t+m}         L_s =       Q_{s-1} + .. + Q_{s-m}

with Q_v = 1 + √κ_{v-m} Q_{v-m}, nothing beyond the ends of the sequence.

References
----------
Polyanskiy, Y. and Wu, Y. (2017). Strong data-processing inequalities for channels and Bayesian networks. In: Convexity
and Concentration. Springer. (η of χ² is at most Dobrushin's coefficient.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import jit

__all__ = ["arc_reach", "label_reach"]


@jit
def label_reach(
    tau: NDArray[np.float64],  # IN (>= n,)
    n: int,
    order: int,
    reach: NDArray[np.float64],  # OUT (4, >= n) R_t and L_t of labels, √κ_t, Q_t
) -> None:
    """Fill the sums of one sequence of n positions."""
    for t in range(n - 1, -1, -1):
        near, meet = 0.0, 1.0
        for u in range(t + 1, min(t + order, n - 1) + 1):
            near += np.sqrt(tau[u])
            meet *= 1.0 - tau[u]
        reach[2, t] = np.sqrt(max(1.0 - meet, 0.0))
        reach[0, t] = near + (reach[2, t] * reach[0, t + order] if t + order < n else 0.0)
    for t in range(n):
        reach[3, t] = 1.0 + (reach[2, t - order] * reach[3, t - order] if t >= order else 0.0)
        near = 0.0
        for v in range(max(t - order, 0), t):
            near += reach[3, v]
        reach[1, t] = np.sqrt(tau[t]) * near


@jit
def arc_reach(
    n: int,
    order: int,
    reach: NDArray[np.float64],  # INOUT (4, >= n) from label_reach; the first row is used up
) -> float:
    """Return the largest γ_t of arcs in one sequence of n positions."""
    largest = 0.0
    for t in range(n - 1, -1, -1):
        right = float(min(order, n - 1 - t))
        if t + order < n:
            right += reach[2, t] * reach[0, t + order]
        reach[0, t] = right
        left = 0.0
        for v in range(max(t - order, 0), t):
            left += reach[3, v]
        largest = max(largest, 1.0 + right + left)
    return largest
