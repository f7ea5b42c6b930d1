"""Estimators to and from the model file."""

from __future__ import annotations

import math
import os
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from seqboost.core.exceptions import InputError, InputTypeError, ModelFileError
from seqboost.core.parameters import check_parameters, integer, plain_number
from seqboost.core.stored import MAX_BYTES, Stored
from seqboost.estimators.method import Method
from seqboost.model import read_model, write_model
from seqboost.sequences import BatchSchema, LabelCoder
from seqboost.sequences.ordering import sequence_columns
from seqboost.training.missing import N_SURROGATES, Surrogates
from seqboost.training.transitions import followers

__all__ = [
    "EARLIER",
    "KINDS",
    "from_document",
    "load_estimator",
    "plain",
    "revived",
    "save_estimator",
    "to_document",
    "with_null",
    "without_null",
]

E = TypeVar("E")

EARLIER = {"trees": "per_label", "init": "labels"}
"""What was meant by files that do not name these parameters."""

WITHOUT_BEAM = ("HMM", "LinearCRF", "FutureFeatureMEMM")
"""Labelers whose files may name a beam, which is an argument of prediction since version 0.2."""

LONGEST_INTEGER = 10_000  # bits; Python converts up to 4300 digits of text

KINDS: dict[str, type[Any]] = {}
"""Labellers by name, as files name them; each class of this package enters itself."""


