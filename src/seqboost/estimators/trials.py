"""Trials: the choices among "auto" values that no rule gets right, made on the sequences held out for early stopping.

Training by the rules (:mod:`seqboost.estimators.automatic`) comes first; then one choice after the other is changed,
and stays so if held-out sequences are more probable::

    by the rules ──► factored potentials ──► a window twice as wide ──► the best of them
                     if those were joint     if there is one

Few held-out sequences judge by chance; then others are held out in their place, part by part, and both contestants are
trained on what remains:

    part 0  ░▓▓▓▓▓▓▓▓▓      part 1  ▓░▓▓▓▓▓▓▓▓      part 2  ▓▓░▓▓▓▓▓▓▓      ░ held out

Neither the number of labels or columns nor the course of the first rounds tells which is better
(``benchmarks/trials.py``). Validation data of a user's own choose nothing but the round: who watches a test set must
not have it decide on the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

from seqboost.boosting import Callback, Progress, Stopping
from seqboost.estimators.automatic import wider_window
from seqboost.estimators.labelled import Labelled
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
ENOUGH_JUDGING, MOST_PARTS = 4_000, 4
"""Parts are added until so many positions have judged."""

Division: TypeAlias = tuple[Labelled, Labelled]
"""Sequences to train on, and held-out ones."""


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


def left_to_trials(asked: dict[str, Any], settings: Settings, training: Labelled, held_out: Labelled) -> list[str]:
    """Return which parameters trials decide on: those that are "auto", if that takes little time and can be judged."""
    takes_long = training.batch.n_rows > TRIAL_POSITIONS or settings["init"] == "linear"
    if takes_long or held_out.batch.n_rows < FEWEST_JUDGING:
        return []
    return [name for name in ALTERNATIVES if isinstance(asked[name], str) and asked[name] == "auto"]


def best_of_trials(
    first: Trained,
    divide: Callable[[int], Division],
    settings: Settings,
    names: Sequence[str],
    stop: Heard,
    verbose: int,
) -> tuple[Trained, Settings]:
    """Train with one change after the other; return the training to keep, ``first`` or a better one, and its settings.

    Parameters
    ----------
    first : Trained
        By the rules, on part 0.
    divide : callable
        From the number of a part to what is trained on and what is held out.
    settings : Settings
        Those of ``first``.
    names : sequence of str
        The parameters that may change.
    stop : Heard
        Callbacks that may have to end all training.
    verbose : int
        As in TreeCRF.
    """
    trials = _Trials(cache(divide), stop, verbose)
    best = _Contestant(settings, {0: first})
    for name in names:
        other = ALTERNATIVES[name](best, divide(0)[0].batch)
        if other is not None and not stop.stopped:
            changed = replace(settings, parameters={**best.settings.parameters, name: other})
            title = f"trying {other}" if name == "potentials" else f"trying {name} {other}"  # a bar has little room
            challenger = _Contestant(changed, title=title)
            best = challenger if trials.prefer(challenger, best) else best
    return best.trained[0], best.settings


@dataclass(frozen=True, eq=False)
class _Contestant:
    """Settings, and what they have come to, part by part."""

    settings: Settings
    trained: dict[int, Trained] = field(default_factory=dict)
    title: str = "once more"


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trains contestants, and has held-out sequences judge them."""

    divide: Callable[[int], Division]
    stop: Heard
    verbose: int

    def prefer(self, challenger: _Contestant, best: _Contestant) -> bool:
        """Tell whether held-out sequences are more probable with the challenger; behind after two parts, it is out."""
        lead = 0.0
        for part in range(self._n_parts()):
            try:
                gain = self._score(challenger, part) - self._score(best, part)
            except MemoryLimitError:
                return False
            lead += gain * self.divide(part)[1].batch.n_rows
            if self.stop.stopped or (part > 0 and not lead > 0):
                return False
        return lead > 0

    def _n_parts(self) -> int:
        n_kept, n_held = (labelled.batch.n_rows for labelled in self.divide(0))
        return min(MOST_PARTS, math.ceil(ENOUGH_JUDGING / n_held), 1 + n_kept // n_held)

    def _score(self, contestant: _Contestant, part: int) -> float:
        """Return the log-likelihood per position of held-out sequences; train first if that has not been done."""
        if part not in contestant.trained:
            settings = contestant.settings
            with progress_bar(settings["max_iter"], self.verbose, contestant.title) as bars:
                settings = replace(settings, callbacks=[*bars, self.stop])
                contestant.trained[part] = train(*self.divide(part), settings)
        return contestant.trained[part].best_score


def _factored(best: _Contestant, batch: SequenceBatch) -> str | None:
    model = best.trained[0].model
    return "factored" if model.order > 0 and model.forest.order == model.order else None


def _wider(best: _Contestant, batch: SequenceBatch) -> Any:
    return wider_window(best.settings["window"], batch)


ALTERNATIVES: dict[str, Callable[[_Contestant, SequenceBatch], Any]] = {"potentials": _factored, "window": _wider}
"""What is tried instead of what is best so far, for each parameter, in this order; None: nothing."""
