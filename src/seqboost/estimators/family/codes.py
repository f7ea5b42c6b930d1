"""Codes of labels: matrices of bits, a row (codeword) for each label and a column for each binary problem.

A column must tell some labels from others, and says nothing new if it equals another one or its complement. Rows must
differ, or labels could not be told apart. With K labels there are 2^(K−1) − 1 columns to choose from.

References
----------
Dietterich, T. G. and Bakiri, G. (1995). Solving multiclass learning problems via error-correcting output codes. JAIR 2.

Cohn, T., Smith, A. and Osborne, M. (2005). Scaling conditional random fields using error-correcting codes. ACL.

Hao, G. (2009). Revisiting output coding for sequential supervised learning. MSc thesis, Oregon State University.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError

__all__ = [
    "MOST_EXHAUSTIVE",
    "check_code",
    "confusing_column",
    "distances",
    "exhaustive_code",
    "is_proper",
    "n_columns",
    "one_vs_rest_code",
    "random_code",
]

Code = NDArray[np.uint8]  # (K, n_bits)

MOST_EXHAUSTIVE = 12  # labels: 2,047 columns
TRIES = 1000
STARTS = 20  # of the search for a large cut


def n_columns(n_labels: int) -> float:
    """Return how many columns there are, not counting complements."""
    return 2.0 ** (n_labels - 1) - 1


def exhaustive_code(n_labels: int) -> Code:
    """Return all columns; the first label has 1 in each.

    Examples
    --------
    >>> exhaustive_code(3)
    array([[1, 1, 1],
           [0, 1, 0],
           [0, 0, 1]], dtype=uint8)
    """
    numbers = np.arange(int(n_columns(n_labels)))
    others = numbers[None, :] >> np.arange(n_labels - 1)[:, None] & 1
    return np.vstack([np.ones((1, len(numbers)), dtype=np.int64), others]).astype(np.uint8)


def one_vs_rest_code(n_labels: int) -> Code:
    """Return a column for each label; of two labels, one column says all."""
    return np.eye(n_labels, dtype=np.uint8)[:, : n_labels if n_labels > 2 else 1]


def random_code(n_labels: int, n_bits: int, rng: np.random.Generator) -> Code:
    """Draw columns at random, none equal or complementary to another, such that all rows differ.

    Raises
    ------
    ParameterError
        If there are not so many columns, or so few bits cannot tell the labels apart.
    """
    fewest = math.ceil(math.log2(n_labels))
    if not fewest <= n_bits <= n_columns(n_labels):
        raise ParameterError(
            f"a code of {n_labels} labels has from {fewest} to {n_columns(n_labels):.0f} different columns, but "
            f"n_bits={n_bits}"
        )
    if n_labels <= MOST_EXHAUSTIVE:
        every = exhaustive_code(n_labels)
        for _ in range(TRIES):
            code = every[:, rng.permutation(every.shape[1])[:n_bits]]
            if _rows_differ(code):
                return code
        return _dense_code(n_labels, n_bits, rng)
    for _ in range(TRIES):
        columns: dict[bytes, Code] = {}
        while len(columns) < n_bits:
            column = rng.integers(2, size=n_labels, dtype=np.uint8)
            if 0 < column.sum() < n_labels:
                columns.setdefault(_key(column), column)
        code = np.column_stack(list(columns.values()))
        if _rows_differ(code):
            return code
    return _dense_code(n_labels, n_bits, rng)


def _dense_code(n_labels: int, n_bits: int, rng: np.random.Generator) -> Code:
    """Draw different rows instead, where so few bits hardly leave any to spare; columns differ nearly always."""
    for _ in range(TRIES):
        words = rng.permutation(2**n_bits)[:n_labels] if n_bits <= 20 else rng.integers(2**n_bits, size=n_labels)
        code = (words[:, None] >> np.arange(n_bits)[None, :] & 1).astype(np.uint8)
        if is_proper(code):
            return code
    raise ParameterError(f"found no code of {n_labels} labels with n_bits={n_bits}; take more bits")


def _key(column: Code) -> bytes:
    """Return what a column has in common with its complement alone."""
    relative: Code = column ^ column[0]
    return relative.tobytes()


def _rows_differ(code: Code) -> bool:
    return len(np.unique(code, axis=0)) == len(code)


def is_proper(code: Code) -> bool:
    """Return whether rows differ, and columns differ from each other, their complements and from saying nothing."""
    keys = {_key(column) for column in code.T}
    says_something = all(0 < column.sum() < len(column) for column in code.T)
    return _rows_differ(code) and len(keys) == code.shape[1] and says_something


def check_code(code: Any, n_labels: int) -> Code:
    """Return a user's code as an array; raise ParameterError if it is none."""
    try:
        array = np.asarray(code)
        fits = array.ndim == 2 and len(array) == n_labels and array.shape[1] and np.isin(array, (0, 1)).all()
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ParameterError(
            f"a code of {n_labels} labels must be an array of 0 and 1 with a row for each label, in the order of "
            f"classes_; got {code!r:.80}"
        )
    array = array.astype(np.uint8)
    if not is_proper(array):
        raise ParameterError(
            "a code must have different rows, and columns that hold both 0 and 1 and do not equal, or complement, one "
            "another; drop the columns that repeat others, or add some that tell the labels apart"
        )
    return array


def confusing_column(confusion: NDArray[np.float64], code: Code, rng: np.random.Generator) -> Code:
    """Return a new column that divides the labels which the code confuses most.

    It is a large cut: Σ of ``confusion`` over pairs of labels that the column tells apart, climbed by moving one label
    at a time from the best of a few random columns.

    Parameters
    ----------
    confusion : ndarray of float64, shape (K, K)
        How much label a is taken for label b.
    code : ndarray of uint8, shape (K, n_bits)
        The columns so far, which must not be repeated.
    rng : Generator
    """
    between = confusion + confusion.T
    np.fill_diagonal(between, 0.0)
    taken = {_key(column) for column in code.T}
    best, best_cut = None, -1.0
    for attempt in range(TRIES):
        if best is not None and attempt >= STARTS:
            break
        side = rng.integers(2, size=len(between)).astype(np.float64)
        for _ in range(10 * len(between)):
            # What moving a label to the other side would gain: its ties to its own side less those to the other.
            gain = between @ side
            gain = np.where(side > 0, gain - (between.sum(axis=1) - gain), between.sum(axis=1) - 2 * gain)
            mover = int(np.argmax(gain))
            if gain[mover] <= 1e-12:
                break
            side[mover] = 1 - side[mover]
        column = side.astype(np.uint8)
        if not 0 < column.sum() < len(column) or _key(column) in taken:
            column = rng.integers(2, size=len(between)).astype(np.uint8)  # a new one, though not the best
            if not 0 < column.sum() < len(column) or _key(column) in taken:
                continue
        cut = float((between * (column[:, None] != column[None, :])).sum())
        if cut > best_cut:
            best, best_cut = column, cut
    if best is None:
        raise ParameterError(f"found no new column for a code of {len(code)} labels and {code.shape[1]} bits")
    return best


def distances(bits: NDArray[np.floating], code: Code) -> NDArray[np.float64]:
    """Return the L1 distances of rows of probabilities from all codewords, (n_rows, K).

    Σ_b |p_b − C_kb| = Σ_b p_b + Σ_b C_kb (1 − 2 p_b)
    """
    probability = bits.astype(np.float64)
    found: NDArray[np.float64] = probability.sum(axis=1, keepdims=True) + (1 - 2 * probability) @ code.T.astype(float)
    return found
