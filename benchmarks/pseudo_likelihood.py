"""Time of one call of derivatives: the pseudo-likelihood against the likelihood, on the same labels and scores.

python benchmarks/pseudo_likelihood.py

Made-up sticky labels and scores, order 1, one thread. The two are called in turn and the fastest call of each counts:
other work on the machine only adds time.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import report
from measure import sticky_sequences
from seqboost.objectives import Likelihood, PseudoLikelihood

SHAPES = {  # labels, potentials, positions
    "3 labels, joint": (3, True, 20_000),
    "6 labels, joint": (6, True, 20_000),
    "20 labels, joint": (20, True, 20_000),
    "134 labels, factored": (134, False, 10_000),
}
CURVATURES = ("mixing", "newton", "count")


def fastest(shape: str, curvature: str, repeats: int) -> tuple[float, float]:
    """Give the seconds of the fastest call of the likelihood and of the pseudo-likelihood."""
    n_labels, joint, n_rows = SHAPES[shape]
    labels = sticky_sequences(n_rows, 1, n_labels)[1]
    offsets = np.append(0, np.cumsum([len(y) for y in labels]))
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(n_labels, n_rows, n_labels if joint else 1)).astype(np.float32)
    table = rng.normal(size=(1 + n_labels, n_labels)) + np.vstack([np.zeros(n_labels), 2.0 * np.eye(n_labels)])
    objectives = [
        kind(
            np.concatenate(labels).astype(np.int32), offsets, n_labels=n_labels, order=1, joint=joint,
            curvature=curvature,
        )
        for kind in (Likelihood, PseudoLikelihood)
    ]  # fmt: skip
    seconds: list[list[float]] = [[], []]
    for _ in range(repeats + 1):
        for objective, taken in zip(objectives, seconds, strict=True):
            start = time.perf_counter()
            objective.derivatives(scores, table)
            taken.append(time.perf_counter() - start)
    likelihood, pseudo = (min(taken[1:]) for taken in seconds)  # the first call may compile
    return likelihood, pseudo


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for shape, (_, _, n_rows) in SHAPES.items():
        for curvature in CURVATURES:
            likelihood, pseudo = fastest(shape, curvature, arguments.repeats)
            row = {
                "shape": f"{shape}, {n_rows:,} positions",
                "curvature": curvature,
                "likelihood ms": 1e3 * likelihood,
                "pseudo-likelihood ms": 1e3 * pseudo,
                "ratio": likelihood / pseudo,
            }
            print(row, flush=True)
            rows.append(row)
    report.write("pseudo_likelihood", rows, note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
