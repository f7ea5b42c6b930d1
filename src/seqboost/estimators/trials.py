"""Trials: the choices among "auto" values that no rule gets right, made on held-out sequences.

Training by the rules (:mod:`seqboost.estimators.automatic`) comes first; then one choice after the other is changed,
and stays so if held-out sequences are more probable::

    by the rules ──► factored potentials ──► λ · 10 ──► λ · 100 ──► a window twice as wide ──► or none ──► the best
                     if those were joint     few        if that     if it has neighbours       if columns   of them
                                             labels     was better                             are numbers

Few held-out positions judge by chance; then other sequences are held out in turn, and both contestants are trained on
what remains (:class:`~seqboost.estimators.holdout.Divisions`)::

    ░▓▓▓▓▓▓▓▓▓      ▓░▓▓▓▓▓▓▓▓      ▓▓░▓▓▓▓▓▓▓      ▓▓▓░▓▓▓▓▓▓      ░ held out

If there are very many positions, a sample of the sequences chooses λ and window before all of them are trained on. It
must not choose potentials: the more examples, the better for those with more to learn.

The number of labels or columns does not tell which is better (``benchmarks/defaults.py``). Validation data of a user's
own choose nothing but the round: who watches a test set must not have it decide on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from seqboost.boosting import Callback, Progress
from seqboost.core.exceptions import MemoryLimitError
from seqboost.estimators.automatic import FEW_LABELS, PENALTY, is_auto, no_window, wider_window
from seqboost.estimators.holdout import Divisions
from seqboost.estimators.labelled import Labelled
from seqboost.estimators.progress import log_candidate, progress_bar
from seqboost.estimators.settings import Settings, Trained
from seqboost.estimators.training import train
from seqboost.sequences import SequenceBatch

__all__ = ["Heard", "best_of_trials", "left_to_trials", "sample_for_trials", "tried_on_sample"]

TRIAL_POSITIONS = 50_000
"""With more positions a sample decides: trainings on all would take minutes each."""
SAMPLE_POSITIONS, FEWEST_SAMPLED = 20_000, 2
CHOSEN_BY_SAMPLES = ["l2_regularization", "window"]
FEWEST_JUDGING = 500
"""With fewer held-out labels the rules decide alone: chance would."""
ENOUGH_JUDGING = 4, 4_000
"""Sequences are held out in turn until so many of them, with so many labels, have judged ..."""
MOST_PARTS = 4
"""... but not more often than this."""


class Heard:
    """Callbacks as one that remembers whether any of them stopped a training."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = callbacks
        self.stopped = False

    def __call__(self, progress: Progress) -> bool:
        """Ask all callbacks, whatever the first one says."""
        answers = [callback(progress) for callback in self.callbacks]
        self.stopped |= any(answers)
        return self.stopped


def left_to_trials(asked: Mapping[str, Any], settings: Settings) -> list[str]:
    """Return which parameters trials decide on: those that are "auto", if that takes little time and can be judged.

    Whoever names potentials and window wants none of them to take time.
    The scores of a pruned pass and of the pseudo-likelihood are none of held-out sequences: both know their labels.
    """
    is_exact = settings["beam"] is None and settings["objective"] != "pseudo_likelihood"
    is_boosted = settings["pseudo_likelihood_rounds"] < settings["max_iter"]
    takes_long = settings["init"] == "linear"
    is_asked = is_auto(asked["potentials"]) or is_auto(asked["window"])
    if takes_long or not (is_exact and is_boosted and is_asked):
        return []
    return [name for name in ("potentials", "l2_regularization", "window") if is_auto(asked[name])]


def _can_judge(divisions: Divisions) -> bool:
    """Tell whether there are enough held-out labels, and not too many positions to train on."""
    return (
        divisions.labelled.batch.n_rows <= TRIAL_POSITIONS
        and divisions(divisions.judging(MOST_PARTS)[0])[1].n_judging()[1] >= FEWEST_JUDGING
    )


def best_of_trials(
    first: Trained, divisions: Divisions, settings: Settings, names: Sequence[str], stop: Heard, verbose: int
) -> tuple[Trained, Settings]:
    """Train with one change after the other; return the training to keep, ``first`` or a better one, and its settings.

    Parameters
    ----------
    first : Trained
        By the rules, on division 0.
    divisions : Divisions
        Sequences to train on and held-out ones.
    settings : Settings
        Those of ``first``.
    names : sequence of str
        The parameters that may change.
    stop : Heard
        Callbacks that may have to end all training; if they do, what is complete counts.
    verbose : int
        As in TreeCRF.
    """
    if not names or not _can_judge(divisions):
        return first, settings
    trials = _Trials(cache(divisions), divisions.judging(MOST_PARTS), stop, verbose)
    by_rules = _Contestant(settings, {0: first})
    best = trials.best(by_rules, names, divisions.labelled.batch)
    if not trials.is_complete(best, 0):
        best = by_rules
    return best.trained[0], best.settings


def sample_for_trials(training: Labelled, seed: int) -> Labelled | None:
    """Draw as many sequences as trials have time for, if there are more; None if there are not, or all are too long."""
    if training.batch.n_rows <= TRIAL_POSITIONS:
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


