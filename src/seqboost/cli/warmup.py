"""Compile the kernels by fitting and applying tiny models of every kind."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import seqboost

__all__ = ["warm_up"]


def warm_up() -> float:
    """Fit and apply tiny models on every kind of column; return the seconds it took.

    Numeric, missing, categorical and sparse columns, joint and factored potentials, all and seen contexts, trees of one
    label and shared ones, few and many labels, both starts and decodings, all samples: every kernel of ``fit`` and
    ``predict`` is compiled and written to numba's cache.
    """
    start = time.perf_counter()
    rng = np.random.default_rng(0)
    labels = [np.arange(length) % 2 for length in (8, 9, 10, 11)]
    numeric = [rng.normal(size=(len(y), 2)) for y in labels]
    numeric[0][0, 0] = np.nan
    strings = ["".join(rng.choice(list("abc"), len(y))) for y in labels]
    dicts = [[{"word": f"w{i}", "size": float(i), "first": i == 0} for i in range(len(y))] for y in labels]
    common: dict[str, Any] = {"max_iter": 2, "window": 1, "min_samples_leaf": 1, "random_state": 0}
    for potentials in ("joint", "factored"):
        for X in (numeric, strings, dicts):
            model = seqboost.TreeCRF(potentials=potentials, early_stopping=False, **common).fit(X, labels)
            model.predict_proba(X)
            model.set_params(decoding="viterbi").predict(X)
        shared = seqboost.TreeCRF(potentials=potentials, trees="shared", early_stopping=False, **common)
        shared.fit(dicts, labels).predict(dicts)
    model = seqboost.TreeCRF(order=2, method=seqboost.Method(contexts="seen"), early_stopping=False, **common).fit(
        numeric, labels
    )
    model.predict_proba(numeric)
    model.set_params(decoding="viterbi").predict(numeric)
    many = [np.arange(40) for _ in range(2)]  # labels, which a kernel of their own serves
    seqboost.TreeCRF(potentials="factored", early_stopping=False, **common).fit([y[:, None] for y in many], many)
    seqboost.TreeCRF(init="linear", early_stopping=False, **common).fit(dicts, labels).predict(dicts)
    for trees in ("per_label", "shared"):
        samples = [0.5, seqboost.sampling.Sequences(0.5), "goss", seqboost.sampling.Trimmed(share=0.1)]
        for sample in [*samples, "1p/3n"] if trees == "per_label" else samples:
            seqboost.TreeCRF(method=seqboost.Method(sampling=sample), trees=trees, early_stopping=False, **common).fit(
                numeric, labels
            )
    return time.perf_counter() - start
