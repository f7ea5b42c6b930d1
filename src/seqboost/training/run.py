"""A whole fit: settings resolved, candidates tried, training stopped by held-out sequences, trained again on all.

In a picture::

    config ──► resolved ──► sample: λ, window ──► training ──► candidates ──► refit ──► FitResult
               defaults     tuning, if very many  single       tuning         single
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seqboost.boosting import Callback, Stopping
from seqboost.boosting.callbacks import retell
from seqboost.core.exceptions import MemoryLimitError, ParameterError
from seqboost.training.checks import check_config, check_label_weights, check_still_held_out
from seqboost.training.config import FitConfig, is_auto
from seqboost.training.dataset import Dataset
from seqboost.training.defaults import continued, resolved, weighted
from seqboost.training.durations import label_durations
from seqboost.training.holdout import Divisions, divisions_of
from seqboost.training.progress import FitProgress, fit_progress
from seqboost.training.result import Candidate, FitData, FitResult
from seqboost.training.single import Course, train_again, train_once
from seqboost.training.tuning import SharedStop, Tuner, can_tune, n_alternatives, sample_for_tuning, tuned_names

__all__ = ["train"]

REFIT_POSITIONS = 150_000  # refit="auto": beyond this, a tenth more hardly changes a model


def train(
    config: FitConfig,
    data: FitData,
    *,
    callbacks: Sequence[Callback] = (),
    earlier: FitResult | None = None,
    present: Callable[[FitResult], Any] | None = None,
) -> FitResult:
    """Fit a model: resolve what is "auto", tune, stop early, train again on all sequences.

    Parameters
    ----------
    config : FitConfig
        What the user asked for.
    data : FitData
        Sequences; with validation sequences nothing is held out, tuned or trained again.
    callbacks : sequence of Callback
        Called after every round.
    earlier : FitResult, optional
        A fit to continue.
    present : callable, optional
        From a result to the model that callbacks see.
    """
    config = weighted(config, data)
    check_config(config)
    asked, n_labels = config, len(data.classes)
    if earlier is None:
        config = resolved(config, data.training.batch, n_labels)
    else:
        check_label_weights(config, earlier)
        config = continued(config, earlier.config, n_labels)
    _check_durations(config, data)
    divisions = divisions_of(data.training, config) if data.validation is None else None
    if earlier is not None and divisions is not None:
        check_still_held_out(earlier.refitted)
    stopping = _stopping_rule(callbacks, config, data.validation is not None or divisions is not None)
    callbacks = [callback for callback in callbacks if not isinstance(callback, Stopping)]
    with fit_progress(data, config.verbose) as progress:
        fit = _Fit(asked, config, data, stopping, callbacks, earlier, present, progress)
        result = fit.once() if divisions is None else fit.held_out(divisions)
        progress.result = replace(result, config=result.config.with_potentials(result.potentials))
        return progress.result


def _check_durations(config: FitConfig, data: FitData) -> None:
    """Raise InputError at the first run of a label that is too short, before blocks of sequences are held out."""
    durations = label_durations(config.chain.min_duration, data.classes)
    for part in (data.training, data.validation, *data.others):
        if part is not None and durations is not None:
            part.check_durations(durations, data.classes.tolist())


def _tell(result: FitResult, max_iter: int, callbacks: Sequence[Callback]) -> None:
    """Tell callbacks of a training that was a candidate."""
    history = result.history
    retell(history.to_dict(), max_iter, callbacks, history.set_names, history.watched)


def _stopping_rule(callbacks: Sequence[Callback], config: FitConfig, has_validation: bool) -> Stopping | None:
    """Return when to stop early: as a callback has it, or else by the configuration; never without held-out data."""
    asked = next((callback for callback in callbacks if isinstance(callback, Stopping)), None)
    if asked is not None and not has_validation:
        raise ParameterError(
            "the callback early_stopping needs validation sequences, but there are none; give X_val and y_val (or "
            "eval_set), or have some held out with early_stopping=True"
        )
    if not has_validation or (asked is None and config.stopping.early_stopping is False):
        return None
    return asked or Stopping(config.stopping.n_iter_no_change, config.method.tol)


@dataclass(eq=False)
class _Fit:
    """One fit, from the resolved configuration to the result."""

    asked: FitConfig
    config: FitConfig
    data: FitData
    stopping: Stopping | None
    callbacks: Sequence[Callback]
    earlier: FitResult | None
    present: Callable[[FitResult], Any] | None
    progress: FitProgress

    def once(self) -> FitResult:
        """Train once, on all training sequences."""
        if self.asked.tune is True:
            raise ParameterError(
                "tune=True compares settings on held-out sequences, but none are held out: validation data were given, "
                "early_stopping is False, or there are too few sequences; leave these to TreeCRF, or use tune='auto'"
            )
        stop = SharedStop([callback for callback in self.callbacks if callback.runs_in_refit])
        others = [callback for callback in self.callbacks if not callback.runs_in_refit]
        return train_once(self.config, self.data, self._course([*others, stop]), earlier=self.earlier)

    def held_out(self, divisions: Divisions) -> FitResult:
        """Train until held-out sequences say stop, have others judge candidates, and train on all of them.

        Callbacks see the training that is kept. If a candidate wins, its rounds are replayed to them; with callbacks
        that may stop, or that see the model, nothing is tuned. Those that run in a refit are called in all trainings.
        """
        stop = SharedStop([callback for callback in self.callbacks if callback.runs_in_refit])
        others = [callback for callback in self.callbacks if not callback.runs_in_refit]
        names = self._tuned_names(others)
        self.progress.expect(n_alternatives(names) + self._refits())
        config, result, tuning = self.config, None, tuple[Candidate, ...]()
        of_sample = self._sampled() if names else None
        if self.asked.tune is True:
            Tuner(of_sample or divisions, self.data, self.stopping, stop, self.progress).check_can_judge()
        if of_sample is not None:
            tuner = Tuner(of_sample, self.data, self.stopping, stop, self.progress, self.present)
            found = tuner.best_config(config, names)
            config, result = (found, None) if isinstance(found, FitConfig) else (found.config, found)
            tuning = tuner.tuning
        if result is not None:
            _tell(result, config.max_iter, others)
        else:
            part, course = self._part(divisions, 0), self._course([*others, stop])
            try:
                result = train_once(config, part, course, earlier=self.earlier)
            except MemoryLimitError:
                if config is self.config:
                    raise
                # There was room for a sample alone.
                result = train_once(self.config, part, course, earlier=self.earlier)
        if is_auto(config.chain.potentials):  # what there is room for may change from one training to the next
            result = replace(result, config=result.config.with_potentials(result.potentials))
        if not stop.stopped:
            tuner = Tuner(divisions, self.data, self.stopping, stop, self.progress, self.present)
            best = tuner.best(result.config, names, result)
            if best.history is not result.history:
                _tell(best, config.max_iter, others)
            result = best
        tuning = result.tuning or tuning
        if self._refits() and not stop.stopped:
            self.progress.expect(0)
            result = train_again(result, self.data, Course(self.progress, None, [stop], self.present, "refit"))
        return replace(result, tuning=tuning)

    def _tuned_names(self, callbacks: Sequence[Callback]) -> list[str]:
        """Return the parameters that are tuned."""
        if self.asked.tune is True and (self.config.warm_start or not can_tune(self.config)):
            raise ParameterError(
                "tune=True needs held-out scores that can be compared; use it without warm_start, a beam in training "
                "or the pseudo-likelihood"
            )
        live = [callback for callback in callbacks if callback.may_stop or callback.sees_model]
        names = [] if self.config.warm_start or live else tuned_names(self.asked, self.config)
        if self.asked.tune is True and not names:
            raise ParameterError(
                "tune=True finds nothing to tune: callbacks that may stop, or that see the model, leave no room for it"
                if live
                else "tune=True finds nothing to tune: potentials, l2_regularization and window are all named; leave "
                "one of them 'auto', or use tune=False"
            )
        return names

    def _course(self, callbacks: Sequence[Callback]) -> Course:
        return Course(self.progress, self.stopping, callbacks, self.present)

    def _part(self, divisions: Divisions, number: int) -> FitData:
        training, validation = divisions(number)
        return replace(self.data, training=training, validation=validation)

    def _sampled(self) -> Divisions | None:
        """Return ways to hold out sequences of a sample, if there are too many for tuning."""
        sample: Dataset | None = sample_for_tuning(self.data.training, self.config.seed)
        return None if sample is None else divisions_of(sample, self.config)

    def _refits(self) -> bool:
        """Return whether to train again on all sequences."""
        refit = self.config.stopping.refit
        is_small = self.data.training.batch.n_rows <= REFIT_POSITIONS
        return refit is True or (refit == "auto" and not self.config.warm_start and is_small)
