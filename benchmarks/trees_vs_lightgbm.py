"""Growing trees against LightGBM: the trees of a round, and one tree on expanded data.

python benchmarks/trees_vs_lightgbm.py [--only gestures] [--quick]

Rounds: growing the one tree of all labels and adding it to the scores, which is all of a round but forward–backward and
derivatives, against a whole update() of LightGBM's multiclass objective, which grows a tree for each label. The same
rows and window columns, 31 leaves, at most 255 bins, at least 20 rows in a leaf. Both run in one process, in turns of a
few rounds; medians over rounds. LightGBM runs row-wise and column-wise, the faster counts. One thread, processor time.

One tree: the tree of a single label against LightGBM growing the same tree on the expanded (position × previous label)
data. seqboost's tree lives on rows × contexts; LightGBM gets every row once for each previous label, with that label as
one more column. Equal bins, λ and minimum leaf. Only growing is timed; memory is the peak above what the plain data
took, in a process of its own. Of all trees the fastest, for other work on the machine only adds.
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
from data import load
from measure import in_subprocess, peak_bytes, round_clock, use_one_thread
from peers import window_rows

N_LEAVES, MIN_LEAF, L2 = 31, 20, 1.0
LAYOUTS = ("force_row_wise", "force_col_wise")
TURN = 5  # rounds
SHAPES = {"K=3": (3, 17_700, 11, 22), "K=6": (6, 100_000, 30, 254), "K=20": (20, 50_000, 30, 254)}


@dataclass(frozen=True)
class Case:
    """Rounds on the training sequences of the first fold of a set."""

    name: str
    window: int
    potentials: str
    target: float  # time of seqboost ÷ time of LightGBM


CASES = {
    "S3 joint": Case("S3", 0, "joint", 0.8),
    "S3 factored": Case("S3", 0, "factored", 0.8),
    "gestures": Case("gesture_phase", 2, "joint", 0.8),
    "letters": Case("letters", 0, "factored", 1.0),
    "nettalk": Case("nettalk", 6, "factored", 0.8),
}


# ------------------------------------------------------------------------------------------------------------- rounds


def boosters(X: Any, y: Any, window: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a LightGBM booster for each layout, and the sizes of the data."""
    import lightgbm as lgb

    rows, is_categorical, _ = window_rows(X, window)
    classes, labels = np.unique(np.concatenate(y), return_inverse=True)
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    categorical = list(range(rows.shape[1])) if is_categorical else "auto"
    made = {}
    for layout in LAYOUTS:
        parameters = {
            "objective": "multiclass", "num_class": len(classes), "num_leaves": N_LEAVES, "min_data_in_leaf": MIN_LEAF,
            "max_bin": 255, "min_data_in_bin": 1, "learning_rate": 0.1, "num_threads": 1, "verbosity": -1,
            "feature_pre_filter": False, layout: True,
        }  # fmt: skip
        data = lgb.Dataset(rows, labels, categorical_feature=categorical, params=parameters).construct()
        made[layout] = lgb.Booster(parameters, data)
    return made, {"rows": rows.shape[0], "features": rows.shape[1], "labels": len(classes)}


