"""Random columns and derivatives for the tests of the `trees` room, and checks that they are what they claim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import strategies as st

from seqboost.core.contexts import Space, context_space
from seqboost.trees import DENSE, LAG, SPARSE, DenseColumns, Limits, SparseColumns, TreeGrower
from seqboost.trees.reference import Example, ReferenceTree, expand, grow_reference

NUMERIC, CATEGORICAL = 0, 1
ORDERED, SUBSET = 0, 1
LACKING = 2  # ORDERED, and the last slot stands for missing values

LIMITS = Limits(
    max_leaf_nodes=8,
    max_depth=10,
    min_samples_leaf=2,
    l2_regularization=0.5,
    min_gain=0.0,
    one_against_rest=False,
    n_drawn_features=10**6,
)

# For hypothesis: arguments of `case_of_shape`, and limits to change.
ANY_SHAPE = {
    "order": st.integers(0, 2),
    "n_labels": st.integers(1, 3),
    "lengths": st.lists(st.integers(1, 9), min_size=1, max_size=8),
    "columns": st.lists(st.tuples(st.integers(0, 1), st.integers(1, 6)), max_size=3),
    "window": st.sets(st.integers(-2, 2), min_size=1, max_size=3),
    "slots": st.lists(st.sampled_from([(ORDERED, 1, 0), (ORDERED, 3, 1), (ORDERED, 2, 2), (SUBSET, 4, 0)]), max_size=2),
    "sparse_window": st.sets(st.integers(-1, 1), min_size=1, max_size=2),
    "riding": st.floats(0, 0.9),
}
ANY_LIMITS = {"min_samples_leaf": st.integers(1, 4), "one_against_rest": st.booleans()}


@dataclass(frozen=True)
class Case:
    dense: DenseColumns
    sparse: SparseColumns
    space: Space
    offsets: np.ndarray
    n_labels: int
    order: int
    gradient: np.ndarray
    hessian: np.ndarray
    rows: np.ndarray
    n_fitted: int

    @property
    def examples(self) -> list[Example]:
        return expand(self.dense, self.sparse, self.offsets, self.n_labels, self.order, self.gradient, self.hessian)

    @property
    def fitted_examples(self) -> list[Example]:
        fitted = set(self.rows[: self.n_fitted].tolist())
        return [e for e in self.examples if e.row in fitted]

    def grower(self, limits: Limits = LIMITS) -> TreeGrower:
        return TreeGrower(self.dense, self.sparse, self.space, limits)

    def grow(self, limits: Limits = LIMITS, seed: int = 0, grower: TreeGrower | None = None):
        grower = self.grower(limits) if grower is None else grower
        value = leaf_value(grower.limits.l2_regularization)
        return grower.grow(self.gradient, self.hessian, self.rows, self.n_fitted, value, seed)

    def reference(self, limits: Limits = LIMITS, draw=None) -> ReferenceTree:
        return grow_reference(self.dense, self.sparse, limits, self.fitted_examples, draw)

    def with_derivatives(self, gradient, hessian) -> Case:
        return replace(self, gradient=gradient.astype(np.float32), hessian=hessian.astype(np.float32))


def leaf_value(lam):
    return lambda g, h: g / np.maximum(h + lam, 1e-300)


def random_case(
    seed,
    *,
    n_labels=3,
    order=1,
    lengths=(7, 1, 12, 2, 9, 1, 8),
    columns=((NUMERIC, 6), (CATEGORICAL, 5), (NUMERIC, 3)),
    window=(-1, 0, 1),
    slots=((ORDERED, 1, 0), (ORDERED, 4, 2), (SUBSET, 6, 0)),
    sparse_window=(-1, 0),
    n_riders=0,
    missing=0.15,
):
    """Draw columns (kind, values) and slots (kind, number, rank of absent), and derivatives that depend on them."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    margin = max([abs(o) for o in (*window, *sparse_window)], default=0)
    n_padded = int(offsets[-1]) + margin * (len(lengths) + 1)
    padded_row = np.arange(offsets[-1]) + margin * (1 + np.repeat(np.arange(len(lengths)), lengths))
    n_rows = int(offsets[-1])
    rider = np.zeros(n_rows, dtype=bool)
    rider[rng.permutation(n_rows)[:n_riders]] = True
    dense = _dense(rng, columns, window, n_padded, padded_row, missing, rider)
    sparse = _sparse(rng, slots, sparse_window, n_padded, padded_row, rider)
    space = context_space(n_labels, order, offsets)
    gradient, hessian = _derivatives(rng, dense, sparse, n_labels, order, offsets)
    rows = np.concatenate([np.flatnonzero(~rider), np.flatnonzero(rider)]).astype(np.int32)
    return Case(dense, sparse, space, offsets, n_labels, order, gradient, hessian, rows, n_rows - n_riders)


