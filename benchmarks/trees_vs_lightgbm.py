"""Growing one tree against LightGBM growing the same tree on the expanded (position × previous label) data.

python benchmarks/trees_vs_lightgbm.py [--trees 30]

One thread each, 31 leaves, equal bins, λ and minimum leaf. seqboost's tree lives on rows × contexts; LightGBM gets
every row once for each previous label, with that label as one more column. Only growing is timed; memory is the peak
above what the plain data took, in a process of its own. LightGBM runs row-wise and column-wise, the faster counts; of
all trees the fastest, for other work on the machine only adds.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import report
from measure import in_subprocess, peak_bytes

N_LEAVES, MIN_LEAF, L2 = 31, 20, 1.0
SHAPES = {"K=3": (3, 17_700, 11, 22), "K=6": (6, 100_000, 30, 254), "K=20": (20, 50_000, 30, 254)}


@dataclass(frozen=True)
class Problem:
    """One label's tree: codes of the rows, gradient and curvature for each row and previous label."""

    n_labels: int
    n_values: int
    codes: np.ndarray  # (n_rows, n_columns) uint8
    gradient: np.ndarray  # (n_rows, n_labels) float32, to be followed: I(c, k) − P(c, k)
    hessian: np.ndarray  # (n_rows, n_labels) float32


