"""Trials: the choices among "auto" values that no rule gets right, made on the sequences held out for early stopping.

Training by the rules (:mod:`seqboost.estimators.automatic`) comes first; then one choice after the other is changed,
and stays so if the held-out sequences are more probable::

    by the rules ──► factored potentials ──► a window twice as wide ──► the best of them
                     if those were joint     if there is one

Neither the number of labels or columns nor the course of the first rounds tells which is better; the log-likelihood of
held-out sequences at the best round does, as a rule (``benchmarks/trials.py``). Validation data of a user's own choose
nothing but the round: who watches a test set must not have it decide on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

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
JUDGING_POSITIONS = 500
"""With fewer positions to judge by, the rules decide alone: chance would."""


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
    if takes_long or held_out.batch.n_rows < JUDGING_POSITIONS:
        return []
    return [name for name in ALTERNATIVES if isinstance(asked[name], str) and asked[name] == "auto"]


def best_of_trials(
    first: Trained,
    training: Labelled,
    held_out: Labelled,
    settings: Settings,
    names: Sequence[str],
    stop: Heard,
    verbose: int,
) -> tuple[Trained, Settings]:
    """Train with one change after the other; return the training to keep, ``first`` or a better one, and its settings.

    Parameters
    ----------
    first : Trained
        By the rules.
    training, held_out : Labelled
        What it was trained on, and what decides.
    settings : Settings
        Those of ``first``.
    names : sequence of str
        The parameters that may change.
    stop : Heard
        Callbacks that may have to end all training.
    verbose : int
        As in TreeCRF.
    """
    best = first
    for name in names:
        other = ALTERNATIVES[name](best, settings, training.batch)
        if stop.stopped or other is None:
            continue
        title = f"trying {other}" if name == "potentials" else f"trying {name} {other}"  # a bar has little room
        with progress_bar(settings["max_iter"], verbose, title) as bars:
            changed = replace(settings, parameters={**settings.parameters, name: other}, callbacks=[*bars, stop])
            try:
                trial = train(training, held_out, changed)
            except MemoryLimitError:
                continue
        if trial.best_score > best.best_score:
            best, settings = trial, changed
    return best, settings


def _factored(best: Trained, settings: Settings, batch: SequenceBatch) -> str | None:
    is_joint = best.model.order > 0 and best.model.forest.order == best.model.order
    return "factored" if is_joint else None


def _wider(best: Trained, settings: Settings, batch: SequenceBatch) -> Any:
    return wider_window(settings["window"], batch)


ALTERNATIVES: dict[str, Callable[[Trained, Settings, SequenceBatch], Any]] = {
    "potentials": _factored,
    "window": _wider,
}
"""What is tried instead of what is best so far, for each parameter, in this order; None: nothing."""
