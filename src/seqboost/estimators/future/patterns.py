"""The search for a pattern in later or earlier positions that tells something about labels.

One pattern is a score G of single positions (a sum of trees) and its effect η on the labels of all positions whose bags
hold it (:mod:`seqboost.objectives.bags`). Both are climbed in turns::

    for several first η: a few rounds of G              the one with the highest log-likelihood goes on
    until held-out sequences gain no more: rounds of G for this η, then the best η for this G

All of it is the one boosting loop, with an objective whose scores are G.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import Boosting, Ensemble, Everything, Examples, History, LineSearch, Stopping, TreeFitter, boost
from seqboost.features import BinnedRows
from seqboost.model import Forest, forest_scores
from seqboost.objectives import BagLikelihood, Bags, best_effect

__all__ = ["Pattern", "PatternSearch"]

FIRST_EFFECT = 2.0  # log-odds that a pattern is worth before anything is known of it
TRIAL_ROUNDS = 3
MAX_ROUNDS = 40  # of G for one η
PATIENCE = 5
MAX_TURNS = 4
LEAST_GAIN = 1e-5  # of the mean log-likelihood of held-out labels


class Pattern(NamedTuple):
    """A pattern: the trees of G, η, and the probability Q that the bag of each position holds one."""

    forest: Forest
    effect: NDArray[np.float64]  # (n_labels,)
    probability: NDArray[np.float64]  # (n_rows,)
    score: float  # mean log-likelihood of held-out labels with it


@dataclass(frozen=True, eq=False)
class PatternSearch:
    """Sequences to search in; training sequences first, then those held out.

    Attributes
    ----------
    binned : BinnedRows
        What G may look at.
    fitter : TreeFitter
        Grows the trees of G.
    bags : Bags
        Where patterns may lie, seen from each position.
    labels : ndarray of int32, shape (n_rows,)
        −1 = unobserved.
    weights : ndarray of float64, shape (n_sequences,)
        Weights of sequences.
    n_training : int
        Number of training sequences.
    start : float
        G before the first tree: negative, for most positions are not the pattern.
    seed, n_threads : int
        As in the boosting loop.
    """

    binned: BinnedRows
    fitter: TreeFitter
    bags: Bags
    labels: NDArray[np.int32]
    weights: NDArray[np.float64]
    n_training: int
    start: float
    seed: int
    n_threads: int

    def find(self, base: NDArray[np.float64], effects: Iterable[NDArray[np.float64]]) -> Pattern:
        """Return the best pattern found on top of scores that are there already.

        Parameters
        ----------
        base : ndarray of float64, shape (n_rows, n_labels)
            F at the observed contexts.
        effects : iterable of ndarrays of shape (n_labels,)
            First η to try; labels whose η is 0 there keep it.
        """
        nothing = Forest.from_trees([], 1, 0)
        trials = [self._climb(base, effect, nothing, TRIAL_ROUNDS, None) for effect in effects]
        forest, effect = max(trials, key=lambda trial: self._value(base, *trial, held_out=False))
        free = effect != 0
        best = self._pattern(base, forest, effect)
        for _ in range(MAX_TURNS):
            forest, effect = self._climb(base, best.effect, best.forest, MAX_ROUNDS, Stopping(PATIENCE, LEAST_GAIN))
            probability = self._probability(forest)
            rows = np.repeat(np.where(self._is_training, self.weights, 0.0), np.diff(self.binned.offsets))
            effect = best_effect(base, probability, self.labels, rows, free)
            found = self._pattern(base, forest, effect)
            if found.score <= best.score + LEAST_GAIN:
                break
            best = found
        return best

    def first_effects(self, n_labels: int, label: int | None = None) -> list[NDArray[np.float64]]:
        """Return first η: for and against each label (all labels move), or one label alone."""
        if label is not None:
            alone = np.zeros(n_labels)
            alone[label] = FIRST_EFFECT
            return [alone, -alone]
        # With two labels, for the one is against the other.
        labels = range(1, 2) if n_labels == 2 else range(n_labels)
        return [sign * FIRST_EFFECT * (np.eye(n_labels)[k] - 1.0 / n_labels) for k in labels for sign in (1, -1)]

    @property
    def _is_training(self) -> NDArray[np.bool_]:
        return np.arange(len(self.weights)) < self.n_training

    def _scores(self, forest: Forest) -> NDArray[np.float32]:
        """Return G, (1, n_rows, 1)."""
        start = np.full((1, self.binned.n_rows, 1), self.start, dtype=np.float32)
        return forest_scores(forest, self.binned, self.n_threads, start=start)

    def _probability(self, forest: Forest) -> NDArray[np.float64]:
        return self.bags.probabilities(self._scores(forest).reshape(-1))

    def _objective(self, base: NDArray[np.float64], effect: NDArray[np.float64]) -> BagLikelihood:
        fitted = np.where(self._is_training, self.weights, 0.0)
        return BagLikelihood(self.bags, self.labels, self.binned.offsets, base, effect, fitted)

    def _climb(
        self,
        base: NDArray[np.float64],
        effect: NDArray[np.float64],
        forest: Forest,
        max_iter: int,
        stopping: Stopping | None,
    ) -> tuple[Forest, NDArray[np.float64]]:
        """Add rounds to G; return it with the effect it was climbed for."""
        offsets, no_context = self.binned.offsets, np.zeros(self.binned.n_rows, dtype=np.int32)
        task = Boosting(
            objective=self._objective(base, effect),
            fitter=self.fitter,
            examples=Examples.of_sequences(self.labels, no_context, offsets, int(offsets[self.n_training])),
            sampler=Everything(),
            step=LineSearch(),
            max_iter=max_iter,
            seed=self.seed,
            n_threads=self.n_threads,
            stopping=stopping,
        )
        ensemble = Ensemble(self._scores(forest), np.zeros((1, 1)), self.n_threads)
        kept = boost(task, ensemble, History(self._is_training, self.weights))
        return forest.extend(ensemble.kept(kept.n_rounds)), effect

    def _value(
        self, base: NDArray[np.float64], forest: Forest, effect: NDArray[np.float64], *, held_out: bool
    ) -> float:
        """Return the mean log-likelihood of the labels of held-out sequences, or of the others."""
        used = np.where(self._is_training == held_out, 0.0, self.weights)
        found = self._objective(base, effect).log_likelihood(self._scores(forest))
        n_observed = np.add.reduceat(self.labels >= 0, self.binned.offsets[:-1])
        return float(used @ found) / max(float(used @ n_observed), 1e-300)

    def _pattern(self, base: NDArray[np.float64], forest: Forest, effect: NDArray[np.float64]) -> Pattern:
        score = self._value(base, forest, effect, held_out=True)
        return Pattern(forest, effect, self._probability(forest), score)