def make_problem(shape: str, seed: int = 0) -> Problem:
    """Make a first round's derivatives of label 0, labels depending on two columns and on the label before."""
    n_labels, n_rows, n_columns, n_values = SHAPES[shape]
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_values, size=(n_rows, n_columns), dtype=np.uint8)
    pull = (codes[:, 0].astype(int) * n_labels // n_values + (codes[:, 1] > n_values // 2)) % n_labels
    fresh = np.where(rng.random(n_rows) < 0.6, pull, rng.integers(n_labels, size=n_rows))
    moves = rng.random(n_rows) < 0.4
    moves[0] = True
    labels = fresh[np.maximum.accumulate(np.where(moves, np.arange(n_rows), 0))]
    previous = np.roll(labels, 1)
    pairs = np.zeros((n_labels, n_labels))
    np.add.at(pairs, (previous, labels), 1 / n_rows)
    probability = np.clip(pairs[:, 0] * rng.uniform(0.5, 1.5, size=(n_rows, n_labels)), 1e-6, 1)
    observed = (previous[:, None] == np.arange(n_labels)) & (labels == 0)[:, None]
    gradient = (observed - probability).astype(np.float32)
    hessian = (probability * (1 - probability)).astype(np.float32)
    gradient[0, 1:] = hessian[0, 1:] = 0  # nothing comes before the first position: one context only
    return Problem(n_labels, n_values, codes, gradient, hessian)


def lightgbm_seconds(problem: Problem, n_trees: int, layout: str) -> list[float]:
    """Grow trees with LightGBM on the expanded data; the clock runs from the gradients' arrival to the update's end."""
    import lightgbm as lgb

    n_rows, n_labels = problem.gradient.shape
    expanded = np.empty((n_rows * n_labels, problem.codes.shape[1] + 1), dtype=np.float32)
    expanded[:, :-1] = np.repeat(problem.codes, n_labels, axis=0)
    expanded[:, -1] = np.tile(np.arange(n_labels), n_rows)
    parameters = {
        "objective": "none", "num_leaves": N_LEAVES, "min_data_in_leaf": MIN_LEAF, "min_sum_hessian_in_leaf": 0.0,
        "lambda_l2": L2, "max_bin": 255, "min_data_in_bin": 1, "num_threads": 1, "learning_rate": 0.1, "verbosity": -1,
        "boost_from_average": False, "feature_pre_filter": False, "enable_bundle": False, layout: True,
    }  # fmt: skip
    data = lgb.Dataset(expanded, np.zeros(len(expanded), np.float32), params=parameters).construct()
    del expanded
    gradient, hessian = -problem.gradient.ravel(), problem.hessian.ravel()
    booster = lgb.Booster(parameters, data)
    arrived = 0.0

    def derivatives(scores: np.ndarray, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
        nonlocal arrived
        arrived = time.perf_counter()
        return gradient, hessian

    seconds = []
    for _ in range(n_trees):
        booster.update(fobj=derivatives)
        seconds.append(time.perf_counter() - arrived)
    return seconds


def seqboost_seconds(problem: Problem, n_trees: int) -> list[float]:
    """Grow trees with seqboost's grower on rows × contexts; like LightGBM's, the time includes updating the scores."""
    from seqboost.core.contexts import context_space
    from seqboost.trees import Limits, TreeGrower

    n_rows, n_columns = problem.codes.shape
    space = context_space(problem.n_labels, 1, np.array([0, n_rows], dtype=np.int64))
    limits = Limits(N_LEAVES, 2**31, MIN_LEAF, L2, 0.0, False, n_columns)
    grower = TreeGrower(*tree_columns(problem), space, limits)
    rows = np.arange(n_rows, dtype=np.int32)
    scores = np.zeros_like(problem.gradient)
    seconds = []
    for _ in range(n_trees):
        start = time.perf_counter()
        tree, partition = grower.grow(problem.gradient, problem.hessian, rows, n_rows, lambda g, h: 0.1 * g / (h + L2))
        partition.add(tree.value, scores, scores)
        seconds.append(time.perf_counter() - start)
    return seconds


def tree_columns(problem: Problem) -> tuple[Any, Any]:
    """Give the grower the codes as they are: numeric columns, no window, nothing sparse."""
    from seqboost.trees import DenseColumns, SparseColumns

    n_rows, n_columns = problem.codes.shape
    dense = DenseColumns(
        codes=problem.codes.reshape(-1),
        address=np.arange(n_rows, dtype=np.int64) * n_columns,
        feature=np.arange(n_columns, dtype=np.int32),
        displacement=np.arange(n_columns, dtype=np.int64),
        n_values=np.full(n_columns, problem.n_values, dtype=np.int32),
        kind=np.zeros(n_columns, dtype=np.uint8),
        cell_start=np.arange(n_columns + 1, dtype=np.int64) * (problem.n_values + 2),
        run_start=np.array([0, n_columns], dtype=np.int64),
    )
    sparse = SparseColumns(
        padded_row=np.arange(n_rows, dtype=np.int64),
        indptr=np.zeros(n_rows + 1, dtype=np.int64),
        indices=np.empty(0, dtype=np.int32),
        slot_start=np.zeros(1, dtype=np.int32),
        kind=np.empty(0, dtype=np.uint8),
        absent_rank=np.empty(0, dtype=np.int32),
        missing=np.empty(0, dtype=np.int32),
        offset=np.empty(0, dtype=np.int64),
        enabled=np.empty((0, 0), dtype=np.bool_),
    )
    return dense, sparse


def measure(side: str, shape: str, n_trees: int) -> dict[str, float]:
    """Time one side in this process; memory above the plain data's."""

    def grow(problem: Problem, n_trees: int) -> list[float]:
        return seqboost_seconds(problem, n_trees) if side == "seqboost" else lightgbm_seconds(problem, n_trees, side)

    problem = make_problem(shape)
    first = slice(0, 500)  # imports and compilation are paid for on a small part
    grow(replace(problem, **{name: getattr(problem, name)[first] for name in ("codes", "gradient", "hessian")}), 1)
    gc.collect()
    before = peak_bytes(reset=True)
    seconds = grow(problem, n_trees)
    return {"milliseconds": 1e3 * min(seconds), "megabytes": (peak_bytes() - before) / 1e6}


def main() -> None:
    """Measure both sides in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=30)
    parser.add_argument("--peers-only", action="store_true")
    parser.add_argument("--measure", nargs=2, metavar=("SIDE", "SHAPE"), help="measure one side and print JSON")
    arguments = parser.parse_args()
    if arguments.measure:
        side, shape = arguments.measure
        print(json.dumps(measure(side, shape, arguments.trees)))
        return
    rows = []
    for shape, (_, n_rows, n_columns, n_values) in SHAPES.items():
        sides = ["force_row_wise", "force_col_wise"] + ["seqboost"] * (not arguments.peers_only)
        found = {
            side: in_subprocess(__file__, "--trees", str(arguments.trees), "--measure", side, shape) for side in sides
        }
        peer = min((found["force_row_wise"], found["force_col_wise"]), key=lambda figures: figures["milliseconds"])
        row: dict[str, Any] = {
            "shape": f"{shape}, {n_rows:,} × {n_columns}, {n_values} values",
            "LightGBM ms": peer["milliseconds"],
            "LightGBM MB": peer["megabytes"],
        }
        if "seqboost" in found:
            own = found["seqboost"]
            row |= {
                "seqboost ms": own["milliseconds"],
                "seqboost MB": own["megabytes"],
                "times faster": peer["milliseconds"] / own["milliseconds"],
                "times less memory": peer["megabytes"] / own["megabytes"],
            }
        print(row, flush=True)
        rows.append(row)
    report.write("trees_vs_lightgbm", rows, note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
