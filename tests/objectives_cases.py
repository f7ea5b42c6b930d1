"""Small random chains for the tests of the objectives, small enough to write out every labelling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from seqboost.objectives import Derivatives, Likelihood, PositionLikelihood

SHAPES = [(order, joint) for order in range(4) for joint in ((True,) if order == 0 else (True, False))]


@dataclass(frozen=True)
class Case:
    """Scores, labels and weights of a few sequences."""

    scores: NDArray[np.float32]
    table: NDArray[np.float64]
    labels: NDArray[np.int32]
    offsets: NDArray[np.int64]
    order: int
    joint: bool
    weights: NDArray[np.float64]
    position_weights: NDArray[np.float64]
    end: NDArray[np.float64] | None = None

    @property
    def n_labels(self) -> int:
        return self.scores.shape[0]

    @property
    def sequences(self) -> list[slice]:
        return [slice(a, b) for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]

    def objective(self, kind=Likelihood, **changes):
        settings = {
            "n_labels": self.n_labels,
            "order": self.order,
            "joint": self.joint,
            "sequence_weights": self.weights,
            "end": self.end,
        }
        if kind is PositionLikelihood:
            settings["position_weights"] = self.position_weights
        return kind(self.labels, self.offsets, **(settings | changes))

    def take(self, chosen: list[int]) -> Case:
        rows = np.concatenate([np.arange(self.offsets[s], self.offsets[s + 1]) for s in chosen])
        lengths = np.diff(self.offsets)[chosen]
        return replace(
            self,
            scores=np.ascontiguousarray(self.scores[:, rows]),
            labels=self.labels[rows],
            offsets=np.append(0, np.cumsum(lengths)),
            weights=self.weights[chosen],
            position_weights=self.position_weights[rows],
        )


def make_case(
    order: int,
    joint: bool,
    *,
    n_labels: int = 3,
    lengths: tuple[int, ...] = (4, 1, 5, 2),
    scale: float = 1.0,
    sticky: float = 0.0,
    hidden: float = 0.0,
    weighted: bool = False,
    seed: int = 0,
) -> Case:
    """Draw a case; ``hidden`` is the share of unobserved labels, ``sticky`` a bonus for staying with a label."""
    rng = np.random.default_rng([seed, order, joint])
    n_rows, n_slots = sum(lengths), n_labels**order if joint else 1
    n_extended = sum(n_labels**i for i in range(order + 1))
    table = scale * rng.normal(size=(n_extended, n_labels))
    first = 1
    for j in range(1, order + 1):
        for slot in range(n_labels**j):
            table[first + slot, slot % n_labels] += sticky
        first += n_labels**j
    scores = (scale * rng.normal(size=(n_labels, n_rows, n_slots))).astype(np.float32)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    for start in offsets[:-1]:  # slots that do not exist hold anything
        for t in range(min(order, offsets[-1] - start) if joint else 0):
            if start + t < n_rows and t < lengths[int(np.searchsorted(offsets, start))]:
                scores[:, start + t, n_labels**t :] = np.nan
    labels = rng.integers(n_labels, size=n_rows).astype(np.int32)
    labels[rng.random(n_rows) < hidden] = -1
    return Case(
        scores,
        table,
        labels,
        offsets,
        order,
        joint,
        weights=rng.uniform(0.5, 2.0, len(lengths)) if weighted else np.ones(len(lengths)),
        position_weights=rng.uniform(0.5, 2.0, n_rows) if weighted else np.ones(n_rows),
    )


def assert_finite_differences(case: Case, total: Callable[..., float], found: Derivatives) -> None:
    """Compare the gradient with differences of ``total(case, scores, table)``; it is 0 where scores are not finite."""
    scores, step = case.scores.astype(np.float64), 1e-5
    exists = np.isfinite(scores)
    for cell in zip(*np.nonzero(exists), strict=True):
        up, down = scores.copy(), scores.copy()
        up[cell] += step
        down[cell] -= step
        slope = (total(case, up, case.table) - total(case, down, case.table)) / (2 * step)
        assert found.gradient[cell] == pytest.approx(slope, abs=2e-6)
    assert np.all(found.gradient[~exists] == 0)
    assert np.all(found.hessian[~exists] == 0)


def assert_finite_differences_of_table(case: Case, total: Callable[..., float], found: Derivatives) -> None:
    """Compare the gradient of the table with differences of ``total(case, scores, table)``."""
    step = 1e-5
    for cell in np.ndindex(case.table.shape):
        up, down = case.table.copy(), case.table.copy()
        up[cell] += step
        down[cell] -= step
        slope = (total(case, case.scores, up) - total(case, case.scores, down)) / (2 * step)
        assert found.table_gradient[cell] == pytest.approx(slope, abs=2e-6)
