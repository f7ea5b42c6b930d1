"""Kernels that draw: which rows, with which weights.

All draws are *selection sampling* (Fan, Muller and Rezucha 1962; Knuth's algorithm S): one pass in rising order that
takes just as many as are wanted, each set of that size with the same chance::

    item i, with m still wanted and r still to come:          taken with chance m / r

The random number of item i is number i of the seed (:mod:`seqboost.core.random`): draws depend on nothing else.

Derivatives are (n_labels, n_rows, n_contexts), with one label for a tree of one label. A row's |Δ| over labels and
contexts is its *influence*.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner, int64, jit, reassociating
from seqboost.core.random import random_number

__all__ = [
    "arrange",
    "kth_largest",
    "row_influence",
    "take",
    "take_goss",
    "take_marked",
    "take_strata",
    "trim",
    "trimming_levels",
    "weigh_strata",
]

N_LEVELS = 1000  # of |Δ|, for trimming
DIGIT = 2048  # values of 11 bits: three digits make a float32


@inner
def _is_taken(
    random: np.uint64,  # IN 64 bits, of which the upper 32 count
    n_wanted: int,  # IN at most n_left
    n_left: int,  # IN below 2^31
) -> bool:
    """Check whether random · n_left < n_wanted, with ``random`` as a fraction of 2^64."""
    return bool(((random >> np.uint64(32)) * np.uint64(n_left)) >> np.uint64(32) < np.uint64(n_wanted))


@jit
def take(
    n: int,  # IN
    n_wanted: int,  # IN at most n
    seed: np.uint64,  # IN
    taken: NDArray[np.int32],  # OUT (n,) the first n_wanted of them
) -> None:
    """Take some of the numbers 0..n−1, in rising order."""
    at = int64(0)
    for i in range(n):
        taken[at] = i  # written whether it is taken or not: no branch to mispredict
        at += int64(_is_taken(random_number(seed, i), n_wanted - at, n - i))


@jit
def take_marked(
    sequence: NDArray[np.int64],  # IN (n_rows,)
    chosen: NDArray[np.int32],  # IN sequences, in rising order
    rows: NDArray[np.int32],  # OUT (n_rows,)
) -> int:
    """Write the rows of the chosen sequences; return their number. Sequences stand one after another."""
    n, q = 0, 0
    for i in range(rows.size):
        while q < chosen.size and chosen[q] < sequence[i]:
            q += 1
        if q == chosen.size:
            break
        if chosen[q] == sequence[i]:
            rows[n] = i
            n += 1
    return n


@jit
def arrange(
    chosen: NDArray[np.int32],  # IN rows, in rising order
    n_fitted: int,  # IN training rows, which come first of all
    rows: NDArray[np.int32],  # OUT (n_rows,) the chosen ones, then the others in rising order
) -> None:
    """Put the chosen training rows first and all others after them."""
    n = np.uint64(chosen.size)
    q, at, one = np.uint64(0), n, np.uint64(1)
    for i in range(n_fitted):
        is_next = np.uint64(q < n and chosen[q] == i)
        rows[q if is_next else at] = i  # chosen by arithmetic: no branch to mispredict
        q += is_next
        at += one - is_next
    for i in range(n_fitted, rows.size):
        rows[i] = i


# --- positive and negative examples -----------------------------------------------------------------------------------


@jit
def take_strata(
    labels: NDArray[np.int32],  # IN (n_rows,) −1 = unobserved
    label: int,  # IN of the tree
    n_positive: tuple[int, int],  # IN positive rows wanted and there
    wanted: NDArray[np.int64],  # SCRATCH (n_strata,) rows wanted for their negative cells; 0 in the end
    left: NDArray[np.int64],  # SCRATCH (n_strata,) rows there; 0 in the end
    seed: np.uint64,  # IN
    rows: NDArray[np.int32],  # OUT (n_rows,)
    part: NDArray[np.uint8],  # OUT (n_rows,) of each row: 1 its positive cell, 2 its negative ones, 3 both
) -> tuple[int, int]:
    """Draw positive cells of some rows and negative cells of others, all alike or by label (stratum = label + 1).

    Return the number of rows drawn, and how many of those drawn for their negative cells have a positive one.
    """
    n, n_both = 0, 0
    positive_wanted, positive_left = n_positive
    for i in range(rows.size):
        s = labels[i] + 1 if wanted.size > 1 else 0
        negative = _is_taken(random_number(seed, 2 * i), wanted[s], left[s])
        wanted[s] -= int64(negative)
        left[s] -= 1
        is_positive = labels[i] == label
        positive = is_positive and (
            positive_wanted == positive_left
            or _is_taken(random_number(seed, 2 * i + 1), positive_wanted, positive_left)
        )
        positive_wanted -= int64(positive)
        positive_left -= int64(is_positive)
        n_both += int64(negative and is_positive)
        rows[n] = i
        part[n] = np.uint8(positive) + np.uint8(2) * np.uint8(negative)
        n += int64(positive or negative)
    return n, n_both


@jit
def weigh_strata(
    labels: NDArray[np.int32],  # IN (n_rows,)
    slot: NDArray[np.int32],  # IN (n_rows,) context of the positive cell
    label: int,  # IN of the tree
    rows: NDArray[np.int32],  # IN drawn rows
    part: NDArray[np.uint8],  # IN (rows.size,)
    weights: tuple[float, float],  # IN of positive and of negative cells
    weight: NDArray[np.float32],  # OUT (rows.size, n_contexts)
) -> None:
    """Write the weights of the cells of drawn rows: all cells as negative ones, then the one positive cell."""
    of_positive, of_negative = np.float32(weights[0]), np.float32(weights[1])
    for p in range(rows.size):
        i = rows[p]
        w = of_negative * np.float32(part[p] >> 1)  # by arithmetic: no branch to mispredict
        for c in range(weight.shape[1]):
            weight[p, c] = w
        is_positive = labels[i] == label
        at = slot[i] if is_positive else 0
        weight[p, at] = of_positive * np.float32(part[p] & 1) if is_positive else w


# --- by gradient ------------------------------------------------------------------------------------------------------


@reassociating
def row_influence(
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    influence: NDArray[np.float32],  # OUT (n_fitted,)
) -> None:
    """Sum |Δ| over labels and contexts of the first rows."""
    n_labels, _, n_contexts = gradient.shape
    influence[:] = np.float32(0.0)
    for k in range(n_labels):
        for i in range(influence.size):
            total = np.float32(0.0)
            for c in range(n_contexts):
                total += abs(gradient[k, i, c])
            influence[i] += total


@jit
def kth_largest(
    bits: NDArray[np.uint32],  # IN floats >= 0, whose bits are in the order of the numbers
    k: int,  # IN at least 1
    counts: NDArray[np.int64],  # SCRATCH (DIGIT,)
) -> tuple[np.uint32, int]:
    """Return the k-th largest, and how many of those equal to it are among the k largest; digit by digit."""
    found, known = np.uint32(0), np.uint32(0)
    wanted = k
    for shift in (21, 10, 0):
        width = 10 if shift == 0 else 11
        mask = np.uint32((1 << width) - 1)
        counts[:] = 0
        for i in range(bits.size):
            if bits[i] & known == found:
                counts[(bits[i] >> np.uint32(shift)) & mask] += 1
        digit = DIGIT - 1
        while counts[digit] < wanted:
            wanted -= counts[digit]
            digit -= 1
        found |= np.uint32(digit) << np.uint32(shift)
        known |= mask << np.uint32(shift)
    return found, wanted


@jit
def take_goss(
    bits: NDArray[np.uint32],  # IN (n_fitted,) influence, as bits
    top: tuple[np.uint32, int],  # IN the smallest of the top, and how many equal to it belong to it
    n_other: tuple[int, int],  # IN others wanted, and there
    other_weight: float,  # IN
    seed: np.uint64,  # IN
    rows: NDArray[np.int32],  # OUT (n_fitted,)
    weight: NDArray[np.float32],  # OUT (n_fitted, 1)
) -> int:
    """Take all rows of the top and some of the others; return their number."""
    smallest, n_equal = top
    wanted, left = n_other
    n = int64(0)
    for i in range(bits.size):
        equal = bits[i] == smallest and n_equal > 0
        n_equal -= int64(equal)
        is_top = bits[i] > smallest or equal
        other = (not is_top) and _is_taken(random_number(seed, i), wanted, left)
        wanted -= int64(other)
        left -= int64(not is_top)
        rows[n] = i
        weight[n, 0] = np.float32(1.0 if is_top else other_weight)
        n += int64(is_top or other)
    return n


@jit
def trimming_levels(
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    n_fitted: int,  # IN the first so many rows count
    sums: NDArray[np.float64],  # OUT (N_LEVELS,) Σ|Δ| of each level
) -> float:
    """Sum |Δ| by level, from 0 to the largest |Δ|; return that."""
    largest = np.float32(0.0)
    for k in range(gradient.shape[0]):
        for i in range(n_fitted):
            for c in range(gradient.shape[2]):
                largest = max(largest, abs(gradient[k, i, c]))
    sums[:] = 0.0
    if largest == 0:
        return 0.0
    for k in range(gradient.shape[0]):
        for i in range(n_fitted):
            for c in range(gradient.shape[2]):
                size = abs(gradient[k, i, c])
                level = int64(float(size) / float(largest) * (N_LEVELS - 1))  # a quotient: 1 / largest may be infinite
                sums[level] += float(size)
    return float(largest)


@jit
def trim(
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    threshold: float,  # IN
    rows: NDArray[np.int32],  # OUT (n_fitted,)
    weight: NDArray[np.float32],  # OUT (n_fitted, n_labels * n_contexts) 1 for the cells that stay, 0 for others
) -> int:
    """Take the rows with a cell of at least so large a |Δ|; return their number."""
    n_labels, _, n_contexts = gradient.shape
    limit = np.float32(threshold)
    n = 0
    for i in range(rows.size):
        n_kept = 0
        for k in range(n_labels):
            for c in range(n_contexts):
                keeps = abs(gradient[k, i, c]) >= limit
                weight[n, k * n_contexts + c] = np.float32(keeps)
                n_kept += keeps
        rows[n] = i
        n += n_kept > 0
    return n
