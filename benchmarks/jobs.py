"""One thread against two: the same model, and the ratio of the times.

python benchmarks/jobs.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import report
from measure import sticky_sequences
from seqboost import TreeCRF
from seqboost.model import read_model

SHAPES = {"3 labels": (20_000, 11, 3), "6 labels": (100_000, 30, 6)}
N_ROUNDS = 20


def fit(X: Any, y: Any, potentials: str, n_jobs: int) -> tuple[TreeCRF, float]:
    """Fit and time."""
    model = TreeCRF(
        window=2, max_iter=N_ROUNDS, potentials=potentials, trees="per_label", early_stopping=False, n_jobs=n_jobs,
        random_state=0,
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(X, y)
    return model, time.perf_counter() - start


def identical(a: TreeCRF, b: TreeCRF, X: Any) -> bool:
    """Tell whether two models give the same probabilities and write the same arrays to their files, bit for bit."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("one", "two")]
        for model, path in zip((a, b), paths, strict=True):
            model.save(path)
        one, two = (read_model(path)[1] for path in paths)
    same_file = one.keys() == two.keys() and all(one[name].tobytes() == two[name].tobytes() for name in one)
    pairs = zip(a.predict_proba(X), b.predict_proba(X), strict=True)
    return same_file and all(np.array_equal(p, q) for p, q in pairs)


def main() -> None:
    """Compare one and two threads."""
    rows = []
    for shape, (n_rows, n_columns, n_labels) in SHAPES.items():
        X, y = sticky_sequences(n_rows, n_columns, n_labels)
        for potentials in ("joint", "factored"):
            fit(X[:5], y[:5], potentials, 1)
            one, seconds_one = fit(X, y, potentials, 1)
            two, seconds_two = fit(X, y, potentials, 2)
            row = {
                "data": f"{shape}, {n_rows:,} × {n_columns}",
                "potentials": potentials,
                "identical": identical(one, two, X),
                "one thread s": seconds_one,
                "two threads s": seconds_two,
                "ratio": seconds_one / seconds_two,
            }
            print(row, flush=True)
            rows.append(row)
    report.write("jobs", rows, note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
