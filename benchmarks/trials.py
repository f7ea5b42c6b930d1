"""Do the sequences that fit holds out choose well? Each change that "auto" tries, with several draws of them.

python benchmarks/trials.py [--only S1,protein] [--draws 4]

``kept``: the change is better on the sequences (or blocks) held out in one draw. TreeCRF() judges by several, and by
whole sequences if there are at least four, until these hold 4,000 labels. What cross-validation on all training
sequences says of the same changes is in results/defaults.md. Sets, and how many of their sequences, are those of
defaults.py.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import report
from defaults import ROUNDS, data_of

WINDOWS = {"email_signature": (3, 6), "gesture_phase": (1, 2), "S3": (1, 2)}
"""What the rule makes of "auto", and what is tried."""
SETS = ("S1", "protein", "stress", "hyphen", "occupancy", "email_signature", "gesture_phase", "S3", "rfid_activity")


def held_out(name: str, X: list[Any], y: list[Any], draw: int, settings: dict[str, Any]) -> tuple[float, float]:
    """Return log-likelihood and accuracy of the sequences that a fit holds out, at its best round."""
    from seqboost import TreeCRF

    model = TreeCRF(random_state=draw, refit=False, max_iter=ROUNDS.get(name, 500), **settings).fit(X, y)
    return model.best_score_, model.history_["validation_accuracy"][model.best_iteration_]


def main() -> None:
    """Try the changes on the sets, and write one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SETS))
    parser.add_argument("--draws", type=int, default=4)
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        X, y, _ = data_of(name)
        window = {"window": WINDOWS[name][0]} if name in WINDOWS else {}
        changes: dict[str, dict[str, Any]] = {"potentials": {"potentials": "factored"}}
        if name in WINDOWS:
            changes["window"] = {"window": WINDOWS[name][1]}
        for draw in range(arguments.draws):
            start = time.perf_counter()
            rule, accuracy = held_out(name, X, y, draw, {"potentials": "joint", **window})
            seconds = time.perf_counter() - start
            for change, values in changes.items():
                start = time.perf_counter()
                other, changed = held_out(name, X, y, draw, {"potentials": "joint", **window, **values})
                row = {
                    "set": name,
                    "change": f"{change}={values[change]}",
                    "draw": draw,
                    "log-likelihood": round(rule, 4),
                    "changed": round(other, 4),
                    "accuracy %": round(100 * accuracy, 2),
                    "changed %": round(100 * changed, 2),
                    "kept": "yes" if other > rule else "no",
                    "s": round(seconds, 1),
                    "changed s": round(time.perf_counter() - start, 1),
                }
                print(row, flush=True)
                report.write("trials", [row], key=("set", "change", "draw"), note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
