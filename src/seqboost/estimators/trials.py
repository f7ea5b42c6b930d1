"""Trials: the choices among "auto" values that no rule gets right, made on the sequences held out for early stopping.

Training by the rules (:mod:`seqboost.estimators.automatic`) comes first; then one choice after the other is changed,
and stays so if held-out sequences are more probable::

    by the rules ──► factored potentials ──► a window twice as wide ──► the best of them
                     if those were joint     if there is one

Few held-out positions judge by chance; then other sequences are held out in turn, and both contestants are trained on
what remains (:class:`~seqboost.estimators.holdout.Divisions`)::

    ░▓▓▓▓▓▓▓▓▓      ▓░▓▓▓▓▓▓▓▓      ▓▓░▓▓▓▓▓▓▓      ▓▓▓░▓▓▓▓▓▓      ░ held out

Neither the number of labels or columns nor the course of the first rounds tells which is better
(``benchmarks/trials.py``). Validation data of a user's own choose nothing but the round: who watches a test set must
not have it decide on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seqboost.boosting import Callback, Progress, Stopping
from seqboost.estimators.automatic import wider_window
from seqboost.estimators.holdout import Divisions
from seqboost.estimators.progress import progress_bar
from seqboost.estimators.settings import Settings, Trained
from seqboost.estimators.training import train
from seqboost.exceptions import MemoryLimitError
from seqboost.sequences import SequenceBatch

__all__ = ["Heard", "best_of_trials", "left_to_trials"]

TRIAL_POSITIONS = 150_000
"""With more positions the rules decide alone: a second training would take long."""
FEWEST_JUDGING = 500
"""With fewer held-out positions the rules decide alone: chance would."""
ENOUGH_JUDGING = 4, 4_000
"""Sequences are held out in turn until so many of them, and so many of their positions, have judged ..."""
MOST_PARTS = 4
"""... but not more often than this."""


class Heard:
    """Callbacks as one that remembers whether any of them, early stopping apart, stopped a training."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = callbacks
        self.stopped = False

    def __call__(self, progress: Progress) -> bool:
        """Ask all callbacks, whatever the first one says."""
        answers = [(callback, bool(callback(progress))) for callback in self.callbacks]
        self.stopped |= any(stops and not isinstance(callback, Stopping) for callback, stops in answers)
        return any(stops for _, stops in answers)


def left_to_trials(asked: dict[str, Any], settings: Settings, divisions: Divisions) -> list[str]:
    """Return which parameters trials decide on: those that are "auto", if that takes little time and can be judged."""
    takes_long = divisions.labelled.batch.n_rows > TRIAL_POSITIONS or settings["init"] == "linear"
    if takes_long or divisions(divisions.first_judging)[1].batch.n_rows < FEWEST_JUDGING:
        return []
    return [name for name in ALTERNATIVES if isinstance(asked[name], str) and asked[name] == "auto"]


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
        Callbacks that may have to end all training.
    verbose : int
        As in TreeCRF.
    """
    trials = _Trials(divisions, stop, verbose)
    best = _Contestant(settings, {0: first})
    for name in names:
        other = ALTERNATIVES[name](best, divisions.labelled.batch)
        if other is not None and not stop.stopped:
            changed = replace(settings, parameters={**best.settings.parameters, name: other})
            title = f"trying {other}" if name == "potentials" else f"trying {name} {other}"  # a bar has little room
            challenger = _Contestant(changed, title=title)
            best = challenger if trials.prefer(challenger, best) else best
    return trials.trained(best, 0), best.settings


@dataclass(frozen=True, eq=False)
class _Contestant:
    """Settings, and what was trained by them, by number of the division."""

    settings: Settings
    trained: dict[int, Trained] = field(default_factory=dict)
    title: str = "once more"


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trains contestants, and has held-out sequences judge them."""

    divisions: Divisions
    stop: Heard
    verbose: int

    def prefer(self, challenger: _Contestant, best: _Contestant) -> bool:
        """Tell whether held-out sequences are more probable with the challenger; behind after two parts, it is out."""
        lead, n_sequences, n_positions, first = 0.0, 0, 0, self.divisions.first_judging
        for number in range(first, first + min(MOST_PARTS, self.divisions.n_parts)):
            try:
                gain = self.trained(challenger, number).best_score - self.trained(best, number).best_score
            except MemoryLimitError:
                return False
            judging = self.divisions(number)[1].batch
            lead += gain * judging.n_rows
            if self.stop.stopped or (number > first and not lead > 0):
                return False
            n_sequences, n_positions = n_sequences + judging.n_sequences, n_positions + judging.n_rows
            if n_sequences >= ENOUGH_JUDGING[0] and n_positions >= ENOUGH_JUDGING[1]:
                break
        return lead > 0

    def trained(self, contestant: _Contestant, number: int) -> Trained:
        """Return what a contestant comes to on a division; train it if that has not been done."""
        if number not in contestant.trained:
            settings = contestant.settings
            with progress_bar(settings["max_iter"], self.verbose, contestant.title) as bars:
                settings = replace(settings, callbacks=[*bars, self.stop])
                contestant.trained[number] = train(*self.divisions(number), settings)
        return contestant.trained[number]


def _factored(best: _Contestant, batch: SequenceBatch) -> str | None:
    model = next(iter(best.trained.values())).model
    return "factored" if model.order > 0 and model.forest.order == model.order else None


def _wider(best: _Contestant, batch: SequenceBatch) -> Any:
    return wider_window(best.settings["window"], batch)


ALTERNATIVES: dict[str, Callable[[_Contestant, SequenceBatch], Any]] = {"potentials": _factored, "window": _wider}
"""What is tried instead of what is best so far, for each parameter, in this order; None: nothing."""
