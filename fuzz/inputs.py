"""Attack the Python interface: fitted labelers, evaluation and ``as_batch`` with hostile X and y; some tiny fits.

A case is accepted if the answer is right in form: probabilities that sum to one, labels that training had, one for each
position. It is refused if seqboost, or scikit-learn for a labeler that is not fitted, raises its own exception.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError

import seqboost
from fuzz.odd import HostileError, mutated, odd_value
from fuzz.outcome import Finding, check_probabilities
from seqboost import evaluation
from seqboost.exceptions import SeqboostError

__all__ = ["label", "prepare", "run"]

Rng = np.random.Generator
_ACTIONS = ("predict", "predict_proba", "score", "log_prob", "predict_kbest", "predict_marginals", "label_sequences",
            "as_batch", "evaluation", "fit")  # fmt: skip
_WEIGHTS = np.array([18, 20, 14, 10, 6, 4, 6, 11, 8, 3]) / 100


class Prepared(NamedTuple):
    """A fitted labeler with data of the form it was trained with."""

    model: Any
    X: Any
    y: Any


def prepare(folder: Path) -> list[Prepared]:
    """Train a small labeler of each kind on each form of input."""
    forms = {name: make(np.random.default_rng(7)) for name, make in _FORMS.items()}
    prepared = []
    for form, make in _models():
        model, (X, y) = make(), forms[form]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared.append(Prepared(model.fit(X, y), X, y))
    return prepared


def label(seed: int) -> str:
    """Return what the case does."""
    return str(np.random.default_rng(seed).choice(_ACTIONS, p=_WEIGHTS))


def run(state: list[Prepared], seed: int) -> str:
    """Run one case."""
    rng = np.random.default_rng(seed)
    action = str(rng.choice(_ACTIONS, p=_WEIGHTS))
    chosen = state[int(rng.integers(len(state)))]
    source = chosen if rng.random() < 0.8 else state[int(rng.integers(len(state)))]
    X, y = source.X, source.y
    try:
        for _ in range(int(rng.integers(4))):
            X = mutated(rng, X)
        for _ in range(int(rng.choice([0, 1, 2], p=[0.6, 0.3, 0.1]))):
            y = mutated(rng, y)
        _CASES.get(action, _predict)(rng, chosen, action, X, y)
    except (SeqboostError, NotFittedError, HostileError):
        return "refused"
    return "accepted"


# ------------------------------------------------------------------------------------------------------------ cases


def _predict(rng: Rng, chosen: Prepared, action: str, X: Any, y: Any) -> None:
    """Call one method of a fitted labeler."""
    model = chosen.model
    method = getattr(model, action, None)
    if method is None:
        action, method = "predict", model.predict
    if action in ("score", "log_prob"):
        weight = (_weights(rng, y),) if action == "score" and rng.random() < 0.3 else ()
        answer = method(X, y, *weight)
        if action == "score" and not 0.0 <= answer <= 1.0:
            raise Finding(f"score {answer}")
        if action == "log_prob" and not (np.asarray(answer) <= 0.0).all():
            raise Finding(f"log-probabilities {answer}")
        return
    lengths = _lengths(X)
    if action == "predict_kbest":
        k = odd_value(rng) if rng.random() < 0.2 else int(rng.integers(1, 5))
        found = method(X, k)
        if isinstance(lengths, list):  # of tables there is one list of paths for each sequence, too
            _check_form(action, [paths[0][0] for paths in found], lengths)
        for paths in found:
            scores = [score for _, score in paths]
            if sorted(scores, reverse=True) != scores or max(scores) > 0.0 or np.isnan(scores).any():
                raise Finding(f"k best paths of log-probabilities {scores}")
            _check_labels(model, [path for path, _ in paths])
        return
    answer = method(X)
    _check_form(action, answer, lengths)
    parts = answer if isinstance(answer, list) else [answer]
    if action == "predict":
        _check_labels(model, parts)
    else:
        check_probabilities(np.reshape(part, (len(part), -1)) for part in parts)


def _label_sequences(rng: Rng, chosen: Prepared, action: str, X: Any, y: Any) -> None:
    found = evaluation.label_sequences(chosen.model, X, y)
    if found.proba is not None:
        check_probabilities(found.proba)
    found.evaluate(odd_value(rng) if rng.random() < 0.1 else None)


def _as_batch(rng: Rng, chosen: Prepared, action: str, X: Any, y: Any) -> None:
    """Read sequences without a labeler; reading them again by the schema found must change nothing."""
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["sequence"] = "s" if rng.random() < 0.5 else odd_value(rng)
    if rng.random() < 0.3:
        names = [["x0"], [0], [True, False], ["word"], "all", odd_value(rng), [odd_value(rng)]]
        options["categorical_features"] = names[int(rng.integers(len(names)))]
    batch = seqboost.as_batch(X, **options)
    again = seqboost.as_batch(batch, schema=batch.schema)
    if not np.array_equal(batch.numeric, again.numeric, equal_nan=True) or batch.n_rows != int(batch.lengths.sum()):
        raise Finding("a batch changes when it is read again")
    repr(batch)


def _evaluation(rng: Rng, chosen: Prepared, action: str, X: Any, y: Any) -> None:
    """Compare labels with labels."""
    truth, guess = chosen.y, y
    if rng.random() < 0.5:
        truth, guess = guess, truth
    if rng.random() < 0.1:
        guess = odd_value(rng)
    functions: tuple[Callable[[], Any], ...] = (
        lambda: evaluation.accuracy(truth, guess), lambda: evaluation.sequence_accuracy(truth, guess),
        lambda: evaluation.label_scores(evaluation.confusion(truth, guess)),
        lambda: evaluation.mcnemar(truth, guess, y), lambda: evaluation.permutation_test(truth, guess, truth, block=7),
        lambda: evaluation.span_scores(truth, guess, _SCHEMES[int(rng.integers(len(_SCHEMES)))]),
        lambda: evaluation.evaluate(truth, guess, log_prob=_weights(rng, y)), lambda: _calibration(rng, chosen, truth),
        lambda: evaluation.mcnemar(truth, guess, truth, exact=False),
    )  # fmt: skip
    place = int(rng.integers(len(functions)))
    answer = functions[place]()
    if place < 2 and not (isinstance(answer, float) and 0.0 <= answer <= 1.0):
        raise Finding(f"an accuracy of {answer}")


def _calibration(rng: Rng, chosen: Prepared, y: Any) -> Any:
    """Compare labels with probabilities, odd or not."""
    n_labels = len(chosen.model.classes_)
    proba: Any = [np.full((len(part), n_labels), 1.0 / n_labels) for part in chosen.y]
    classes = chosen.model.classes_ if rng.random() < 0.8 else odd_value(rng)
    return evaluation.calibration(y, mutated(rng, proba) if rng.random() < 0.5 else proba, classes)


_SCHEMES = ("BIO", "IOB", "BILOU", "nonsense", "auto")


def _fit(rng: Rng, chosen: Prepared, action: str, X: Any, y: Any) -> None:
    """Train for two rounds, now and then with a parameter that makes no sense, and use the model."""
    model = type(chosen.model)(**chosen.model.get_params(deep=False))
    options: dict[str, Any] = {}
    if rng.random() < 0.3 and "sample_weight" in inspect.signature(model.fit).parameters:
        options["sample_weight"] = _weights(rng, y)
    if rng.random() < 0.3:
        names = sorted(set(model.get_params(deep=False)) - _WORK)
        model.set_params(**{names[int(rng.integers(len(names)))]: odd_value(rng)})
    model.fit(X, y, **options)
    _check_labels(model, model.predict(chosen.X))
    if hasattr(model, "predict_proba"):
        check_probabilities(_parts(model.predict_proba(chosen.X)))


_WORK = {"max_iter", "n_iter", "n_bags", "n_voters", "max_patterns", "n_bits", "n_folds", "cascade"}  # large is slow

_CASES: dict[str, Callable[[Rng, Prepared, str, Any, Any], None]] = {
    "label_sequences": _label_sequences, "as_batch": _as_batch, "evaluation": _evaluation, "fit": _fit,
}  # fmt: skip


def _weights(rng: Rng, y: Any) -> Any:
    """Draw weights of sequences, of which most are odd."""
    weights: Any = np.ones(len(y) if isinstance(y, (list, tuple)) else 3)
    return mutated(rng, weights if rng.random() < 0.5 else weights.tolist()) if rng.random() < 0.9 else odd_value(rng)


# ----------------------------------------------------------------------------------------------------------- checks


def _parts(answer: Any) -> list[Any]:
    return answer if isinstance(answer, list) else [answer]


def _check_labels(model: Any, parts: Any) -> None:
    """Check that every label is one of training."""
    known = set(model.classes_.tolist())
    for part in _parts(parts):
        if not set(np.asarray(part).tolist()) <= known:
            raise Finding(f"labels {part} are not all in classes_")


def _lengths(X: Any) -> list[int] | int | None:
    """Return the number of positions of each sequence, or of all rows; None where X does not say it plainly."""
    if type(X) in (list, tuple) and len(X):
        sizes = [_length(part) for part in X]
        return [size for size in sizes if size is not None] if None not in sizes else None
    return len(X) if isinstance(X, pd.DataFrame) else None


def _length(part: Any) -> int | None:
    """Return the number of positions of one sequence, where it says it plainly."""
    if type(part) in (list, tuple, str, pd.DataFrame):
        return len(part)
    return part.shape[0] if sp.issparse(part) or (type(part) is np.ndarray and part.ndim == 2) else None


def _check_form(action: str, answer: Any, lengths: list[int] | int | None) -> None:
    """Check that an answer has the form of X."""
    found = [len(part) for part in answer] if isinstance(lengths, list) else len(answer)
    if lengths is not None and found != lengths:
        raise Finding(f"{action} of sequences of {lengths} positions has {found}")


# ------------------------------------------------------------------------------------------------------------- data

_LENGTHS = (4, 1, 7, 3, 6, 2, 5, 4, 6, 5)


def _labels(rng: Rng, names: Any = "abc") -> list[list[Any]]:
    """Draw labels that stay for a while."""
    return [[names[k] for k in np.minimum(np.cumsum(rng.random(n) < 0.4), len(names) - 1)] for n in _LENGTHS]


def _numbers(rng: Rng, names: Any = "abc") -> tuple[list[Any], list[list[Any]]]:
    y = _labels(rng, names)
    X = [rng.normal(size=(len(labels), 3)) for labels in y]
    for rows, labels in zip(X, y, strict=True):
        rows[:, 0] += [names.index(name) for name in labels]
    return X, y


def _holes(rng: Rng) -> tuple[list[Any], list[list[Any]]]:
    X, y = _numbers(rng)
    for rows in X:
        rows[rng.random(rows.shape) < 0.2] = np.nan
    return X, y


def _dicts(rng: Rng) -> tuple[list[Any], list[list[Any]]]:
    y = _labels(rng, ["O", "B-x", "I-x"])
    words = ["the", "cat", "sat", "a"]

    def position(name: str) -> dict[str, Any]:
        return {"word": words[int(rng.integers(4))], "n": float(rng.normal()), name: True, "tags": [name, "t"]}

    return [[position(name) for name in labels] for labels in y], y


def _rows(rng: Rng) -> tuple[list[Any], list[list[Any]]]:
    y = _labels(rng, [3, 5])
    return [[("ab"[int(rng.integers(2))], float(label), None) for label in labels] for labels in y], y


def _table(rng: Rng) -> tuple[Any, Any]:
    X, y = _numbers(rng)
    table = pd.DataFrame(np.concatenate(X), columns=["u", "v", "w"])
    table.insert(0, "s", np.repeat(np.arange(len(X)), _LENGTHS))
    table["word"] = np.array(["p", "q"])[rng.integers(2, size=len(table))]
    return table, pd.Series(np.concatenate(y), name="label")


def _bags(rng: Rng) -> tuple[Any, Any]:
    y = _labels(rng)
    return [[{name, "t"} for name in labels] for labels in y], y


def _strings(rng: Rng) -> tuple[Any, Any]:
    y = ["".join(labels) for labels in _labels(rng)]
    return list(y), y


def _scalars(rng: Rng) -> tuple[Any, Any]:
    y = _labels(rng)
    return [[float(ord(name)) for name in labels] for labels in y], y


def _sparse(rng: Rng) -> tuple[Any, Any]:
    X, y = _numbers(rng)
    return [sp.csr_array(np.maximum(rows, 0)) for rows in X], y


def _flat(rng: Rng) -> tuple[Any, Any]:
    X, y = _numbers(rng)
    return np.concatenate(X), np.concatenate(y)


_FORMS: dict[str, Callable[[Rng], tuple[Any, Any]]] = {
    "numbers": _numbers, "binary": lambda rng: _numbers(rng, [0, 1]), "holes": _holes, "dicts": _dicts, "bags": _bags,
    "rows": _rows, "strings": _strings, "scalars": _scalars, "sparse": _sparse, "table": _table, "flat": _flat,
}  # fmt: skip


def _models() -> list[tuple[str, Callable[[], Any]]]:
    """List labelers, each with the form of its training data."""
    quick: dict[str, Any] = {"max_iter": 3, "min_samples_leaf": 1, "max_leaf_nodes": 5, "random_state": 0, "n_jobs": 1}
    small: dict[str, Any] = {**quick, "early_stopping": False}

    def classifier() -> Any:
        return HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=1, early_stopping=False, random_state=0)

    def tree(**options: Any) -> Callable[[], Any]:
        return lambda: seqboost.TreeCRF(**{**small, **options})

    return [
        ("numbers", tree()),
        ("numbers", tree(trees="per_label", potentials="joint")),
        ("numbers", tree(potentials="factored", window=3, decoding="viterbi")),
        ("numbers", tree(order=2, method=seqboost.Method(n_bags=2))),
        ("binary", tree(class_weight="balanced")),
        ("holes", tree(missing="surrogate", trees="per_label", potentials="joint")),
        ("holes", tree(missing="instance_weighting")),
        ("holes", tree(missing="impute")),
        ("dicts", tree(init="linear")),
        ("dicts", tree(transitions="bio", window=1)),
        ("bags", tree()),
        ("rows", tree(order=0)),
        ("strings", tree(window=1, method=seqboost.Method(beam=2))),
        ("scalars", tree(categorical_features=[0])),
        ("sparse", tree()),
        ("table", tree(sequence="s")),
        ("flat", tree()),
        ("numbers", lambda: seqboost.MEMM(**quick)),
        ("strings", lambda: seqboost.HMM(n_jobs=1)),
        ("numbers", lambda: seqboost.HMM(n_jobs=1)),
        ("dicts", lambda: seqboost.LinearCRF(max_iter=5, n_jobs=1)),
        ("numbers", lambda: seqboost.VotedPerceptron(max_iter=2, n_jobs=1)),
        ("numbers", lambda: seqboost.SlidingWindow(classifier(), window=1)),
        ("strings", lambda: seqboost.RecurrentSlidingWindow(classifier(), window=1)),
        ("numbers", lambda: seqboost.IOHMM(max_iter=3, n_jobs=1)),
        ("strings", lambda: seqboost.OutputCoding(seqboost.TreeCRF(**small), n_bits=3, random_state=0, n_jobs=1)),
    ]