def save_estimator(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted labeller."""
    folder = os.path.dirname(os.path.realpath(os.fspath(path)))
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"cannot write a model to {os.fspath(path)!r}: there is no folder {folder!r}; make it first"
        )
    document, arrays = to_document(estimator)
    try:
        write_model(path, document, arrays)
    except UnicodeEncodeError as error:
        text = error.object[max(error.start - 20, 0) : error.end + 20]
        raise InputError(
            f"the model holds text that is not valid Unicode and cannot be written to a file: a lone surrogate in "
            f"{text!r}. Clean the names, categories and labels of training, or pickle the model."
        ) from None


def to_document(estimator: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a fitted labeller as a header of plain values and arrays."""
    arrays, header = estimator._to_arrays()
    classes = estimator.classes_
    parameters = {name: plain(value) for name, value in estimator.get_params(deep=False).items()}
    if estimator._earlier_beam is not None:
        parameters |= {"beam": estimator._earlier_beam}
    document = {
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "schema": estimator._schema.to_json(),
        "reading": getattr(estimator, "reading_", None),
        "classes": _plain_classes(classes),
        "classes_dtype": classes.dtype.str if classes.dtype != object else "object",
    }
    return document | header, arrays


def load_estimator(cls: type[E] | None, path: str | os.PathLike[str]) -> E:
    """Read a labeller: of the class given, or of the class that the file names."""
    document, arrays = read_model(path)
    name = document.get("estimator")
    if cls is None:
        if not isinstance(name, str) or name not in KINDS:
            raise ModelFileError(
                f"{os.fspath(path)} holds a model of kind {name!r:.60}, which this seqboost does not know (it knows "
                f"{', '.join(sorted(KINDS))}); upgrade seqboost to read it"
            )
    elif name != cls.__name__:
        raise ModelFileError(
            f"{os.fspath(path)} holds a model of kind {name!r:.60}, not {cls.__name__}; "
            f"read it with the class that wrote it"
        )
    try:
        estimator: E = from_document(cls or KINDS[name], document, arrays)
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:  # a forged header can make constructors and conversions raise nearly anything
        raise ModelFileError(
            f"{os.fspath(path)} does not hold a complete model ({type(error).__name__}: {error!s:.200}); save it again"
        ) from error
    return estimator


def from_document(cls: type[Any], document: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """Rebuild what :func:`to_document` gave."""
    estimator: Any = cls(**_completed(document["parameters"], cls.__name__))
    check_parameters(cls.__name__, vars(estimator), estimator._prediction_rules)
    if cls.__name__ in WITHOUT_BEAM:
        beam = document["parameters"].get("beam")
        check_parameters(cls.__name__, {"beam": beam}, {"beam": integer(1, none=True)})
        estimator._earlier_beam = beam
    hash((*sequence_columns(estimator.sequence), estimator.time))  # names of columns
    estimator.classes_ = _revived_classes(document)
    estimator._schema = BatchSchema.from_json(document["schema"])
    estimator._set_feature_names(estimator._schema)
    if isinstance(document.get("reading"), dict):
        estimator.reading_ = document["reading"]
    estimator._from_arrays(arrays, document)
    return estimator


def _completed(parameters: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the parameters of a file, and what was meant where it has none."""
    given = {name: revived(value) for name, value in parameters.items()}
    if kind in WITHOUT_BEAM:
        given.pop("beam", None)  # it is kept for prediction
    if kind not in ("TreeCRF", "MEMM"):
        return given
    if kind == "TreeCRF":
        given = {**EARLIER, **given}
    if "n_surrogates" in given:  # as the parameters of Method, a parameter of its own in version 0.1
        given["missing"] = _with_surrogates(given["missing"], given.pop("n_surrogates"))
    own = Method().get_params()
    moved = {name: given.pop(name) for name in own if name in given}
    changed = {name: value for name, value in moved.items() if value != own[name]}
    return {**given, "method": Method(**changed)} if changed else given


def _with_surrogates(missing: Any, n_surrogates: Any) -> Any:
    """Return the policies of ``missing`` with the number of surrogates, where there are any and it is not the default.

    Examples
    --------
    >>> _with_surrogates({"x": "surrogate", "*": "impute"}, 5)
    {'x': Surrogates(n=5), '*': 'impute'}
    """
    if n_surrogates == N_SURROGATES:
        return missing
    if isinstance(missing, dict):
        return {column: _with_surrogates(policy, n_surrogates) for column, policy in missing.items()}
    return Surrogates(n_surrogates) if missing == "surrogate" else missing


def with_null(values: list[float]) -> list[float | None]:
    """Return scores as JSON can hold them: null for those that were not taken."""
    return [value if math.isfinite(value) else None for value in values]


def without_null(values: list[float | None]) -> list[float]:
    """Turn what :func:`with_null` wrote back."""
    return [math.nan if value is None else float(value) for value in values]


def plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    value = followers(value)
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, tuple):
        return {"tuple": [plain(v) for v in value]}
    if isinstance(value, (set, frozenset)):
        return [plain(v) for v in sorted(value, key=lambda v: (type(v).__name__, v))]
    if isinstance(value, (list, range)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {"dict": [[plain(k), plain(v)] for k, v in value.items()]}
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Method):
        return {"method": [[name, plain(v)] for name, v in value.get_params(deep=False).items()]}
    if isinstance(value, Surrogates):
        return {"surrogates": value.n}
    if type(value).__name__ in KINDS and isinstance(value, KINDS[type(value).__name__]):
        parameters = {name: plain(v) for name, v in value.get_params(deep=False).items()}
        return {"labeler": [type(value).__name__, parameters]}
    if isinstance(value, BaseEstimator):
        raise InputTypeError(
            f"a model around an estimator of another package, {value!r:.60}, cannot be written to a model file; "
            f"keep it with joblib.dump or pickle (and read only files that you trust)"
        )
    if hasattr(value, "tolist"):  # an index or a series of pandas
        return [plain(v) for v in value.tolist()]
    raise InputTypeError(f"a parameter of type {type(value).__name__} cannot be written to a model file: {value!r}")


def revived(value: Any) -> Any:
    """Turn what :func:`plain` wrote back."""
    if isinstance(value, list):
        return [revived(v) for v in value]
    if isinstance(value, dict):
        ((kind, content),) = value.items()
        if kind == "labeler":
            name, parameters = content
            return KINDS[name](**_completed(parameters, name))
        if kind == "method":
            return Method(**{name: revived(v) for name, v in content})
        if kind == "surrogates":
            return Surrogates(content)
        if kind == "array":
            _check_room(content)
            return np.array(content)
        if kind == "tuple":
            return tuple(revived(v) for v in content)
        return {revived(k): revived(v) for k, v in content}
    return value


def _revived_classes(document: dict[str, Any]) -> NDArray[Any]:
    """Return the labels of a file: distinct, and of the type that the file names."""
    stored = Stored("labels", {}, document)
    labels = [tuple(label) if isinstance(label, list) else label for label in document["classes"]]
    parts = [part for label in labels for part in (label if isinstance(label, tuple) else (label,))]
    stored.require(all(isinstance(part, (str, int, float)) for part in parts), "one is no string, number or boolean")
    stored.require(len(set(labels)) == len(labels) >= 2, "they are not two or more different ones")
    dtype = stored.field("classes_dtype", str)
    _check_room(labels)
    if dtype == "object":
        return LabelCoder.from_classes(labels).classes_
    of_type = np.dtype(dtype)
    small = of_type.kind in "biufU" and of_type.itemsize * len(labels) <= MAX_BYTES
    stored.require(small, f"their type {dtype!r:.20} is none of numbers, booleans or short strings")
    classes = np.array(labels, dtype=of_type)
    stored.require(classes.tolist() == labels, f"they are not of the type {dtype!r:.20}")
    return classes


def _check_room(content: Any) -> None:
    """Refuse lists of strings that would take far more memory as an array, where all are as long as the longest."""
    longest = n_values = 0
    parts = [content]
    while parts:
        part = parts.pop()
        if isinstance(part, (list, tuple)):
            parts += part
        else:
            longest, n_values = max(longest, len(part) if isinstance(part, str) else 0), n_values + 1
    if 4 * longest * n_values > MAX_BYTES:
        raise ModelFileError(
            f"a model file has no room for {n_values} strings of up to {longest} characters; use shorter labels"
        )


def _plain_classes(classes: NDArray[Any]) -> list[Any]:
    """Return the labels as JSON can hold them: strings, numbers, booleans, and tuples of these."""
    _check_room(classes.tolist())
    plain = []
    for label in classes.tolist():
        parts = [plain_number(part) for part in (label if isinstance(label, tuple) else (label,))]
        if not all(isinstance(part, (str, int, float, bool)) for part in parts):
            raise InputTypeError(
                f"the label {label!r} of type {type(label).__name__} cannot be written to a model file; use labels "
                f"that are strings, numbers, booleans or tuples of these, or pickle the model"
            )
        if any(isinstance(part, int) and part.bit_length() > LONGEST_INTEGER for part in parts):
            raise InputError(
                f"a label is an integer of more than {LONGEST_INTEGER} bits and cannot be written to a model file; use "
                f"its rank among the labels, or pickle the model"
            )
        if any(isinstance(part, str) and not _is_unicode(part) for part in parts):
            raise InputError(
                f"the label {label!r} holds a lone surrogate, which is not valid Unicode, and cannot be written to a "
                f"model file; clean the labels, or pickle the model"
            )
        plain.append(parts if isinstance(label, tuple) else parts[0])
    return plain


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