def case_of_shape(seed, *, lengths, columns, window, slots, sparse_window, riding, **shape):
    """Draw a case of a shape of ``ANY_SHAPE``; a share of the rows are riders."""
    return random_case(
        seed, lengths=tuple(lengths), columns=tuple(columns), slots=tuple(slots), window=tuple(sorted(window)),
        sparse_window=tuple(sorted(sparse_window)), n_riders=int(riding * sum(lengths)), **shape,
    )  # fmt: skip


def _dense(rng, columns, window, n_padded, padded_row, missing, rider):
    n = len(columns)
    codes = np.empty((n_padded, n), dtype=np.uint8)
    for j, (kind, n_values) in enumerate(columns):
        codes[:, j] = n_values + 1
        real = rng.integers(n_values, size=len(padded_row)) if n_values else np.zeros(len(padded_row))
        real[rng.random(len(real)) < missing] = n_values
        if kind == CATEGORICAL and 0 not in window:  # an unknown category, where no fitted row can see it
            real[rider & (rng.random(len(real)) < 0.3)] = n_values
        codes[padded_row, j] = real
    pairs = [(o, j) for o in window for j in range(n)]
    # The user's order of features is any; some are left out so that there are several runs.
    keep = [p for p in range(len(pairs)) if len(pairs) < 5 or p != len(pairs) // 2]
    number = rng.permutation(len(keep))
    displacement = np.array([pairs[p][0] * n + pairs[p][1] for p in keep], dtype=np.int64)
    order = np.argsort(displacement)
    displacement = displacement[order]
    n_values = np.array([columns[pairs[keep[p]][1]][1] for p in order], dtype=np.int32)
    breaks = np.flatnonzero(np.diff(displacement) != 1) + 1
    return DenseColumns(
        codes=codes.reshape(-1),
        address=(padded_row * n).astype(np.int64),
        feature=number[order].astype(np.int32),
        displacement=displacement,
        n_values=n_values,
        kind=np.array([columns[pairs[keep[p]][1]][0] for p in order], dtype=np.uint8),
        cell_start=np.concatenate([[0], np.cumsum(n_values + 2)]).astype(np.int64),
        run_start=np.concatenate([[0], breaks, [len(order)]] if len(order) else [[0]]).astype(np.int64),
    )


def _sparse(rng, slots, window, n_padded, padded_row, rider):
    slot_start = np.concatenate([[0], np.cumsum([n for _, n, _ in slots])]).astype(np.int32)
    carried = [[] for _ in range(n_padded)]
    real = np.zeros(n_padded, dtype=bool)
    real[padded_row] = True
    riding = np.zeros(n_padded, dtype=bool)
    riding[padded_row] = rider
    for row in range(n_padded):
        for s, (kind, n, _) in enumerate(slots):
            if kind == SUBSET:  # the last slot is the boundary's
                if not real[row]:
                    carried[row].append(slot_start[s] + n - 1)
                elif not (riding[row] and rng.random() < 0.2):
                    carried[row].append(slot_start[s] + rng.integers(n - 1))
            elif real[row] and rng.random() < 0.5:
                carried[row].append(slot_start[s] + rng.integers(n))
    enabled = np.ones((len(window), len(slots)), dtype=bool)
    if enabled.size > 2:
        enabled[0, -1] = False
    return SparseColumns(
        padded_row=padded_row.astype(np.int64),
        indptr=np.concatenate([[0], np.cumsum([len(c) for c in carried])]).astype(np.int64),
        indices=np.array([slot for c in carried for slot in c], dtype=np.int32),
        slot_start=slot_start,
        kind=np.array([kind == SUBSET for kind, _, _ in slots], dtype=np.uint8),
        absent_rank=np.array([rank for _, _, rank in slots], dtype=np.int32),
        missing=np.array([{SUBSET: n - 2, LACKING: n - 1}.get(kind, -1) for kind, n, _ in slots], dtype=np.int32),
        offset=np.array(window, dtype=np.int64),
        enabled=enabled,
    )


def _derivatives(rng, dense, sparse, n_labels, order, offsets):
    """Gradients with effects of window features, of lags, and of both together; all numbers exact in fixed point."""
    n_rows, n_contexts = int(offsets[-1]), n_labels**order
    gradient, hessian = np.zeros((n_rows, n_contexts)), np.zeros((n_rows, n_contexts))
    effect = {}
    for e in expand(dense, sparse, offsets, n_labels, order, gradient, hessian):
        total = 0.1 * rng.normal()
        for kind, values in ((DENSE, e.dense), (SPARSE, e.sparse), (LAG, e.lags)):
            for place, v in enumerate(values):
                total += effect.setdefault((kind, place, v), 0.4 * rng.normal() * (place % 2 == 0))
        if e.dense and e.lags:
            total += effect.setdefault((e.dense[0], e.lags[0]), 0.5 * rng.normal())
        gradient[e.row, e.context] = total / n_contexts
        hessian[e.row, e.context] = (0.1 + rng.random()) / n_contexts
    unit = 2.0**16
    return (
        (np.round(gradient * unit) / unit).astype(np.float32),
        (np.round(hessian * unit) / unit).astype(np.float32),
    )


def left_values(tree, split):
    words = tree.words[tree.word_start[split] : tree.word_start[split + 1]]
    return {v for v in range(64 * len(words)) if int(words[v // 64]) >> (v % 64) & 1}


def partition_leaves(partition, n_contexts):
    """Leaf of each (row, context), −1 where none: fails if two leaves claim one."""
    space = partition.space
    leaf_of = np.full((len(space.row_type), n_contexts), -1)
    for leaf, (start, size) in enumerate(zip(partition.start, partition.size, strict=True)):
        for row in partition.rows[start : start + size]:
            j = space.row_type[row]
            for c in range(space.n_contexts_of[j]):
                if partition.mask[leaf, space.base[j] + c]:
                    assert leaf_of[row, c] == -1
                    leaf_of[row, c] = leaf
    return leaf_of


def as_binned(case):
    """The columns as the `model` room reads them."""
    by_number = np.argsort(case.dense.feature)
    return SimpleNamespace(
        codes=case.dense.codes,
        address=case.dense.address,
        padded_row=case.sparse.padded_row,
        offsets=case.offsets,
        slot_indptr=case.sparse.indptr,
        slot_indices=case.sparse.indices,
        layout=SimpleNamespace(
            displacement=case.dense.displacement[by_number],
            n_values=case.dense.n_values[by_number],
            slot_start=case.sparse.slot_start,
            sparse_kind=case.sparse.kind,
            sparse_missing=case.sparse.missing,
            sparse_offsets=case.sparse.offset,
        ),
    )


def assert_as_reference(tree, slow, limits, gain_tolerance=1e-5):
    """Compare splits, gains, numbers of rows and leaf values with those of a reference tree."""
    assert tree.kind.tolist() == slow.kind
    assert tree.feature.tolist() == slow.feature
    assert tree.left.tolist() == slow.left
    assert tree.right.tolist() == slow.right
    for split in range(tree.n_splits):
        left = left_values(tree, split)
        if tree.kind[split] == DENSE:
            assert left == slow.left_set[split]
        else:
            held = {v for v in slow.held[split] if v >= 0}
            assert left & held == slow.left_set[split] & held
    np.testing.assert_allclose(tree.gain, slow.gain, rtol=gain_tolerance)
    assert tree.n_rows.tolist() == slow.n_rows
    assert tree.leaf_rows.tolist() == slow.leaf_rows
    value = leaf_value(limits.l2_regularization)(slow.gradient, slow.hessian)
    np.testing.assert_allclose(tree.value, value, rtol=1e-5, atol=1e-5 * np.abs(value).max())


def same_tree(first, second):
    """Two trees, bit by bit."""
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("kind", "feature", "word_start", "words", "left", "right", "value", "gain", "n_rows", "leaf_rows")
    )


@pytest.mark.parametrize("order", [0, 1, 2])
def test_space_lists_the_contexts_of_the_expanded_examples(order):
    case = random_case(0, order=order, n_labels=2)
    space = case.space
    for e in case.examples:
        j = space.row_type[e.row]
        assert e.context < space.n_contexts_of[j]
        assert tuple(space.lag_label[:, space.base[j] + e.context]) == e.lags
        assert space.type_of[space.base[j] + e.context] == j
    assert len(case.examples) == space.n_contexts_of[space.row_type].sum()
    exists = {(e.row, e.context) for e in case.examples}
    for row in range(len(space.row_type)):
        for c in range(case.n_labels**order):
            assert (row, c) in exists or case.hessian[row, c] == case.gradient[row, c] == 0


def test_cases_hold_missing_boundary_and_several_runs():
    case = random_case(1)
    codes = [{e.dense[f] for e in case.examples} for f in range(len(case.dense.feature))]
    assert any(case.dense.n_values[f] in seen for f, seen in enumerate(codes))
    assert any(case.dense.n_values[f] + 1 in seen for f, seen in enumerate(codes))
    assert len(case.dense.run_start) > 2
    assert {-1, 0} < {slot for e in case.examples for slot in e.sparse}
