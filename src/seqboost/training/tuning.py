"""Tuning: the choices among "auto" values that no rule gets right, made on held-out sequences.

Training by the rules (:mod:`seqboost.training.defaults`) comes first; then one choice after the other is changed,
and stays so if held-out sequences are more probable::

    by the rules ──► factored potentials ──► λ · 10 ──► λ · 100 ──► a window twice as wide ──► or none ──► the best
                     if those were joint     few        if that     if it has neighbours       if columns   of them
                                             labels     was better                             are numbers

Few held-out positions judge by chance; then other sequences are held out in turn, and both candidates are trained on
what remains (:class:`~seqboost.training.holdout.Divisions`)::

    ░▓▓▓▓▓▓▓▓▓      ▓░▓▓▓▓▓▓▓▓      ▓▓░▓▓▓▓▓▓▓      ▓▓▓░▓▓▓▓▓▓      ░ held out

If there are very many positions, a sample of the sequences chooses λ and window before all of them are trained on. It
must not choose potentials: the more examples, the better for those with more to learn.

The number of labels or columns does not tell which is better (``benchmarks/defaults.py``). Validation data of a user's
own choose nothing but the round: who watches a test set must not have it decide on the model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from seqboost.boosting import Callback, Progress, Stopping
from seqboost.core.exceptions import MemoryLimitError, ParameterError
from seqboost.sequences import SequenceBatch
from seqboost.training.config import FitConfig, is_auto
from seqboost.training.dataset import Dataset
from seqboost.training.defaults import FEW_LABELS, PENALTY, no_window, wider_window
from seqboost.training.holdout import Divisions
from seqboost.training.progress import FitProgress
from seqboost.training.result import Candidate, FitData, FitResult
from seqboost.training.single import Course, train_once

__all__ = ["SharedStop", "Tuner", "can_tune", "n_alternatives", "sample_for_tuning", "tuned_names"]

TUNED = ("potentials", "l2_regularization", "window")
TUNED_POSITIONS = 50_000
"""With more positions a sample decides: trainings on all would take minutes each."""
SAMPLE_POSITIONS, FEWEST_SAMPLED = 20_000, 2
TUNED_BY_SAMPLES = ("l2_regularization", "window")
FEWEST_JUDGING = 500
"""With fewer held-out labels the rules decide alone: chance would."""
ENOUGH_JUDGING = 4, 4_000
"""Sequences are held out in turn until this many sequences and labels have compared two candidates ..."""
MOST_PARTS = 4
"""... but not more often than this."""


class SharedStop:
    """Callbacks of all trainings of a fit, as one that remembers whether any of them stopped a training."""

    may_stop = runs_in_refit = True

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = callbacks
        self.stopped = False

    @property
    def sees_model(self) -> bool:
        """Whether any of them asks for the model."""
        return any(callback.sees_model for callback in self.callbacks)

    def __call__(self, progress: Progress, /) -> bool:
        """Call all callbacks, whatever the first one returns."""
        answers = [callback(progress) for callback in self.callbacks]
        self.stopped |= any(answers)
        return self.stopped


def can_tune(config: FitConfig) -> bool:
    """Return whether held-out scores can be compared: those of a beam and of the pseudo-likelihood use the labels."""
    method = config.method
    is_exact = method.beam is None and method.objective != "pseudo_likelihood"
    return is_exact and method.pseudo_likelihood_rounds < config.max_iter


def tuned_names(asked: FitConfig, config: FitConfig) -> list[str]:
    """Return which parameters are tuned: those that were "auto", if ``tune`` wants it.

    With ``tune="auto"``, whoever names potentials and window, or has a linear start, wants it to take little time.
    """
    values = asked.chain.potentials, asked.trees.l2_regularization, asked.features.window
    names = [name for name, value in zip(TUNED, values, strict=True) if is_auto(value)]
    if asked.tune is False or not can_tune(config):
        return []
    takes_long = config.chain.init == "linear" or not {"potentials", "window"} & {*names}
    return names if asked.tune is True or not takes_long else []


def n_alternatives(names: Collection[str]) -> int:
    """Return how many candidates there are at most."""
    return sum(len(alternatives) for name, alternatives in ALTERNATIVES if name in names)


def sample_for_tuning(training: Dataset, seed: int) -> Dataset | None:
    """Draw as many sequences as tuning has time for, if there are more; None if there are not, or all are too long."""
    if training.batch.n_rows <= TUNED_POSITIONS:
        return None
    lengths, room, drawn = training.batch.lengths, SAMPLE_POSITIONS, []
    shortest = lengths.min()
    for i in np.random.default_rng(seed).permutation(training.batch.n_sequences):
        if lengths[i] <= room:
            drawn.append(i)
            room -= lengths[i]
        if room < shortest:
            break
    return training.take(np.sort(drawn)) if len(drawn) >= FEWEST_SAMPLED else None


@dataclass(eq=False)
class _Contestant:
    """A configuration, and what was trained with it, by number of the division."""

    config: FitConfig
    results: dict[int, FitResult] = field(default_factory=dict)
    cut_short: list[FitResult] = field(default_factory=list)  # when all training had to end
    title: str = "once more"
    seconds: float = 0.0


class Tuner:
    """Trains candidates, and has held-out sequences judge them.

    Parameters
    ----------
    divisions : Divisions
        Sequences to train on and held-out ones.
    data : FitData
        All sequences.
    stopping : Stopping or None
        When a training stops early.
    stop : SharedStop
        Callbacks that may have to end all training; if they do, what is complete counts.
    progress : FitProgress
        Reports the trainings.
    present : callable, optional
        From a result to the model that callbacks see.
    """

    def __init__(
        self,
        divisions: Divisions,
        data: FitData,
        stopping: Stopping | None,
        stop: SharedStop,
        progress: FitProgress,
        present: Callable[[FitResult], Any] | None = None,
    ) -> None:
        self._divisions, self._data, self._stopping, self._stop = divisions, data, stopping, stop
        self._progress, self._present = progress, present
        self._judging = divisions.judging(MOST_PARTS)
        self._parts: dict[int, FitData] = {}
        self._contestants: list[_Contestant] = []
        self._chosen: _Contestant | None = None

    def best(self, config: FitConfig, names: Collection[str], first: FitResult) -> FitResult:
        """Try one change after the other; return the training to keep, ``first`` or a better one.

        Parameters
        ----------
        config : FitConfig
            By the rules.
        names : collection of str
            The parameters that may change.
        first : FitResult
            Trained with ``config`` on division 0.
        """
        if not names or not self._can_judge():
            return first
        seconds = sum(first.history.seconds)
        by_rules = _Contestant(config, {0: first}, title="by the rules", seconds=seconds)
        best = self._search(by_rules, names)
        if not self._is_complete(best, 0):
            best = self._chosen = by_rules
        return replace(best.results[0], tuning=self.tuning)

    def best_config(self, config: FitConfig, names: Collection[str]) -> FitResult | FitConfig:
        """Return the configuration that a sample prefers or, if all training has to end, what there is by then."""
        names = [name for name in names if name in TUNED_BY_SAMPLES]
        if not names or not self._can_judge():
            return config
        best = self._search(_Contestant(config, title="on a sample"), names)
        results = [*best.results.values(), *best.cut_short]
        return results[0] if self._stop.stopped and results else best.config

    @property
    def tuning(self) -> tuple[Candidate, ...]:
        """What was tried."""
        return tuple(_candidate(c, self._part, c is self._chosen) for c in self._contestants)

    def _can_judge(self) -> bool:
        """Return whether there are enough held-out labels, and not too many positions to train on."""
        if self._divisions.dataset.batch.n_rows > TUNED_POSITIONS:
            return False
        return self._held_out(self._judging[0]).n_judging()[1] >= FEWEST_JUDGING

    def check_can_judge(self) -> None:
        """Raise ParameterError if held-out sequences cannot choose between candidates."""
        if not self._can_judge():
            raise ParameterError(
                f"tune=True needs {FEWEST_JUDGING} held-out labels or more to choose by, of sequences short enough "
                f"to be tried on; there are too few, or sequences are too long. Give more sequences, raise "
                f"validation_fraction, or use tune='auto'"
            )

    def _part(self, number: int) -> FitData:
        """Return what is trained on and what is held out."""
        if number not in self._parts:
            training, held_out = self._divisions(number)
            self._parts[number] = replace(self._data, training=training, validation=held_out)
        return self._parts[number]

    def _held_out(self, number: int) -> Dataset:
        held_out = self._part(number).validation
        assert held_out is not None
        return held_out

    def _search(self, by_rules: _Contestant, names: Collection[str]) -> _Contestant:
        """Try one change of these parameters after the other."""
        best, batch, n_labels = by_rules, self._divisions.dataset.batch, len(self._data.classes)
        self._contestants.append(best)
        for name, alternatives in ALTERNATIVES:
            for alternative in alternatives if name in names else ():
                config = alternative(best.config, batch, n_labels)
                if config is None or self._stop.stopped:
                    continue
                challenger = _Contestant(config, title=_title(name, config))
                self._contestants.append(challenger)
                is_better = self._prefers(challenger, best)
                ahead, behind = (_candidate(c, self._part, is_better) for c in (challenger, best))
                self._progress.log_candidate(challenger.title, ahead, behind, is_better)
                if is_better:
                    best = challenger
                    break
        self._chosen = best
        return best

    def _prefers(self, challenger: _Contestant, best: _Contestant) -> bool:
        """Return whether held-out sequences are more probable with the challenger; trailing after two parts, it loses.

        Rounding must not choose: it has to lead by what counts as improvement in early stopping.
        """
        lead, weight, n_sequences, n_labels, is_ahead = 0.0, 0.0, 0, 0.0, False
        for number in self._judging:
            if not (self._is_complete(best, number) and self._is_complete(challenger, number)):
                return False
            held_out = self._held_out(number)
            of_part, n_of_part = held_out.n_judging()
            lead += (challenger.results[number].best_score - best.results[number].best_score) * of_part
            weight += of_part
            is_ahead = lead > best.config.method.tol * weight
            if number > self._judging[0] and not is_ahead:
                return False
            n_sequences, n_labels = n_sequences + held_out.batch.n_sequences, n_labels + n_of_part
            if n_sequences >= ENOUGH_JUDGING[0] and n_labels >= ENOUGH_JUDGING[1]:
                break
        return is_ahead

    def _is_complete(self, contestant: _Contestant, number: int) -> bool:
        """Train a contestant on a division if that has not been done; return whether the training was completed."""
        if number not in contestant.results and not self._stop.stopped:
            config, began = contestant.config, time.perf_counter()
            course = Course(self._progress, self._stopping, [self._stop], self._present, contestant.title)
            try:
                result = train_once(config, self._part(number), course)
            except MemoryLimitError:
                return False
            contestant.seconds += time.perf_counter() - began
            if self._stop.stopped:
                contestant.cut_short.append(result)
            else:
                contestant.results[number] = result
        return number in contestant.results


def _candidate(contestant: _Contestant, part: Callable[[int], FitData], kept: bool) -> Candidate:
    """Describe a contestant to the user."""
    total = weight = 0.0
    for number, result in contestant.results.items():
        held_out = part(number).validation
        assert held_out is not None
        of_part, _ = held_out.n_judging()
        total, weight = total + result.best_score * of_part, weight + of_part
    config, results = contestant.config, contestant.results
    potentials = next((result.potentials for result in results.values()), config.chain.potentials)
    settings = {
        "potentials": potentials,
        "l2_regularization": config.trees.l2_regularization,
        "window": config.features.window,
    }
    rounds = tuple(result.best_iteration for result in results.values())
    return Candidate(settings, total / weight if weight else math.nan, contestant.seconds, rounds, kept)


def _title(name: str, config: FitConfig) -> str:
    """Return what stands before a progress bar, where there is little room."""
    if name == "window":
        window = config.features.window
        return f"trying window {window['*'] if isinstance(window, dict) else window}"
    return f"trying λ = {config.trees.l2_regularization:g}" if name == "l2_regularization" else "trying factored"


def _factored(config: FitConfig, batch: SequenceBatch, n_labels: int) -> FitConfig | None:
    is_joint = config.chain.potentials == "joint" and config.chain.order > 0
    return config.with_potentials("factored") if is_joint else None


def _wider(config: FitConfig, batch: SequenceBatch, n_labels: int) -> FitConfig | None:
    window: Any = wider_window(config.features.window, batch)
    return None if window is None else config.with_window(window)


def _none(config: FitConfig, batch: SequenceBatch, n_labels: int) -> FitConfig | None:
    window: Any = no_window(config.features.window, batch)
    return None if window is None else config.with_window(window)


def _stronger(config: FitConfig, batch: SequenceBatch, n_labels: int) -> FitConfig | None:
    return config.with_penalty(10 * float(config.trees.l2_regularization)) if n_labels <= FEW_LABELS else None


def _strongest(config: FitConfig, batch: SequenceBatch, n_labels: int) -> FitConfig | None:
    penalty = float(config.trees.l2_regularization)
    return config.with_penalty(10 * penalty) if penalty > PENALTY else None


Alternative = Callable[[FitConfig, SequenceBatch, int], FitConfig | None]

ALTERNATIVES: list[tuple[str, list[Alternative]]] = [
    ("potentials", [_factored]),
    ("l2_regularization", [_stronger]),
    ("l2_regularization", [_strongest]),
    ("window", [_wider, _none]),
]
"""What is tried instead of what is best so far, in this order, of each line until one is better; None for nothing."""
