"""Estimators to and from the model file."""

from __future__ import annotations

import math
import os
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import History, LinearFit
from seqboost.estimators.training import Trained
from seqboost.exceptions import InputError, InputTypeError, ModelFileError
from seqboost.model import FrozenModel, read_model, write_model
from seqboost.sequences import BatchSchema, LabelCoder

__all__ = ["load_estimator", "save_estimator"]

E = TypeVar("E")

EARLIER = {"trees": "per_label", "init": "labels"}  # what was meant by files that do not name these parameters


def save_estimator(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator."""
    folder = os.path.dirname(os.path.realpath(os.fspath(path)))
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"cannot write a model to {os.fspath(path)!r}: there is no folder {folder!r}; make it first"
        )
    trained: Trained = estimator._trained
    arrays, header = trained.model.to_arrays()
    classes = estimator.classes_
    document = {
        "estimator": type(estimator).__name__,
        "parameters": {name: _plain(value) for name, value in estimator.get_params(deep=False).items()},
        "lasting": {name: _plain(value) for name, value in estimator._lasting.items()},
        "model": header,
        "schema": estimator._schema.to_json(),
        "history": {name: _with_null(values) for name, values in trained.history.to_dict().items()},
        "best_iteration": trained.best_iteration,
        "refitted": trained.refitted,
        "linear_fit": trained.linear_fit and [trained.linear_fit.plan, trained.linear_fit.digest],
        "seed": estimator._seed,
        "reading": getattr(estimator, "reading_", None),
        "classes": _plain_classes(classes),
        "classes_dtype": classes.dtype.str if classes.dtype != object else "object",
    }
    try:
        write_model(path, document, arrays)
    except UnicodeEncodeError as error:
        text = error.object[max(error.start - 20, 0) : error.end + 20]
        raise InputError(
            f"the model holds text that is not valid Unicode and cannot be written to a file: a lone surrogate in "
            f"{text!r}. Clean the names, categories and labels of training, or pickle the model."
        ) from None


def load_estimator(cls: type[E], path: str | os.PathLike[str]) -> E:
    """Read an estimator."""
    document, arrays = read_model(path)
    if document.get("estimator") != cls.__name__:
        raise ModelFileError(
            f"{os.fspath(path)} holds a model of kind {document.get('estimator')!r}, not {cls.__name__}; "
            f"read it with the class that wrote it"
        )
    try:
        estimator: Any = cls(**_completed(document["parameters"]))
        dtype = document["classes_dtype"]
        labels = [tuple(label) if isinstance(label, list) else label for label in document["classes"]]
        estimator.classes_ = (
            LabelCoder.from_classes(labels).classes_ if dtype == "object" else np.array(labels, dtype=dtype)
        )
        estimator._schema = BatchSchema.from_json(document["schema"])
        estimator._seed = int(document["seed"])
        estimator._lasting = _completed(document["lasting"])
        if isinstance(document.get("reading"), dict):
            estimator.reading_ = document["reading"]
        estimator.n_features_in_ = estimator._schema.n_features
        if estimator._schema.named:
            estimator.feature_names_in_ = np.array(estimator._schema.names, dtype=object)
        model = FrozenModel.from_arrays(arrays, document["model"])
        past = {name: _without_null(values) for name, values in document["history"].items()}
        history = History(np.ones(1, dtype=bool), np.ones(1), **past)
        if len(estimator.classes_) != model.forest.n_labels:
            raise ValueError(f"{len(estimator.classes_)} labels have names, but {model.forest.n_labels} have trees")
        refitted = bool(document.get("refitted", False))
        linear_fit = _linear_fit(document.get("linear_fit"))
        estimator._set_trained(Trained(model, history, int(document["best_iteration"]), linear_fit, refitted))
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(
            f"{os.fspath(path)} does not hold a complete model ({type(error).__name__}: {error}); save it again"
        ) from error
    return estimator


def _completed(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a file, and what was meant where it has none."""
    unnamed = {name: value for name, value in EARLIER.items() if name not in parameters}
    return {name: _revived(value) for name, value in parameters.items()} | unnamed


def _linear_fit(stored: list[Any] | None) -> LinearFit | None:
    """Return the way to a linear start; None if there is none, or the file is older."""
    if stored is None:
        return None
    plan, checksum = stored
    return LinearFit(tuple((float(penalty), int(n_steps)) for penalty, n_steps in plan), int(checksum))


def _with_null(values: list[float]) -> list[float | None]:
    """Return scores as JSON can hold them: null for those that were not taken."""
    return [None if math.isnan(value) else value for value in values]


def _without_null(values: list[float | None]) -> list[float]:
    """Turn what :func:`_with_null` wrote back."""
    return [math.nan if value is None else float(value) for value in values]


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, tuple):
        return {"tuple": [_plain(v) for v in value]}
    if isinstance(value, (set, frozenset)):
        return [_plain(v) for v in sorted(value, key=lambda v: (type(v).__name__, v))]
    if isinstance(value, (list, range)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {"dict": [[_plain(k), _plain(v)] for k, v in value.items()]}
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if hasattr(value, "tolist"):  # an index or a series of pandas
        return [_plain(v) for v in value.tolist()]
    raise InputTypeError(f"a parameter of type {type(value).__name__} cannot be written to a model file: {value!r}")


def _revived(value: Any) -> Any:
    """Turn what :func:`_plain` wrote back."""
    if isinstance(value, list):
        return [_revived(v) for v in value]
    if isinstance(value, dict):
        ((kind, content),) = value.items()
        if kind == "array":
            return np.array(content)
        if kind == "tuple":
            return tuple(_revived(v) for v in content)
        return {_revived(k): _revived(v) for k, v in content}
    return value


def _plain_classes(classes: NDArray[Any]) -> list[Any]:
    """Return the labels as JSON can hold them: strings, numbers, booleans, and tuples of these."""
    plain = []
    for label in classes.tolist():
        parts = [_python_scalar(part) for part in (label if isinstance(label, tuple) else (label,))]
        if not all(isinstance(part, (str, int, float, bool)) for part in parts):
            raise InputTypeError(
                f"the label {label!r} of type {type(label).__name__} cannot be written to a model file; use labels "
                f"that are strings, numbers, booleans or tuples of these, or pickle the model"
            )
        if any(isinstance(part, str) and not _is_unicode(part) for part in parts):
            raise InputError(
                f"the label {label!r} holds a lone surrogate, which is not valid Unicode, and cannot be written to a "
                f"model file; clean the labels, or pickle the model"
            )
        plain.append(parts if isinstance(label, tuple) else parts[0])
    return plain


def _python_scalar(value: Any) -> Any:
    """Return numbers, booleans and strings of NumPy as Python's; times are left, which would become bare ints."""
    return value.item() if isinstance(value, (np.bool_, np.integer, np.floating, np.str_)) else value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
