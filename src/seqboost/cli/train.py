"""``seqboost train``: files → a model."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np

import seqboost
from seqboost.cli.console import Interrupted, Terminated, handled, print_json, say
from seqboost.cli.data import load_data
from seqboost.cli.options import parsed, remembered
from seqboost.cli.plots import check_plot, save_plot
from seqboost.core.exceptions import DataFileError, ParameterError
from seqboost.files import SequenceData, word_window

__all__ = ["StopOnInterrupt", "run_train"]


class StopOnInterrupt:
    """A callback that ends training at Ctrl-C, SIGTERM or SIGHUP, after the round that is being grown.

    A second signal ends it at once.
    """

    may_stop = runs_in_refit = True
    sees_model = False

    def __init__(self) -> None:
        self.number: int | None = None  # of the signal
        self._handled = handled(self._ask, "SIGINT", "SIGTERM", "SIGHUP")

    @property
    def is_asked(self) -> bool:
        """Whether a signal came."""
        return self.number is not None

    def __enter__(self) -> Self:
        """Listen for signals."""
        self._handled.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        """Restore what signals did before."""
        self._handled.__exit__(*raised)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)
        self.number = number
        again = "press Ctrl-C again" if number == signal.SIGINT else "send the signal again"
        say(f"seqboost: stopping after this round; {again} to give up without a model")

    def __call__(self, progress: seqboost.Progress, /) -> bool:
        """Check whether to stop after a round."""
        return self.is_asked


def estimator(options: dict[str, Any], settings: list[str]) -> Any:
    """Make the estimator; ``settings`` are further parameters, ``name=value``, those of Method among them."""
    parameters = {name: value for name, value in options.items() if value is not None}
    method = seqboost.Method()
    known = [name for name in seqboost.TreeCRF().get_params(deep=False) if name != "method"]
    for setting in settings:
        name, equals, text = setting.partition("=")
        if equals and name in method.get_params():
            method.set_params(**{name: parsed(text, f"set {name}")})
            parameters["method"] = method
        elif equals and name in known:
            parameters[name] = parsed(text, f"set {name}")
        else:
            names = ", ".join(sorted([*known, *method.get_params()]))
            raise ParameterError(f"--set {setting}: expected name=value, with one of these names: {names}")
    return seqboost.TreeCRF(**parameters)


def _relabelled(value: Any, by_text: dict[str, Any]) -> Any:
    """Return a dict with labels in the place of their texts, which is what JSON has; all else as it is."""
    if not isinstance(value, dict):
        return value
    followers = {key: [by_text.get(str(to), to) for to in v] if isinstance(v, list) else v for key, v in value.items()}
    return {by_text.get(key, key): v for key, v in followers.items()}


def run_train(
    paths: list[Path],
    target: Path,
    reading: Any,
    validation: list[Path],
    options: dict[str, Any],
    settings: list[str],
    *,
    plot: Path | None,
    skip_bad: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Read, train, save, and say what came of it."""
    _check_target(target)
    check_plot(plot)
    quiet = quiet or as_json
    model = estimator(options, settings)
    data = load_data(paths, reading, labels="required", skip_bad=skip_bad, quiet=quiet)
    if not quiet:
        say(described(data))
    fit: dict[str, Any] = {}
    if validation:
        held = load_data(validation, data.reading, labels="required", skip_bad=skip_bad, quiet=quiet)
        held = held.with_labels_of(data.label_names)
        fit = {"X_val": held.batch, "y_val": held.y}
    if data.reading.features == "words" and "window" not in {n for n, v in options.items() if v is not None}:
        model.set_params(window=word_window(data))
    by_text = {str(label): label for label in data.label_names}
    by_label = ("class_weight", "transitions", "min_duration")
    model.set_params(**{name: _relabelled(getattr(model, name), by_text) for name in by_label})
    model.set_params(verbose=0 if quiet else 1)
    start = time.perf_counter()
    with StopOnInterrupt() as stop:
        model.fit(data.batch, data.y, callbacks=[stop], **fit)
    seconds = time.perf_counter() - start
    model.set_params(verbose=0)
    model.reading_ = remembered(data.reading, paths[0])
    model.save(target)
    if plot is not None:
        from seqboost.plotting import LearningCurveDisplay

        save_plot(plot, lambda ax: LearningCurveDisplay.from_estimator(model, ax=ax))
    result = _result(model, data, target, seconds, interrupted=stop.is_asked)
    if as_json:
        print_json(result)
    elif not quiet:
        for line in _told(result):
            say(line)
    if stop.number is not None:
        raise Interrupted(f"interrupted; the best model so far ({result['rounds']} rounds) is in {target}", stop.number)


def _check_target(target: Path) -> None:
    """Refuse places where no model can be written before hours are spent on it."""
    if target.is_dir():
        raise DataFileError(f"cannot write a model to {str(target)!r}: it is a folder; name a file inside it")
    if not target.resolve().parent.is_dir():
        raise DataFileError(f"cannot write a model to {str(target)!r}: there is no folder {str(target.parent)!r}")


def described(data: SequenceData) -> str:
    """Say what was read."""
    batch = data.batch
    kinds = {
        "numeric": batch.numeric.shape[1],
        "categorical": batch.categorical.shape[1],
        "sparse": 0 if batch.sparse is None else batch.sparse.shape[1],
    }
    columns = ", ".join(f"{n:,} {kind}" for kind, n in kinds.items() if n)
    labels = ", ".join(str(label) for label in data.label_names[:8]) + (", …" if len(data.label_names) > 8 else "")
    return (
        f"{batch.n_sequences:,} sequences, {batch.n_rows:,} positions; columns: {columns}; "
        f"{len(data.label_names)} labels: {labels}"
    )


def _result(model: Any, data: SequenceData, target: Path, seconds: float, *, interrupted: bool) -> dict[str, Any]:
    history, best = model.history_, model.best_iteration_
    part = "validation" if "validation_accuracy" in history else "train"
    return {
        "model": str(target),
        "sequences": data.batch.n_sequences,
        "positions": data.batch.n_rows,
        "labels": [str(label) for label in model.classes_.tolist()],
        "left_out": data.n_bad,
        "rounds": int(best),
        "scored_on": part,
        "log_likelihood": float(model.best_score_),
        "accuracy": float(np.asarray(history[f"{part}_accuracy"])[best]),
        "seconds": round(seconds, 3),
        "bytes": target.stat().st_size,
        "interrupted": interrupted,
    }


def _told(result: dict[str, Any]) -> tuple[str, str]:
    part = "held-out" if result["scored_on"] == "validation" else "training"
    return (
        f"{result['rounds']} rounds in {result['seconds']:.1f} s; {100 * result['accuracy']:.1f} % of {part} positions "
        f"right, log-likelihood {result['log_likelihood']:.4f} per position.",
        f"Model: {result['model']} ({result['bytes'] / 1e6:.2f} MB)",
    )
