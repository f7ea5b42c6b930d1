"""TreeCRF from a linear start, from the labels alone, and a linear CRF, on text and data like it.

python benchmarks/linear_start.py [--only S2,conll2000,ncbi_disease] [--methods labels,linear,crfsuite]

The same sparse indicators for all. TreeCRF with its defaults stops by its own held-out tenth of the training sequences,
where its linear part finds its penalty, then trains on all (``refit=True``). CRFsuite's penalty is chosen on a held-out
tenth as well, by what is reported, then it is fitted to all. Viterbi where spans are scored, posterior otherwise;
CRFsuite is decoded both ways.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite

import report
from data import Split, crfsuite_attributes, indicator_rows, load, word_attributes
from peers import span_f1

ATTRIBUTES: dict[str, Callable[[Any], list[list[str]]]] = {
    "conll2000": crfsuite_attributes,
    "ncbi_disease": word_attributes,
}
SETS = ("S2", *ATTRIBUTES)
METHODS = ("labels", "linear", "crfsuite")
PENALTIES = {"S2": (0.03, 0.1, 0.3, 1.0), "conll2000": (0.3, 1.0, 3.0), "ncbi_disease": (0.03, 0.1, 0.3, 1.0)}
SETTINGS: dict[str, dict[str, Any]] = {
    "labels": {"learning_rate": 1.0, "l2_regularization": 1.0, "n_iter_no_change": 5, "max_iter": 150},
    "linear": {},
}
"""Rounds from the labels alone take seconds on conll2000: few, large steps."""


def attributes_of(name: str, split: Split) -> tuple[list[Any], list[Any]]:
    """Return the attribute strings of training and test sequences."""
    if name in ATTRIBUTES:
        return tuple([ATTRIBUTES[name](s) for s in part] for part in (split.X_train, split.X_test))  # type: ignore
    parts = []
    for part in (split.X_train, split.X_test):
        rows = [[x.indices[x.indptr[t] : x.indptr[t + 1]] for t in range(x.shape[0])] for x in part]
        parts.append([[[str(i) for i in row] for row in sequence] for sequence in rows])
    return parts[0], parts[1]


def quality(name: str, y: list[np.ndarray], predicted: list[np.ndarray]) -> float:
    """Return what is reported: span F1, or accuracy."""
    return (
        span_f1(y, predicted) if name in ATTRIBUTES else float(np.mean(np.concatenate(y) == np.concatenate(predicted)))
    )


def tree_crf(name: str, init: str, split: Split, features: tuple[list[Any], list[Any]]) -> list[dict[str, Any]]:
    """Fit TreeCRF and predict."""
    from seqboost import TreeCRF

    X_train, X_test = (split.X_train, split.X_test) if name == "S2" else indicator_rows(*features)[:2]
    decoding = "viterbi" if name in ATTRIBUTES else "posterior"
    model = TreeCRF(init=init, refit=True, random_state=0, decoding=decoding, **SETTINGS[init])
    start = time.perf_counter()
    model.fit(X_train, split.y_train)
    seconds = time.perf_counter() - start
    return [outcome(f"TreeCRF, {init}", model.predict(X_test), seconds, {"rounds": model.best_iteration_})]


def outcome(method: str, labels: Any, seconds: float, settings: dict[str, Any]) -> dict[str, Any]:
    """Put a result together."""
    return {"method": method, "labels": [np.asarray(p) for p in labels], "seconds": seconds, "settings": settings}


def crfsuite(name: str, split: Split, features: tuple[list[Any], list[Any]], path: str) -> list[dict[str, Any]]:
    """Fit python-crfsuite with the best penalty, decoded both ways."""
    start = time.perf_counter()
    X, y = features[0], split.y_train
    encode = {str(label): label for label in np.unique(np.concatenate(y))}
    shuffled = np.random.default_rng(0).permutation(len(X))
    held, kept = shuffled[: len(X) // 10], shuffled[len(X) // 10 :]
    found = []
    for c2 in PENALTIES[name]:
        tagger = trained([X[i] for i in kept], [y[i] for i in kept], c2, path)
        guessed = [np.array([encode[label] for label in tagger.tag(X[i])]) for i in held]
        found.append(quality(name, [y[i] for i in held], guessed))
        print(f"  {name}: c2={c2}, {100 * found[-1]:.2f} % on held-out sequences", flush=True)
    c2 = PENALTIES[name][int(np.argmax(found))]
    tagger = trained(X, y, c2, path)
    seconds = time.perf_counter() - start
    names = tagger.labels()
    paths, nodes = [], []
    for rows in features[1]:
        paths.append(np.array([encode[label] for label in tagger.tag(rows)]))
        marginals = np.array([[tagger.marginal(label, t) for label in names] for t in range(len(rows))])
        nodes.append(np.array([encode[names[i]] for i in marginals.argmax(1)]))
    return [
        outcome(f"CRFsuite {decoding}", labels, seconds, {"c2": c2})
        for decoding, labels in (("viterbi", paths), ("posterior", nodes))
    ]


def trained(X: list[Any], y: list[np.ndarray], c2: float, path: str) -> pycrfsuite.Tagger:
    """Train python-crfsuite."""
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": 200, "feature.possible_transitions": True})
    for rows, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(rows), [str(label) for label in labels])
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    return tagger


def run(name: str, method: str) -> list[dict[str, Any]]:
    """Run one method on one set."""
    (split,) = load(name)
    features = attributes_of(name, split)
    if method == "crfsuite":
        with tempfile.TemporaryDirectory() as folder:
            results = crfsuite(name, split, features, str(Path(folder) / "model"))
    else:
        results = tree_crf(name, method, split, features)
    rows = []
    for result in results:
        right = np.concatenate(result["labels"]) == np.concatenate(split.y_test)
        row = {
            "set": name,
            "method": result["method"],
            "accuracy %": round(100 * float(np.mean(right)), 2),
            "span F1 %": round(100 * span_f1(split.y_test, result["labels"]), 2) if name in ATTRIBUTES else None,
            "fit s, choices included": round(result["seconds"], 1),
            "settings": result["settings"],
        }
        print(row, flush=True)
        rows.append(row)
    return rows


def main() -> None:
    """Run the sets and methods asked for; results of the others are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SETS), help="comma-separated names of sets")
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated methods")
    arguments = parser.parse_args()
    names, methods = arguments.only.split(","), arguments.methods.split(",")
    if unknown := (set(names) - set(SETS)) | (set(methods) - set(METHODS)):
        parser.error(f"unknown {sorted(unknown)}; known are the sets {list(SETS)} and the methods {list(METHODS)}")
    for name in names:
        for method in methods:
            report.write("linear_start", run(name, method), key=("set", "method"), note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
