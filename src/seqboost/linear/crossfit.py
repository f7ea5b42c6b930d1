"""Cross-fitted scores: each training sequence is scored by a linear chain that was fitted without it.

A linear chain with a weight for every word is overconfident on the sequences it was fitted to. Trees boosted from its
scores there would not see the errors it makes on new sequences. So the sequences are dealt into folds, and each gets
its scores from a chain fitted to the other folds with the same plan (λ and steps)::

    fold 1 ◄── W fitted to  2 3 4         held-out sequences and new ones ◄── W fitted to  1 2 3 4
    fold 2 ◄── W fitted to 1  3 4
    ...

On ncbi_disease, boosting from the chain's own scores finds nothing to add; from these, its validation log-likelihood
rises for tens of rounds.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from seqboost.linear.lbfgs import MIN_SEQUENCES, Plan, run_plan
from seqboost.linear.objective import LinearObjective, LinearTask
from seqboost.linear.weights import LinearWeights

__all__ = ["FOLDS", "LinearFit", "cross_scores", "digest"]

FOLDS = 4
MAX_STEPS = 100_000  # of a stored plan, for each penalty


class LinearFit(NamedTuple):
    """How a linear start was found, and a checksum of what it was fitted to: enough to compute its scores again."""

    plan: Plan
    digest: int

    def to_json(self) -> list[Any]:
        """Return plain lists, ready for JSON."""
        return [[list(part) for part in self.plan], self.digest]

    @classmethod
    def from_json(cls, stored: list[Any]) -> LinearFit:
        """Rebuild from the result of :meth:`to_json`; ValueError if it is not valid."""
        plan, checksum = stored
        steps = tuple((float(penalty), int(n_steps)) for penalty, n_steps in plan)
        if not all(penalty >= 0 and 0 <= n_steps <= MAX_STEPS for penalty, n_steps in steps):
            raise ValueError("the way to the linear start is not a possible one")
        return cls(steps, int(checksum))


def cross_scores(task: LinearTask, weights: LinearWeights, plan: Plan, seed: int) -> NDArray[np.float32]:
    """Return the scores that boosting starts from.

    Parameters
    ----------
    task : LinearTask
        What the linear chain was fitted to.
    weights : LinearWeights
        Its weights, fitted to all training sequences.
    plan : tuple of pairs
        The plan that found them.
    seed : int
        Deals the sequences into folds.

    Returns
    -------
    ndarray of float32 of shape (n_labels, n_rows, 1)
        Training sequences: by the chains fitted without them; fewer than 20 are not split and have the scores of
        ``weights``, as validation sequences do.
    """
    scores = weights.scores(task.rows, task.n_threads)
    if task.n_training < MIN_SEQUENCES:
        return scores
    fold = np.random.default_rng(seed).permutation(task.n_training) % FOLDS
    with threadpool_limits(limits=1, user_api="blas"):
        for f in range(FOLDS):
            kept, left_out = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            part, rows = task.rearranged(np.concatenate([kept, left_out]), len(kept))
            objective = LinearObjective(part)
            first = part.rows.offsets[len(kept)]  # of the rows left out
            found = objective.weights(run_plan(objective, plan)).scores(part.rows, task.n_threads)
            scores[:, rows[first:]] = found[:, first:]
    return scores


def digest(task: LinearTask) -> int:
    """Return a checksum of what a linear chain is fitted to, to recognise the sequences of an earlier fit."""
    rows = task.rows
    parts = [rows.indptr, rows.column, rows.value, rows.offsets, task.labels, task.weights]
    if task.sets is not None:
        parts.append(task.sets)
    checksum = task.n_training
    for part in parts:
        checksum = zlib.crc32(np.ascontiguousarray(part).data, checksum)
    return checksum
