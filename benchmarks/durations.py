"""Minimum durations: what they gain where labels last, and what forward-backward takes.

python benchmarks/durations.py

Records of 200 positions are cut from bouts of 20 to 59 positions of two labels; a reading is the label and noise of
twice its size. Each of 8 pairs of sets has 30 records to train on and 50 others. Times are those of log Z and all
marginals of 100,000 positions in sequences of 200, on one thread; the fastest of 5, on the processor's clock.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import report
from measure import use_one_thread
from seqboost import TreeCRF
from seqboost.chain import DurationPotentials, Potentials, posterior

SHORTEST = 20
LABELS, MINIMA = (2, 5, 20, 60), (1, 20, 50)
N_POSITIONS, LENGTH = 100_000, 200


def records(n: int, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return noisy records, and their labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        walks = np.repeat((np.arange(20) + rng.integers(2)) % 2, rng.integers(SHORTEST, 60, 20))
        first = rng.integers(100)
        walks = walks[first : first + LENGTH]
        X.append(walks[:, None] + rng.normal(0, 2.0, (LENGTH, 1)))
        y.append(np.where(walks == 1, "walk", "rest"))
    return X, y


def too_short(labels: np.ndarray) -> tuple[int, int]:
    """Return how many runs there are, and how many of those inside are too short."""
    edges = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    lengths = np.diff(np.append(edges, len(labels)))
    return len(lengths), int(np.sum(lengths[1:-1] < SHORTEST))


def gains(n_pairs: int = 8) -> list[dict[str, Any]]:
    """Train with and without durations on every pair of sets."""
    found: dict[int, list[tuple[float, ...]]] = {1: [], SHORTEST: []}
    for pair in range(n_pairs):
        (X, y), (X_new, y_new) = records(30, 2 * pair), records(50, 2 * pair + 1)
        for shortest, rows in found.items():
            model = TreeCRF(min_duration=shortest, random_state=0, n_jobs=1).fit(X, y)
            runs = np.sum([too_short(labels) for labels in model.predict(X_new)], axis=0)
            rows.append((model.score(X_new, y_new), float(model.log_prob(X_new, y_new).mean()), *runs.tolist()))
    return [
        {
            "case": "two labels that last",
            "min_duration": shortest,
            "accuracy %": round(100 * float(np.mean([row[0] for row in rows])), 1),
            "log-probability of a record": round(float(np.mean([row[1] for row in rows])), 1),
            "runs": int(sum(row[2] for row in rows)),
            "too short": int(sum(row[3] for row in rows)),
        }
        for shortest, rows in found.items()
    ]


def times() -> list[dict[str, Any]]:
    """Time forward-backward with durations, and without."""
    offsets, rng, rows = np.arange(0, N_POSITIONS + 1, LENGTH), np.random.default_rng(0), []
    for n_labels in LABELS:
        scores = rng.normal(size=(n_labels, N_POSITIONS, 1)).astype(np.float32)
        table = rng.normal(size=(1 + n_labels, n_labels))
        chains: dict[str, Potentials] = {"none": Potentials(scores, table, offsets, 1)}
        for shortest in MINIMA:
            durations = np.full(n_labels, shortest)
            chains[str(shortest)] = DurationPotentials(scores, table, offsets, 1, durations=durations)
        for name, chain in chains.items():
            seconds = []
            for _ in range(6):
                began = time.process_time()
                posterior(chain)
                seconds.append(time.process_time() - began)
            per_position = 1e6 * min(seconds[1:]) / N_POSITIONS
            rows.append({"case": f"{n_labels} labels", "min_duration": name, "µs a position": round(per_position, 2)})
    return rows


def main() -> None:
    """Run both."""
    use_one_thread()
    note = (__doc__ or "").splitlines()[0]
    report.write("durations", gains() + times(), note=note, key=("case", "min_duration"))


if __name__ == "__main__":
    main()
