"""How tight the curvature "mixing" is, which steps are safe, and where "newton" and "count" diverge.

python benchmarks/curvature.py

Small chains (enumerated): D is the diagonal that a curvature puts in the place of the exact second derivative H.
"excess" is ΣD over the exact sum of absolute row sums (1: as tight as a diagonal bound by row sums can be); "safe step"
is the largest s for which D/s − H has no negative eigenvalue, so that a step s·G/D cannot lower the log-likelihood in
any direction; the smallest over all chains is shown. "batch γ" puts the largest γ_t of a chain at all its positions.
"shared leaves": a shared tree moves the vector of all labels in a leaf together. B holds the indicators of (leaf,
label) of random partitions into 1 to 3 leaves; the exact quadratic form of the leaves' values is BᵀHB, with blocks of
labels, and the trees use the diagonal BᵀDB. Its excess and safe step are shown, and the same for the exact diagonal of
BᵀHB, and for its exact blocks of a leaf.
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
        case = make_case(order, joint, n_labels=2 if order > 1 else 3, lengths=(6, 5, 3), scale=scale, sticky=sticky)
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


def leaf_indicators(shape: tuple[int, ...], leaf_of: np.ndarray) -> np.ndarray:
    """Return B, (cells, leaves × labels): which cell (k, t, c) a value of a shared tree moves."""
    n_labels, n_leaves = shape[0], int(leaf_of.max()) + 1
    indicators = np.zeros((*shape, n_leaves, n_labels))
    for k in range(n_labels):
        for leaf in range(n_leaves):
            indicators[k, :, :, leaf, k] = leaf_of == leaf
    return indicators.reshape(-1, n_leaves * n_labels)


def shared_leaves(order: int, joint: bool, n_partitions: int = 20) -> list[dict[str, Any]]:
    """Compare the diagonal that shared trees use with the exact quadratic form of their leaves' values."""
    from objectives_cases import make_case

    from seqboost.objectives import reference

    rng = np.random.default_rng(0)
    totals: dict[str, list[tuple[float, float]]] = {}
    for scale, sticky in CHAINS:
        case = make_case(order, joint, n_labels=2 if order > 1 else 3, lengths=(6, 5, 3), scale=scale, sticky=sticky)
        mixing = case.objective(curvature="mixing").derivatives(case.scores, case.table).hessian.copy()
        for rows in case.sequences:
            scores = case.scores[:, rows]
            hessian = reference.exact_hessian(scores, case.training_table(), order, not joint)
            for _ in range(n_partitions):
                n_leaves = int(rng.integers(1, 4))
                B = leaf_indicators(scores.shape, rng.integers(n_leaves, size=scores.shape[1:]))
                form, diagonal = B.T @ hessian @ B, B.T @ mixing[:, rows].ravel()
                exists = np.abs(form).sum(axis=1) > 1e-6
                if not exists.any():
                    continue
                form, diagonal = form[np.ix_(exists, exists)], diagonal[exists]
                leaf = (np.arange(B.shape[1]) // len(scores))[exists]
                blocks = form * (leaf[:, None] == leaf[None, :])
                majorants = {
                    "mixing": np.diag(diagonal), "exact diagonal": np.diag(form.diagonal()), "exact blocks": blocks
                }  # fmt: skip
                for name, majorant in majorants.items():
                    excess = float(majorant.diagonal().sum() / np.abs(form).sum())
                    totals.setdefault(name, []).append((excess, 1 / _largest(form, majorant)))
    return [
        {
            "where": f"shared leaves, order {order}, {'joint' if joint else 'factored'}",
            "curvature": name,
            "excess, median": round(float(np.median([a for a, _ in found])), 2),
            "excess, largest": round(max(a for a, _ in found), 2),
            "safe step": round(min(b for _, b in found), 3),
            "safe step, median": round(float(np.median([b for _, b in found])), 3),
        }
        for name, found in totals.items()
    ]


def _largest(form: np.ndarray, majorant: np.ndarray) -> float:
    """Return the largest xᵀ form x / xᵀ majorant x, over the directions that the majorant does not send to zero."""
    values, vectors = np.linalg.eigh(majorant)
    kept = values > 1e-9 * values.max()
    root = vectors[:, kept] / np.sqrt(values[kept])
    return float(np.linalg.eigvalsh(root.T @ form @ root).max())


def training(name: str, rounds: int) -> list[dict[str, Any]]:
    """Train with every curvature and see whether the log-likelihood falls."""
    from seqboost import Method, TreeCRF

    split = load(name)[0]
    rows = []
    for curvature, step, rate in (
        ("count", "fixed", 1.0), ("newton", "fixed", 1.0), ("newton", "fixed", 0.3), ("newton", "fixed", 0.1),
        ("mixing", "fixed", 1.0), ("mixing", "fixed", 0.5), ("mixing", "safe", 1.0), ("mixing", "line_search", 1.0),
        ("newton", "safe", 1.0),
    ):  # fmt: skip
        model = TreeCRF(
            potentials="factored",
            method=Method(curvature=curvature, step=step),
            learning_rate=rate,
            max_iter=rounds,
            early_stopping=False,
            random_state=0,
            l2_regularization=10.0,
            window=0,
            trees="per_label",
            min_samples_leaf=10,
        ).fit(split.X_train, split.y_train)
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
    rows += [row for order in range(4) for joint in (True, False) for row in shared_leaves(order, joint)]
    for row in rows:
        print(row, flush=True)
    rows += training("S3", 60)
    report.write("curvature", rows, key=("where", "curvature"), note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
