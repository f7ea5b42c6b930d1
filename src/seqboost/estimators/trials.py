"""Trials: the choices among "auto" values that no rule gets right, made on held-out sequences.

Training by the rules (:mod:`seqboost.estimators.automatic`) comes first; then one choice after the other is changed,
and stays so if held-out sequences are more probable::

    by the rules ──► factored potentials ──► a window twice as wide ──► the best of them
                     if those were joint     if there is one

Few held-out positions judge by chance; then other sequences are held out in turn, and both contestants are trained on
what remains (:class:`~seqboost.estimators.holdout.Divisions`)::

    ░▓▓▓▓▓▓▓▓▓      ▓░▓▓▓▓▓▓▓▓      ▓▓░▓▓▓▓▓▓▓      ▓▓▓░▓▓▓▓▓▓      ░ held out

The number of labels or columns does not tell which is better (``benchmarks/defaults.py``). Validation data of a user's
own choose nothing but the round: who watches a test set must not have it decide on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from seqboost.boosting import Callback, Progress
from seqboost.estimators.automatic import is_auto, wider_window
from seqboost.estimators.holdout import Divisions
from seqboost.estimators.labelled import Labelled
from seqboost.estimators.progress import progress_bar
from seqboost.estimators.settings import Settings, Trained
from seqboost.estimators.training import train
from seqboost.exceptions import MemoryLimitError
from seqboost.sequences import SequenceBatch

__all__ = ["Heard", "best_of_trials", "left_to_trials"]

TRIAL_POSITIONS = 50_000
"""With more positions the rules decide alone: other trainings would take minutes."""
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


def left_to_trials(asked: Mapping[str, Any], settings: Settings, divisions: Divisions) -> list[str]:
    """Return which parameters trials decide on: those that are "auto", if that takes little time and can be judged.

    The scores of a pruned pass and of the pseudo-likelihood are none of held-out sequences: both know their labels.
    """
    takes_long = divisions.labelled.batch.n_rows > TRIAL_POSITIONS or settings["init"] == "linear"
    is_exact = settings["beam"] is None and settings["objective"] != "pseudo_likelihood"
    if takes_long or not is_exact or settings["pseudo_likelihood_rounds"] >= settings["max_iter"]:
        return []
    if divisions(divisions.judging(MOST_PARTS)[0])[1].n_judging()[1] < FEWEST_JUDGING:
        return []
    return [name for name in ALTERNATIVES if is_auto(asked[name])]


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
    trials = _Trials(cache(divisions), divisions.judging(MOST_PARTS), stop, verbose)
    by_rules = best = _Contestant(settings, {0: first})
    for name in names:
        other = ALTERNATIVES[name](best, divisions.labelled.batch)
        if other is not None and not stop.stopped:
            parameters = {**best.settings.parameters, name: other}
            challenger = _Contestant(replace(settings, parameters=parameters), title=_title(name, other))
            best = challenger if trials.prefer(challenger, best) else best
    if not trials.is_complete(best, 0):
        best = by_rules
    return best.trained[0], best.settings


def _title(name: str, value: Any) -> str:
    """Return what stands before a progress bar, where there is little room."""
    if name == "window":
        return f"trying window {value['*'] if isinstance(value, dict) else value}"
    return f"trying {value}"


@dataclass(frozen=True, eq=False)
class _Contestant:
    """Settings, and what was trained by them, by number of the division."""

    settings: Settings
    trained: dict[int, Trained] = field(default_factory=dict)
    title: str = "once more"


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trains contestants, and has held-out sequences judge them."""

    divide: Callable[[int], tuple[Labelled, Labelled]]
    judging: Sequence[int]
    stop: Heard
    verbose: int

    def prefer(self, challenger: _Contestant, best: _Contestant) -> bool:
        """Tell whether held-out sequences are more probable with the challenger; behind after two parts, it is out.

        Rounding must not choose: it has to lead by what counts as improvement in early stopping.
        """
        lead, weight, n_sequences, n_labels = 0.0, 0.0, 0, 0.0
        for number in self.judging:
            if not (self.is_complete(challenger, number) and self.is_complete(best, number)):
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
            if not self.stop.stopped:
                contestant.trained[number] = trained
        return number in contestant.trained


def _factored(best: _Contestant, batch: SequenceBatch) -> str | None:
    is_joint = best.settings["potentials"] == "joint" and best.settings["order"] > 0
    return "factored" if is_joint else None


def _wider(best: _Contestant, batch: SequenceBatch) -> Any:
    return wider_window(best.settings["window"], batch)


ALTERNATIVES: dict[str, Callable[[_Contestant, SequenceBatch], Any]] = {"potentials": _factored, "window": _wider}
"""What is tried instead of what is best so far, for each parameter, in this order; None: nothing."""