def tried_on_sample(
    divisions: Divisions, settings: Settings, names: Sequence[str], stop: Heard, verbose: int
) -> tuple[Settings, Trained | None]:
    """Return the settings that a sample prefers and, if all training has to end, what there is by then.

    Parameters are those of :func:`best_of_trials`.
    """
    names = [name for name in names if name in CHOSEN_BY_SAMPLES]
    if not names or not _can_judge(divisions):
        return settings, None
    trials = _Trials(cache(divisions), divisions.judging(MOST_PARTS), stop, verbose)
    best = trials.best(_Contestant(settings, title="on a sample"), names, divisions.labelled.batch)
    trained = [*best.trained.values(), *best.cut_short] if stop.stopped else [None]
    return best.settings, trained[0]


def _title(name: str, value: Any) -> str:
    """Return what stands before a progress bar, where there is little room."""
    if name == "window":
        return f"trying window {value['*'] if isinstance(value, dict) else value}"
    return f"trying λ = {value:g}" if name == "l2_regularization" else f"trying {value}"


@dataclass(frozen=True, eq=False)
class _Contestant:
    """Settings, and what was trained by them, by number of the division."""

    settings: Settings
    trained: dict[int, Trained] = field(default_factory=dict)
    cut_short: list[Trained] = field(default_factory=list)  # when all training had to end
    title: str = "once more"


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trains contestants, and has held-out sequences judge them."""

    divide: Callable[[int], tuple[Labelled, Labelled]]
    judging: Sequence[int]
    stop: Heard
    verbose: int

    def best(self, by_rules: _Contestant, names: Sequence[str], batch: SequenceBatch) -> _Contestant:
        """Try one change of these parameters after the other."""
        best = by_rules
        for name, alternatives in ALTERNATIVES:
            for alternative in alternatives if name in names else ():
                other = alternative(best.settings[name], best.settings, batch)
                if other is None or self.stop.stopped:
                    continue
                parameters = {**best.settings.parameters, name: other}
                challenger = _Contestant(replace(best.settings, parameters=parameters), title=_title(name, other))
                is_better = self.prefer(challenger, best)
                if log_candidate(challenger.title, challenger.trained, best.trained, is_better):
                    best = challenger
                    break
        return best

    def prefer(self, challenger: _Contestant, best: _Contestant) -> bool:
        """Tell whether held-out sequences are more probable with the challenger; behind after two parts, it is out.

        Rounding must not choose: it has to lead by what counts as improvement in early stopping.
        """
        lead, weight, n_sequences, n_labels = 0.0, 0.0, 0, 0.0
        for number in self.judging:
            if not (self.is_complete(best, number) and self.is_complete(challenger, number)):
                return False
            held_out = self.divide(number)[1]
            of_part, n_of_part = held_out.n_judging()
            lead += (challenger.trained[number].best_score - best.trained[number].best_score) * of_part
            weight += of_part
            is_ahead = lead > best.settings["tol"] * weight
            if number > self.judging[0] and not is_ahead:
                return False
            n_sequences, n_labels = n_sequences + held_out.batch.n_sequences, n_labels + n_of_part
            if n_sequences >= ENOUGH_JUDGING[0] and n_labels >= ENOUGH_JUDGING[1]:
                break
        return is_ahead

    def is_complete(self, contestant: _Contestant, number: int) -> bool:
        """Train a contestant on a division if that has not been done; tell whether it came to an end of its own."""
        if number not in contestant.trained and not self.stop.stopped:
            settings = contestant.settings
            with progress_bar(settings["max_iter"], self.verbose, contestant.title) as bars:
                settings = replace(settings, callbacks=[*bars, self.stop])
                try:
                    trained = train(*self.divide(number), settings)
                except MemoryLimitError:
                    return False
            if self.stop.stopped:
                contestant.cut_short.append(trained)
            else:
                contestant.trained[number] = trained
        return number in contestant.trained


def _factored(potentials: str, settings: Settings, batch: SequenceBatch) -> str | None:
    return "factored" if potentials == "joint" and settings["order"] > 0 else None


def _wider(window: Any, settings: Settings, batch: SequenceBatch) -> Any:
    return wider_window(window, batch)


def _none(window: Any, settings: Settings, batch: SequenceBatch) -> Any:
    return no_window(window, batch)


def _stronger(penalty: float, settings: Settings, batch: SequenceBatch) -> float | None:
    return 10 * penalty if len(settings.classes) <= FEW_LABELS else None


def _strongest(penalty: float, settings: Settings, batch: SequenceBatch) -> float | None:
    return 10 * penalty if penalty > PENALTY else None


ALTERNATIVES: list[tuple[str, list[Callable[[Any, Settings, SequenceBatch], Any]]]] = [
    ("potentials", [_factored]),
    ("l2_regularization", [_stronger]),
    ("l2_regularization", [_strongest]),
    ("window", [_wider, _none]),
]
"""What is tried instead of what is best so far, in this order, of each line until one is better; None for nothing."""
