"""How the time of a round grows with positions, window width, labels (joint and factored) and order.

python benchmarks/scaling.py [--only positions,window]

Made-up numeric sequences, one thread; the exponent is the slope of log time against log size.
"""

from __future__ import annotations

import argparse
from typing import Any

import report
from measure import exponent, round_seconds, sticky_sequences
from seqboost import TreeCRF

BASE = {"n_rows": 20_000, "n_columns": 10, "n_labels": 4}
SWEEPS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "positions": ("n_rows", (10_000, 20_000, 40_000, 80_000, 160_000), {"potentials": "joint"}),
    "window": ("window", (1, 2, 4, 8, 16), {"potentials": "joint"}),
    "labels, joint": ("n_labels", (2, 4, 8, 16, 32), {"potentials": "joint"}),
    "labels, factored": ("n_labels", (2, 4, 8, 16, 32, 64), {"potentials": "factored"}),
    "order, joint": ("order", (0, 1, 2, 3, 4), {"potentials": "joint", "n_labels": 3}),
}


def seconds(sweep: str, size: int) -> float:
    """Time of a round at one point of a sweep."""
    what, _, fixed = SWEEPS[sweep]
    values = {**BASE, "window": 2, "order": 1, **fixed, what: size}
    X, y = sticky_sequences(values["n_rows"], values["n_columns"], values["n_labels"])

    def make(max_iter: int) -> TreeCRF:
        return TreeCRF(
            window=values["window"], order=values["order"], potentials=values["potentials"], max_iter=max_iter,
            max_leaf_nodes=31, trees="per_label", early_stopping=False, n_jobs=1, random_state=0,
        )  # fmt: skip

    return round_seconds(make, X, y, (2, 7), repeats=3)


def main() -> None:
    """Run the sweeps asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="beginning of the sweeps' names, separated by commas")
    arguments = parser.parse_args()
    wanted = tuple(arguments.only.split(","))
    rows = []
    for sweep, (what, sizes, _) in SWEEPS.items():
        if not sweep.startswith(wanted):
            continue
        times = [seconds(sweep, size) for size in sizes]
        # A window of w has 2w + 1 columns; contexts of order m grow as labels ** m, so the slope is taken over those.
        scale = {"window": [2 * w + 1 for w in sizes], "order": [3**m for m in sizes]}.get(what, list(sizes))
        row = {
            "sweep": sweep,
            "exponent": exponent(scale, times),
            "over": {"window": "2w + 1", "order": "labels ** order"}.get(what, what),
            "sizes": ", ".join(map(str, sizes)),
            "ms a round": ", ".join(f"{1e3 * t:.1f}" for t in times),
        }
        print(row, flush=True)
        rows.append(row)
    report.write("scaling", rows, note=(__doc__ or "").splitlines()[0], key=("sweep",))


if __name__ == "__main__":
    main()
