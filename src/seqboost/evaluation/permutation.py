"""Whether two labellers differ, if neighbouring positions are not independent."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError
from seqboost.evaluation.labels import right_by_sequence

__all__ = ["PermutationTest", "permutation_test"]

N_EXCHANGES = 9_999
MOST_EXACT = 13  # blocks that differ; their exchanges are fewer than random ones would be
BATCH_CELLS = 2_000_000  # signs drawn at a time


class PermutationTest(NamedTuple):
    """What the permutation test found.

    Attributes
    ----------
    difference : int
        Positions that the first labeller has right, less those of the second.
    n_blocks : int
        Blocks that were exchanged.
    pvalue : float
        Two-sided.
    """

    difference: int
    n_blocks: int
    pvalue: float


def permutation_test(y_true: Any, a: Any, b: Any, *, block: int = 100, random_state: int = 0) -> PermutationTest:
    """Test whether two labellings are right equally often, block by block.

    Neighbours tend to be right or wrong together: one missed change of state is a hundred wrong readings. McNemar's
    test counts them as a hundred witnesses; here a block is one. If labellers were equally good, exchanging their
    labels in any block would change nothing, so that the difference d_u of right positions in block u might as well be
    −d_u. The p-value is the share of exchanges for which |Σ_u ± d_u| is at least |Σ_u d_u|: of all exchanges if there
    are few, of 9,999 random ones and that of none otherwise.

    Parameters
    ----------
    y_true : list of label sequences, or flat sequence of labels
        None or NaN = unobserved: left out.
    a, b : as y_true
        Predictions of two labellers.
    block : int, default=100
        Positions of a block, at most; sequences up to this length are a block each, longer ones are cut. It should be
        longer than labels hang together.
    random_state : int, default=0
        Seed of the exchanges.

    Returns
    -------
    PermutationTest

    Raises
    ------
    InputError
        If the labellings do not have the same shape.

    See Also
    --------
    mcnemar : The test that takes positions as independent.

    Examples
    --------
    One labeller misses a state of 40 readings out of 4,000, and is right elsewhere; the other errs nowhere:

    >>> import numpy as np
    >>> from seqboost.evaluation import mcnemar, permutation_test
    >>> y = np.zeros(4000, dtype=int)
    >>> missed = np.where(np.arange(4000) // 40 == 50, 1, y)
    >>> mcnemar(y, y, missed).pvalue < 1e-6, permutation_test(y, y, missed).pvalue
    (True, 1.0)
    """
    if not isinstance(block, Integral) or isinstance(block, bool) or block < 1:
        raise ParameterError(f"block={block!r}: expected a number of positions, 1 or more.")
    if not isinstance(random_state, Integral) or isinstance(random_state, bool) or random_state < 0:
        raise ParameterError(f"random_state={random_state!r}: expected a seed, an int of 0 or more.")
    right = right_by_sequence(y_true, a=a, b=b)
    counts = {name: _by_block(parts, int(block)) for name, parts in right.items()}
    difference = int(counts["a"].sum() - counts["b"].sum())
    differ = counts["a"] != counts["b"]  # exchanges of the others change nothing
    d = (counts["a"] - counts["b"])[differ]
    return PermutationTest(difference, len(differ), _share_as_large(d, np.random.default_rng(random_state)))


def _share_as_large(d: NDArray[np.int64], rng: np.random.Generator) -> float:
    """Return the share of exchanges with |Σ ± d| ≥ |Σ d|; of random ones, that of none counts as one more of them."""
    if len(d) <= MOST_EXACT:
        sums = np.zeros(1, dtype=np.int64)
        for value in d:
            sums = np.concatenate([sums - value, sums + value])
        return float(np.mean(np.abs(sums) >= abs(d.sum())))
    n_large, n_left = 1, N_EXCHANGES
    while n_left > 0:
        n_drawn = min(n_left, max(1, BATCH_CELLS // len(d)))
        exchanged = rng.integers(0, 2, size=(n_drawn, len(d)), dtype=np.int8) @ d  # Σ ± d = Σ d − 2 Σ of the exchanged
        n_large += int(np.count_nonzero(np.abs(d.sum() - 2 * exchanged) >= abs(d.sum())))
        n_left -= n_drawn
    return n_large / (N_EXCHANGES + 1)


def _by_block(parts: list[NDArray[np.bool_]], block: int) -> NDArray[np.int64]:
    """Count right positions in blocks of nearly equal length, none of them in two sequences."""
    pieces = [piece for part in parts if len(part) for piece in np.array_split(part, -(-len(part) // block))]
    return np.array([int(piece.sum()) for piece in pieces], dtype=np.int64)