def rounds(case: Case, n_rounds: int) -> dict[str, Any]:
    """Time the rounds of both sides, in turns."""
    from seqboost import TreeCRF

    split = load(case.name)[0]
    X, y = split.X_train, split.y_train
    made, sizes = boosters(X, y, case.window)
    seconds: dict[str, list[float]] = {layout: [] for layout in LAYOUTS}

    def update(_: Any) -> None:
        if len(clock.growth) % TURN == 0:
            for layout, booster in made.items():
                for _ in range(TURN):
                    start = time.process_time()
                    booster.update()
                    seconds[layout].append(time.process_time() - start)

    model = TreeCRF(
        window=case.window, potentials=case.potentials, trees="shared", max_leaf_nodes=N_LEAVES,
        min_samples_leaf=MIN_LEAF, max_bins=255, max_iter=2, early_stopping=False, n_jobs=1, random_state=0,
    )  # fmt: skip
    model.fit(X, y)  # compiles
    with round_clock() as clock:
        model.set_params(max_iter=n_rounds).fit(X, y, callbacks=[clock.end_round, update, clock.begin_round])
    own, whole = (1e3 * float(np.median(part)) for part in (clock.growth[1:], clock.rounds))
    peers = {layout: 1e3 * float(np.median(times[1:])) for layout, times in seconds.items()}
    layout = min(peers, key=lambda name: peers[name])
    return {
        **sizes, "window": case.window, "potentials": case.potentials, "seqboost trees ms": own,
        "LightGBM update ms": peers[layout], "layout": layout.split("_")[1], "seqboost ÷ LightGBM": own / peers[layout],
        "target": f"≤ {case.target}", "seqboost whole round ms": whole,
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- one tree


@dataclass(frozen=True)
class OneTree:
    """One label's tree: codes of the rows, gradient and curvature for each row and previous label."""

    n_labels: int
    n_values: int
    codes: np.ndarray  # (n_rows, n_columns) uint8
    gradient: np.ndarray  # (n_rows, n_labels) float32, to be followed: I(c, k) − P(c, k)
    hessian: np.ndarray  # (n_rows, n_labels) float32


def make_problem(shape: str, seed: int = 0) -> OneTree:
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
    return OneTree(n_labels, n_values, codes, gradient, hessian)


def lightgbm_seconds(problem: OneTree, n_trees: int, layout: str) -> list[float]:
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


def seqboost_seconds(problem: OneTree, n_trees: int) -> list[float]:
    """Grow trees with seqboost's grower on rows × contexts; like LightGBM's, the time includes updating the scores."""
    from seqboost.core.contexts import context_space
    from seqboost.trees import Grower, Limits, Problem

    n_rows, n_columns = problem.codes.shape
    space = context_space(problem.n_labels, 1, np.array([0, n_rows], dtype=np.int64))
    limits = Limits(N_LEAVES, 2**31, MIN_LEAF, L2, 0.0, False, n_columns)
    grower = Grower(Problem(tree_columns(problem), space, limits), 1)
    rows = np.arange(n_rows, dtype=np.int32)
    gradient, hessian = problem.gradient[None], problem.hessian[None]
    scores = np.zeros_like(gradient)
    seconds = []
    for _ in range(n_trees):
        start = time.perf_counter()
        tree, leaves = grower.grow(gradient, hessian, rows, n_rows, lambda g, h: 0.1 * g / (h + L2))
        leaves.add(tree.value, scores, scores)
        seconds.append(time.perf_counter() - start)
    return seconds


def tree_columns(problem: OneTree) -> Any:
    """Give the grower the codes as they are: numeric columns, no window, nothing sparse."""
    from seqboost.trees import Columns, DenseColumns, SparseColumns, first_cells

    n_rows, n_columns = problem.codes.shape
    n_values, kind = np.full(n_columns, problem.n_values, dtype=np.int32), np.zeros(n_columns, dtype=np.uint8)
    dense = DenseColumns(
        codes=problem.codes.reshape(-1),
        address=np.arange(n_rows, dtype=np.int64) * n_columns,
        displacement=np.arange(n_columns, dtype=np.int64),
        n_values=n_values,
        kind=kind,
        cell_start=first_cells(n_values, kind),
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
    return Columns(dense, sparse)


def measure(side: str, shape: str, n_trees: int) -> dict[str, float]:
    """Time one side in this process; memory above the plain data's."""

    def grow(problem: OneTree, n_trees: int) -> list[float]:
        return seqboost_seconds(problem, n_trees) if side == "seqboost" else lightgbm_seconds(problem, n_trees, side)

    problem = make_problem(shape)
    first = slice(0, 500)  # imports and compilation are paid for on a small part
    grow(replace(problem, **{name: getattr(problem, name)[first] for name in ("codes", "gradient", "hessian")}), 1)
    gc.collect()
    before = peak_bytes(reset=True)
    seconds = grow(problem, n_trees)
    return {"milliseconds": 1e3 * min(seconds), "megabytes": (peak_bytes() - before) / 1e6}


def one_tree(shape: str, n_trees: int) -> dict[str, Any]:
    """Measure both sides in processes of their own."""
    _, n_rows, n_columns, n_values = SHAPES[shape]
    found = {
        side: in_subprocess(__file__, "--trees", str(n_trees), "--measure", side, shape)
        for side in (*LAYOUTS, "seqboost")
    }
    peer, own = min((found[side] for side in LAYOUTS), key=lambda figures: figures["milliseconds"]), found["seqboost"]
    return {
        "shape": f"{shape}, {n_rows:,} × {n_columns}, {n_values} values",
        "seqboost ms": own["milliseconds"],
        "LightGBM ms": peer["milliseconds"],
        "times faster": peer["milliseconds"] / own["milliseconds"],
        "seqboost MB": own["megabytes"],
        "LightGBM MB": peer["megabytes"],
        "times less memory": peer["megabytes"] / own["megabytes"],
    }


def main() -> None:
    """Measure and write the reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=(*CASES, *SHAPES))
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--trees", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it runs; writes no reports")
    parser.add_argument("--measure", nargs=2, metavar=("SIDE", "SHAPE"), help="measure one side and print JSON")
    arguments = parser.parse_args()
    use_one_thread()
    if arguments.measure:
        side, shape = arguments.measure
        print(json.dumps(measure(side, shape, arguments.trees)))
        return
    n_rounds, n_trees = (2 * TURN, 5) if arguments.quick else (arguments.rounds, arguments.trees)
    of_rounds, of_trees = [], []
    for name, case in CASES.items():
        if arguments.only in (None, name):
            of_rounds.append({"case": name, **rounds(case, n_rounds)})
            print(of_rounds[-1], flush=True)
    for shape in SHAPES:
        if arguments.only in (None, shape):
            of_trees.append(one_tree(shape, n_trees))
            print(of_trees[-1], flush=True)
    notes = [" ".join(part.split()) for part in (__doc__ or "").split("\n\n")[2:]]
    tables = ("trees_vs_lightgbm", "case", of_rounds), ("one_tree_vs_lightgbm", "shape", of_trees)
    for (table, key, rows), note in zip(tables, notes, strict=True):
        if rows and not arguments.quick:
            command = "python benchmarks/trees_vs_lightgbm.py"
            report.write(table, rows, note=note, key=(key,) if arguments.only else (), command=command)


if __name__ == "__main__":
    main()
