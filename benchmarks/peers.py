"""The peers: LightGBM on windows, the same smoothed with a label chain, python-crfsuite; and how to compare them.

Every choice (number of rounds, weight of the classifier against the chain, penalty) is made on a fifth of the training
sequences held out, then the peer is fitted again on all of them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import lightgbm as lgb
import numpy as np
import pycrfsuite
from numba import njit
from scipy import sparse

from data import Split, crfsuite_attributes

__all__ = [
    "Outcome",
    "crfsuite",
    "cut_long",
    "forward_backward",
    "lightgbm_windows",
    "span_f1",
    "span_f1_test",
    "viterbi",
    "window_rows",
]

WEIGHTS = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)


@dataclass
class Outcome:
    """What a peer predicts for the test sequences, and what it took."""

    name: str
    labels: list[np.ndarray]
    fit_seconds: float
    predict_seconds: float = float("nan")
    settings: dict[str, Any] = field(default_factory=dict)


# ---------------------------------------------------------------------------------------------------- windows of rows


def _codes(X: list[Any], known: list[list[Any]] | None) -> tuple[np.ndarray, list[list[Any]]]:
    """Code strings or dicts of strings as integers, column by column; values not in ``known`` become -1 (missing)."""
    dicts = isinstance(X[0][0], dict)
    keys = list(X[0][0]) if dicts else [None]
    columns = [[row[key] if dicts else row for sequence in X for row in sequence] for key in keys]
    known = known or [sorted(set(column)) for column in columns]
    lookups = [{value: code for code, value in enumerate(values)} for values in known]
    coded = [[lookup.get(value, -1) for value in column] for column, lookup in zip(columns, lookups, strict=True)]
    return np.array(coded, dtype=np.int32).T, known


def _shifted(offsets: np.ndarray, shift: int) -> np.ndarray:
    """Row number of the neighbour at ``shift``, -1 beyond the ends of a sequence."""
    rows = np.arange(offsets[-1])
    lengths = np.diff(offsets)
    neighbour = rows + shift
    outside = (neighbour < np.repeat(offsets[:-1], lengths)) | (neighbour >= np.repeat(offsets[1:], lengths))
    return np.where(outside, -1, neighbour)


def window_rows(X: list[Any], w: int, known: list[list[Any]] | None = None) -> tuple[Any, bool, list[list[Any]] | None]:
    """Lay the rows within ±w side by side; returns the matrix, whether it holds category codes, and the categories.

    Beyond the ends numeric columns are missing and categories have a code of their own.
    """
    lengths = [x.shape[0] if hasattr(x, "shape") else len(x) for x in X]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    neighbours = [_shifted(offsets, shift) for shift in range(-w, w + 1)]
    if sparse.issparse(X[0]):
        flat = sparse.vstack([*X, sparse.csr_array((1, X[0].shape[1]), dtype=np.float32)]).tocsr()
        return sparse.csr_matrix(sparse.hstack([flat[n] for n in neighbours])), False, None  # LightGBM knows no arrays
    if isinstance(X[0], np.ndarray):
        flat = np.vstack([*X, np.full((1, X[0].shape[1]), np.nan)])
        return np.hstack([flat[n] for n in neighbours]), False, None
    codes, known = _codes(X, known)
    boundary = np.array([[len(values) for values in known]], dtype=np.int32)
    flat = np.vstack([codes, boundary])
    return np.hstack([flat[n] for n in neighbours]), True, known


# ------------------------------------------------------------------------------------------------------- label chains


@njit(cache=True)
def viterbi(scores: np.ndarray, log_start: np.ndarray, log_transition: np.ndarray) -> np.ndarray:
    """Best path; ``scores`` (T, K) in log space, transitions from row to column."""
    T, K = scores.shape
    back = np.zeros((T, K), np.int32)
    best = log_start + scores[0]
    for t in range(1, T):
        new = np.empty(K)
        for k in range(K):
            candidates = best + log_transition[:, k]
            back[t, k] = np.argmax(candidates)
            new[k] = candidates[back[t, k]] + scores[t, k]
        best = new
    path = np.empty(T, np.int64)
    path[-1] = np.argmax(best)
    for t in range(T - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path


@njit(cache=True)
def forward_backward(scores: np.ndarray, log_start: np.ndarray, log_transition: np.ndarray) -> np.ndarray:
    """Label marginals (T, K) of the chain; scaled sums, each position shifted by its largest score."""
    T, K = scores.shape
    transition, start = np.exp(log_transition), np.exp(log_start)
    alpha, beta, local = np.empty((T, K)), np.ones((T, K)), np.empty((T, K))
    for t in range(T):
        local[t] = np.exp(scores[t] - scores[t].max())
        for k in range(K):
            inflow = start[k] if t == 0 else (alpha[t - 1] * transition[:, k]).sum()
            alpha[t, k] = inflow * local[t, k]
        alpha[t] /= alpha[t].sum()
    for t in range(T - 2, -1, -1):
        for k in range(K):
            beta[t, k] = (transition[k] * local[t + 1] * beta[t + 1]).sum()
        beta[t] /= beta[t].sum()
    posterior = alpha * beta
    for t in range(T):
        posterior[t] /= posterior[t].sum()
    return posterior


@dataclass(frozen=True)
class Chain:
    """First-order chain of labels counted on training sequences, with one added to each count."""

    log_start: np.ndarray
    log_transition: np.ndarray
    log_prior: np.ndarray

    @classmethod
    def count(cls, y: list[np.ndarray], n_labels: int) -> Chain:
        """Count starts, transitions and labels."""
        start, transition = np.ones(n_labels), np.ones((n_labels, n_labels))
        for labels in y:
            start[labels[0]] += 1
            np.add.at(transition, (labels[:-1], labels[1:]), 1)
        prior = np.bincount(np.concatenate(y), minlength=n_labels) + 1.0
        return cls(
            np.log(start / start.sum()),
            np.log(transition / transition.sum(1, keepdims=True)),
            np.log(prior / prior.sum()),
        )

    def decode(self, probabilities: list[np.ndarray], weight: float, method: str) -> list[np.ndarray]:
        """Decode with local scores weight · (log P(y | window) − log P(y))."""
        decoded = []
        for p in probabilities:
            scores = weight * (np.log(np.maximum(p, 1e-12)) - self.log_prior)
            if method == "viterbi":
                decoded.append(viterbi(scores, self.log_start, self.log_transition))
            else:
                decoded.append(forward_backward(scores, self.log_start, self.log_transition).argmax(1))
        return decoded


# ----------------------------------------------------------------------------------------------------------- LightGBM


def cut_long(X: list[Any], y: list[np.ndarray]) -> tuple[list[Any], list[np.ndarray]]:
    """Cut each sequence into ten pieces where there are fewer than five, so that some can be held out."""
    if len(X) >= 5:
        return X, y
    pieces = [np.array_split(np.arange(len(labels)), 10) for labels in y]
    X = [x[part[0] : part[-1] + 1] for x, parts in zip(X, pieces, strict=True) for part in parts]
    return X, [labels[part] for labels, parts in zip(y, pieces, strict=True) for part in parts]


def _hold_out(X: list[Any], y: list[np.ndarray]) -> tuple[list[Any], list[np.ndarray], list[Any], list[np.ndarray]]:
    """Hold out a fifth of the sequences."""
    X, y = cut_long(X, y)
    order = np.random.default_rng(1).permutation(len(X))
    held, kept = order[: len(X) // 5], order[len(X) // 5 :]
    return [X[i] for i in kept], [y[i] for i in kept], [X[i] for i in held], [y[i] for i in held]


def _train_lightgbm(rows: Any, y: np.ndarray, categorical: bool, n_labels: int, rounds: int, valid: Any) -> lgb.Booster:
    parameters = {
        "objective": "multiclass", "num_class": n_labels, "num_leaves": 31, "learning_rate": 0.1, "verbosity": -1,
        "deterministic": True, "force_row_wise": True, "seed": 0, "feature_pre_filter": False,
    }  # fmt: skip
    columns: Any = list(range(rows.shape[1])) if categorical else "auto"
    train = lgb.Dataset(rows, y, categorical_feature=columns, free_raw_data=False)
    callbacks: list[Any] = [lgb.early_stopping(20, verbose=False)] if valid else []
    valid_sets = [train.create_valid(*valid)] if valid else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return lgb.train(parameters, train, rounds, valid_sets=valid_sets, callbacks=callbacks)


def lightgbm_windows(split: Split, w: int, max_rounds: int = 300) -> list[Outcome]:
    """LightGBM on ±w windows: alone, with Viterbi and with posterior smoothing."""
    labels, flat = np.unique(np.concatenate(split.y_train), return_inverse=True)
    n_labels = len(labels)
    y_train = np.split(flat, np.cumsum([len(y) for y in split.y_train])[:-1])
    start = time.perf_counter()
    X_fit, y_fit, X_held, y_held = _hold_out(split.X_train, y_train)
    rows, categorical, known = window_rows(split.X_train, w)
    fit_rows, held_rows = window_rows(X_fit, w, known)[0], window_rows(X_held, w, known)[0]
    trial = _train_lightgbm(
        fit_rows, np.concatenate(y_fit), categorical, n_labels, max_rounds, (held_rows, np.concatenate(y_held))
    )
    rounds = max(1, trial.best_iteration)
    held_probabilities = _by_sequence(trial.predict(held_rows, num_iteration=rounds), y_held)
    booster = _train_lightgbm(rows, np.concatenate(y_train), categorical, n_labels, rounds, None)
    fit_seconds = time.perf_counter() - start

    start = time.perf_counter()
    probabilities = _by_sequence(booster.predict(window_rows(split.X_test, w, known)[0]), split.y_test)
    predict_seconds = time.perf_counter() - start
    settings = {"rounds": rounds}
    alone = [labels[p.argmax(1)] for p in probabilities]
    outcomes = [Outcome(f"LightGBM ±{w}", alone, fit_seconds, predict_seconds, settings)]
    held_chain, chain = Chain.count(y_fit, n_labels), Chain.count(y_train, n_labels)
    for method in ("viterbi", "posterior"):
        accuracy = [_accuracy(y_held, held_chain.decode(held_probabilities, weight, method)) for weight in WEIGHTS]
        best = int(np.argmax(accuracy))
        weight, held_out = WEIGHTS[best], round(accuracy[best], 4)
        decoded = [labels[path] for path in chain.decode(probabilities, weight, method)]
        name = f"LightGBM ±{w} + {method}"
        chosen = {**settings, "weight": weight, "held-out accuracy": held_out}
        outcomes.append(Outcome(name, decoded, fit_seconds, predict_seconds, chosen))
    return outcomes


def _by_sequence(flat: Any, y: list[np.ndarray]) -> list[np.ndarray]:
    return np.split(flat, np.cumsum([len(labels) for labels in y])[:-1])


def _accuracy(y: list[np.ndarray], predicted: list[np.ndarray]) -> float:
    return float(np.mean(np.concatenate(y) == np.concatenate(predicted)))


# ----------------------------------------------------------------------------------------------------------- CRFsuite


def _attributes(X_train: list[Any], X: list[Any], w: int, n_bins: int) -> list[list[list[str]]]:
    """Window indicators: letters (alone and in neighbouring pairs), or numbers cut at training quantiles."""
    if sparse.issparse(X[0]):
        return [[[str(i) for i in x.indices[x.indptr[t] : x.indptr[t + 1]]] for t in range(x.shape[0])] for x in X]
    if isinstance(X[0][0], tuple):
        return [crfsuite_attributes(sentence) for sentence in X]
    if isinstance(X[0][0], dict):
        return [[[f"{key}={value}" for key, value in row.items()] + _pairs(list(row.values())) for row in x] for x in X]
    if isinstance(X[0], np.ndarray):
        cuts = np.nanquantile(np.vstack(X_train), np.linspace(0, 1, n_bins + 1)[1:-1], axis=0)
        coded = []
        for x in X:
            bins = np.stack([np.searchsorted(cuts[:, j], x[:, j]) for j in range(x.shape[1])], axis=1)
            names = np.where(np.isnan(x), "nan", bins.astype(str))
            coded.append([[f"{j}:{value}" for j, value in enumerate(row)] for row in names])
        return [
            [[f"{o}@{a}" for o in range(-w, w + 1) if 0 <= t + o < len(x) for a in x[t + o]] for t in range(len(x))]
            for x in coded
        ]
    rows = []
    for x in X:
        padded = "<" * w + x + ">" * w
        windows = [padded[t : t + 2 * w + 1] for t in range(len(x))]
        rows.append([[f"{o}={letter}" for o, letter in enumerate(window)] + _pairs(list(window)) for window in windows])
    return rows


def _pairs(values: list[str]) -> list[str]:
    """Hand-made conjunctions of neighbours."""
    return [f"{i}&{a}{b}" for i, (a, b) in enumerate(zip(values, values[1:], strict=False))]


def _train_crfsuite(attributes: list[Any], y: list[np.ndarray], c2: float, path: str) -> pycrfsuite.Tagger:
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": 200, "feature.possible_transitions": True})
    for rows, labels in zip(attributes, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(rows), [str(label) for label in labels])
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    return tagger


def crfsuite(
    split: Split,
    windows: Sequence[int],
    path: str,
    penalties: Sequence[float] = (0.1, 1.0, 10.0, 50.0, 200.0),
    n_bins: int = 20,
) -> list[Outcome]:
    """Fit python-crfsuite with window indicators, decoded by Viterbi and by posterior; ``path`` takes the model."""
    start = time.perf_counter()
    encode = {str(label): label for label in np.unique(np.concatenate(split.y_train))}
    w, c2 = windows[0], penalties[0]
    if len(penalties) > 1 or len(windows) > 1:
        X_fit, y_fit, X_held, y_held = _hold_out(split.X_train, split.y_train)
        truth = [labels.astype(str) for labels in y_held]
        accuracy = {}
        for window in windows:
            fit, held = _attributes(X_fit, X_fit, window, n_bins), _attributes(X_fit, X_held, window, n_bins)
            for penalty in penalties:
                tagger = _train_crfsuite(fit, y_fit, penalty, path)
                accuracy[window, penalty] = _accuracy(truth, [np.array(tagger.tag(rows)) for rows in held])
        w, c2 = max(accuracy, key=lambda pair: accuracy[pair])
    tagger = _train_crfsuite(_attributes(split.X_train, split.X_train, w, n_bins), split.y_train, c2, path)
    fit_seconds = time.perf_counter() - start

    start = time.perf_counter()
    best_paths, marginal_labels = [], []
    names = tagger.labels()
    for rows in _attributes(split.X_train, split.X_test, w, n_bins):
        best_paths.append(np.array([encode[label] for label in tagger.tag(rows)]))
        marginals = np.array([[tagger.marginal(name, t) for name in names] for t in range(len(rows))])
        marginal_labels.append(np.array([encode[names[i]] for i in marginals.argmax(1)]))
    predict_seconds = time.perf_counter() - start
    return [
        Outcome(f"CRFsuite {method}", decoded, fit_seconds, predict_seconds, {"window": w, "c2": c2})
        for method, decoded in (("viterbi", best_paths), ("posterior", marginal_labels))
    ]


# -------------------------------------------------------------------------------------------------------- comparisons


def _spans(tags: Iterable[str]) -> set[tuple[str, int, int]]:
    """Spans (type, start, stop) of IOB2 tags; as in conlleval, an I- without its B- starts a span."""
    spans, start, kind = set(), 0, None
    for t, tag in enumerate([*tags, "O"]):
        prefix, _, name = str(tag).partition("-")
        if kind is not None and (prefix in ("O", "B") or name != kind):
            spans.add((kind, start, t))
            kind = None
        if prefix != "O" and kind is None:
            start, kind = t, name
    return spans


def span_counts(y: Sequence[Iterable[str]], predicted: Sequence[Iterable[str]]) -> np.ndarray:
    """Count right, true and found spans of each sequence."""
    pairs = [(_spans(tags), _spans(found)) for tags, found in zip(y, predicted, strict=True)]
    return np.array([[len(true & found), len(true), len(found)] for true, found in pairs])


def span_f1_test(
    y: Sequence[Iterable[str]], first: Sequence[Iterable[str]], second: Sequence[Iterable[str]], n_draws: int = 9999
) -> float:
    """Return the p-value of two labellings' difference in span F1, by exchanging whole sequences (Yeh 2000)."""

    def f1(counts: np.ndarray) -> np.ndarray:
        return 2 * counts[..., 0] / np.maximum(1, counts[..., 1] + counts[..., 2])

    one, other = span_counts(y, first), span_counts(y, second)
    observed = abs(f1(one.sum(0)) - f1(other.sum(0)))
    rng, total, move = np.random.default_rng(0), one.sum(0) + other.sum(0), other - one
    draws = np.array([one.sum(0) + move[rng.random(len(one)) < 0.5].sum(0) for _ in range(n_draws)])
    return float((1 + np.sum(np.abs(f1(draws) - f1(total - draws)) >= observed - 1e-12)) / (1 + n_draws))


def span_f1(y: Sequence[Iterable[str]], predicted: Sequence[Iterable[str]]) -> float:
    """F1 of exactly matching spans."""
    n_right, n_true, n_found = span_counts(y, predicted).sum(0)
    return float(2 * n_right / max(1, n_true + n_found))
