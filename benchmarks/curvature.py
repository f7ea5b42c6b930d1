"""How tight the curvature "mixing" is, which steps are safe, and where "newton" and "count" diverge.

python benchmarks/curvature.py

Small chains (enumerated): D is the diagonal that a curvature puts in the place of the exact second derivative H.
"excess" is ΣD over the exact sum of absolute row sums (1: as tight as a diagonal bound by row sums can be); "safe step"
is the largest s for which D/s − H has no negative eigenvalue, so that a step s·G/D cannot lower the log-likelihood in
any direction; the smallest over all chains is shown. "batch γ" puts the largest γ_t of a chain at all its positions.
Sticky sensors (S3): the same three curvatures in training, fixed steps, against the safe ones.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import report
from data import load

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

CHAINS = [(scale, sticky) for scale in (0.3, 1.0, 3.0) for sticky in (0.0, 3.0, 6.0)]


def tightness(order: int, joint: bool) -> list[dict[str, Any]]:
    """Compare the curvatures with exact second derivatives, one row for each."""
    from objectives_cases import make_case

    from seqboost.objectives import reference

    totals: dict[str, list[tuple[float, float]]] = {}
    for scale, sticky in CHAINS:
        case = make_case(
            order, joint, n_labels=2 if order > 1 else 3, lengths=(6, 5, 3), scale=scale, sticky=sticky
        )
        diagonals = {}
        for name in ("mixing", "newton", "count"):
            diagonals[name] = case.objective(curvature=name).derivatives(case.scores, case.table).hessian.copy()
        for rows in case.sequences:
            scores = case.scores[:, rows]
            hessian = reference.exact_hessian(scores, case.training_table(), order, not joint)
            sums = reference.row_sums(hessian, scores.shape)
            mixing, newton = diagonals["mixing"][:, rows], diagonals["newton"][:, rows]
            gamma = np.divide(mixing, newton, out=np.zeros_like(mixing), where=newton > 1e-9)
            parts = {name: diagonal[:, rows] for name, diagonal in diagonals.items()}
            parts["mixing, batch γ"] = newton * gamma.max()
            for name, diagonal in parts.items():
                exists = (sums > 1e-6).ravel()  # what is certain has no second derivative
                if not exists.any():
                    continue
                root = 1 / np.sqrt(np.maximum(diagonal.ravel()[exists], 1e-12))
                top = np.linalg.eigvalsh(root[:, None] * hessian[np.ix_(exists, exists)] * root[None, :]).max()
                totals.setdefault(name, []).append((float(diagonal.sum() / sums.sum()), 1 / float(top)))
    return [
        {
            "where": f"order {order}, {'joint' if joint else 'factored'}",
            "curvature": name,
            "excess, median": round(float(np.median([a for a, _ in found])), 2),
            "excess, largest": round(max(a for a, _ in found), 2),
            "safe step": round(min(b for _, b in found), 3),
        }
        for name, found in sorted(totals.items())
    ]


def training(name: str, rounds: int) -> list[dict[str, Any]]:
    """Train with every curvature and see whether the log-likelihood falls."""
    from seqboost import TreeCRF

    split = load(name)[0]
    rows = []
    for curvature, step, rate in (
        ("count", "fixed", 1.0), ("newton", "fixed", 1.0), ("newton", "fixed", 0.3), ("newton", "fixed", 0.1),
        ("mixing", "fixed", 1.0), ("mixing", "fixed", 0.5), ("mixing", "safe", 1.0), ("mixing", "line_search", 1.0),
        ("newton", "safe", 1.0),
    ):  # fmt: skip
        model = TreeCRF(
            potentials="factored", curvature=curvature, step=step, learning_rate=rate, max_iter=rounds,
            early_stopping=False, random_state=0, l2_regularization=10.0,
        ).fit(split.X_train, split.y_train)  # fmt: skip
        scores = np.array(model.history_["train_score"])
        row = {
            "where": f"{name}, {rounds} rounds",
            "curvature": f"{curvature}, {step} step, learning_rate={rate}",
            "log-likelihood": round(float(scores[-1]), 4),
            "best log-likelihood": round(float(scores.max()), 4),
            "rounds that fell": int((np.diff(scores) < 0).sum()),
            "accuracy %": round(100 * model.score(split.X_test, split.y_test), 2),
        }
        print(row, flush=True)
        rows.append(row)
    return rows


def main() -> None:
    """Measure both."""
    rows = [row for order in range(4) for joint in (True, False) for row in tightness(order, joint)]
    for row in rows:
        print(row, flush=True)
    rows += training("S3", 60)
    report.write("curvature", rows, key=("where", "curvature"), note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
