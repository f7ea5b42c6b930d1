"""Random columns, derivatives and policies for tests of trees, and comparisons with the slow twin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st

from seqboost.core.contexts import Space, context_space
from seqboost.core.missing import INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees import (
    DENSE,
    LAG,
    SPARSE,
    Columns,
    DenseColumns,
    Grower,
    LeafRows,
    Limits,
    Policies,
    Problem,
    SparseColumns,
    Tree,
    first_cells,
)
from seqboost.trees.reference import Example, ReferenceTree, expand, features_of, grow_reference, window_values

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


POLICIES = {"direction": None, "weighting": INSTANCE_WEIGHTING, "surrogate": SURROGATE, "mixed": -1}


@dataclass(frozen=True)
class Case:
    """A batch of sequences with D outputs; the first ``n_fitted`` of ``rows`` are fitted, the others ride along."""

    columns: Columns
    space: Space
    offsets: np.ndarray
    n_labels: int
    order: int
    gradient: np.ndarray  # (D, n_rows, n_contexts)
    hessian: np.ndarray
    rows: np.ndarray
    n_fitted: int

    @property
    def examples(self) -> list[Example]:
        return expand(self.columns, self.offsets, self.n_labels, self.order, self.gradient, self.hessian)

    @property
    def fitted_examples(self) -> list[Example]:
        fitted = set(self.rows[: self.n_fitted].tolist())
        return [e for e in self.examples if e.row in fitted]

    def problem(self, limits: Limits = LIMITS) -> Problem:
        return Problem(self.columns, self.space, limits)

    def reference(self, limits: Limits = LIMITS, policies: Policies | None = None, draw=None, seed=0) -> ReferenceTree:
        return grow_reference(self.problem(limits), self.fitted_examples, policies, draw, seed)

    def grower(self, limits: Limits = LIMITS, policies: Policies | None = None, **options) -> Grower:
        """A grower of trees with as many outputs as the case has; all decide unless ``options`` say otherwise."""
        return Grower(self.problem(limits), len(self.gradient), policies, **{"max_deciding": 10**6, **options})

    def grow(
        self, limits: Limits = LIMITS, policies: Policies | None = None, seed: int = 0, grower: Grower | None = None,
        **options,
    ) -> tuple[Tree, LeafRows]:  # fmt: skip
        """Grow a tree with a grower of the case, or with ``grower``."""
        grower = self.grower(limits, policies, **options) if grower is None else grower
        value = leaf_value(grower.problem.limits.l2_regularization)
        return grower.grow(self.gradient, self.hessian, self.rows, self.n_fitted, value, seed)

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
    """Draw columns (kind, values) and slots (kind, number, rank of absent), and derivatives that depend on them.

    There is one output; `with_outputs` draws more.
    """
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
    columns = Columns(dense, sparse)
    return Case(columns, space, offsets, n_labels, order, gradient[None], hessian[None], rows, n_rows - n_riders)


def case_of_shape(seed, *, lengths, columns, window, slots, sparse_window, riding, **shape):
    """Draw a case of a shape of ``ANY_SHAPE``; a share of the rows are riders."""
    return random_case(
        seed, lengths=tuple(lengths), columns=tuple(columns), slots=tuple(slots), window=tuple(sorted(window)),
        sparse_window=tuple(sorted(sparse_window)), n_riders=int(riding * sum(lengths)), **shape,
    )  # fmt: skip


def case_of_codes(codes, gradient, hessian=None, *, kind=NUMERIC, n_values=4):
    """One sequence with these codes of up to 4 dense features, and given derivatives (D, n_rows), without contexts."""
    gradient = np.atleast_2d(gradient)[:, :, None]
    hessian = np.ones_like(gradient) if hessian is None else np.atleast_2d(hessian)[:, :, None]
    codes = np.array(codes, dtype=np.uint8).reshape(gradient.shape[1], -1)
    n = codes.shape[1]
    case = random_case(
        0, order=0, n_labels=len(gradient), lengths=(len(codes),), columns=((kind, n_values),) * n, window=(0,),
        slots=(), sparse_window=(),
    )  # fmt: skip
    case.columns.dense.codes[:] = codes.reshape(-1)
    return case.with_derivatives(gradient, hessian)


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
    # Some are left out, so that there are several runs.
    keep = [p for p in range(len(pairs)) if len(pairs) < 5 or p != len(pairs) // 2]
    displacement = np.array([pairs[p][0] * n + pairs[p][1] for p in keep], dtype=np.int64)
    order = np.argsort(displacement)
    displacement = displacement[order]
    n_values = np.array([columns[pairs[keep[p]][1]][1] for p in order], dtype=np.int32)
    kinds = np.array([columns[pairs[keep[p]][1]][0] for p in order], dtype=np.uint8)
    return DenseColumns(
        codes=codes.reshape(-1),
        address=(padded_row * n).astype(np.int64),
        displacement=displacement,
        n_values=n_values,
        kind=kinds,
        cell_start=first_cells(n_values, kinds),
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
    for e in expand(Columns(dense, sparse), offsets, n_labels, order, gradient[None], hessian[None]):
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


def with_outputs(case, seed=0, n_outputs=None):
    """The case with derivatives of all labels, or of some number of outputs, exact in fixed point."""
    rng = np.random.default_rng(seed)
    exists = case.hessian[0] > 0
    gradient, hessian = [], []
    for _ in range(case.n_labels if n_outputs is None else n_outputs):
        noise = 0.3 * rng.normal(size=exists.shape) / exists.shape[1]
        gradient.append((rng.normal() * case.gradient[0] + noise) * exists)
        hessian.append(case.hessian[0] * (0.2 + rng.random(exists.shape)))
    unit = 2.0**16
    gradient, hessian = (np.round(np.array(part) * unit) / unit for part in (gradient, hessian))
    return case.with_derivatives(gradient, hessian)


def policies_of(columns, policy, seed=0):
    """One policy for all features, any for each (−1), or none at all (None)."""
    if policy is None:
        return None
    rng = np.random.default_rng(seed)

    def drawn(n):
        return (rng.integers(3, size=n) if policy < 0 else np.full(n, policy)).astype(np.uint8)

    return Policies(drawn(len(columns.dense.displacement)), drawn(len(columns.sparse.kind)))


def bits(words):
    return frozenset(v for v in range(64 * len(words)) if int(words[v // 64]) >> (v % 64) & 1)


def left_values(tree, split):
    return bits(tree.words[tree.word_start[split] : tree.word_start[split + 1]])


def surrogates_of(tree, split):
    """Kind, feature and left set of the surrogates of a split of a frozen tree."""
    if tree.routes is None:
        return []
    routes, words = tree.routes, tree.routes.surrogate_words
    return [
        (
            int(routes.surrogate_kind[q]),
            int(routes.surrogate_feature[q]),
            bits(words[routes.surrogate_word_start[q] : routes.surrogate_word_start[q + 1]]),
        )
        for q in range(routes.surrogate_start[split], routes.surrogate_start[split + 1])
    ]


def reference_weights(tree, columns, row, lags):
    """The weights of a position in the leaves of a frozen tree that it reaches, from left to right.

    ``lags`` are the labels before it, the nearest first.
    """
    of_number = {(f.kind, f.number): f for f in features_of(columns, None, len(lags))}
    example = Example(row, 0, np.zeros(1), np.zeros(1), *window_values(columns, row), lags)

    def walk(node, weight):
        if node < 0:
            return {~node: weight}
        feature = of_number[int(tree.kind[node]), int(tree.feature[node])]
        goes_left = example.value(feature) in left_values(tree, node)
        if tree.routes is not None and example.lacks(feature):
            share = tree.routes.share[node]
            if share > 0:
                return walk(tree.left[node], weight * share) | walk(tree.right[node], weight * (np.float32(1) - share))
            for kind, number, left in surrogates_of(tree, node):
                if not example.lacks(of_number[kind, number]):
                    goes_left = example.value(of_number[kind, number]) in left
                    break
        return walk(int(tree.left[node] if goes_left else tree.right[node]), weight)

    return walk(0 if tree.n_splits else -1, np.float32(1.0))


def compare(tree, reference, gain_tolerance=1e-5):
    """Check that splits, gains, routes, numbers of rows and leaf values of a tree are those of the reference tree."""
    assert tree.kind.tolist() == reference.kind
    assert tree.feature.tolist() == reference.feature
    assert tree.left.tolist() == reference.left
    assert tree.right.tolist() == reference.right
    share = np.zeros(tree.n_splits, dtype=np.float32) if tree.routes is None else tree.routes.share
    np.testing.assert_array_equal(share, np.array(reference.share, dtype=np.float32))
    for split in range(tree.n_splits):
        left = left_values(tree, split)
        if tree.kind[split] == DENSE:
            assert left == reference.left_set[split]
        else:
            held = {v for v in reference.held[split] if v >= 0}
            assert left & held == reference.left_set[split] & held
        assert surrogates_of(tree, split) == reference.surrogates[split]
    largest = max(reference.gain, default=0.0)
    np.testing.assert_allclose(tree.gain, reference.gain, rtol=gain_tolerance, atol=1e-9 * largest)
    assert tree.n_rows.tolist() == reference.n_rows
    assert tree.leaf_rows.tolist() == reference.leaf_rows
    value = reference.value
    np.testing.assert_allclose(tree.value.reshape(value.shape), value, rtol=1e-5, atol=1e-5 * np.abs(value).max())


def differs_by_a_tie(tree, reference, tolerance=1e-6):
    """Check whether the first split that differs from the reference tree's gains the same.

    Several candidates may part the rows alike, or swap the sides. Which is first is exact only if equal sums are equal
    to the bit: those of weighted rows are not, for fixed point rounds them.
    """
    for split in range(min(tree.n_splits, len(reference.kind))):
        held = reference.held[split]
        if (
            (tree.kind[split], tree.feature[split]) != (reference.kind[split], reference.feature[split])
            or left_values(tree, split) & held != reference.left_set[split] & held
            or tree.n_rows[split] != reference.n_rows[split]
        ):
            return bool(abs(tree.gain[split] - reference.gain[split]) <= tolerance * reference.gain[split])
    return False


def compare_weights(case, tree, reference, weights):
    """Check the weights of every (row, context), fitted or riding, in the leaves; return how many reach several.

    ``weights`` is an array of shape (n_leaves, n_rows, n_contexts), zero in leaves that a context does not reach. It
    must be what the frozen tree says, to the bit, and what the reference tree says of the fitted ones.
    """
    expected, n_several = np.zeros_like(weights), 0
    slow = reference.weights
    for e in case.examples:
        reached = reference_weights(tree, case.columns, e.row, e.lags)
        n_several += len(reached) > 1
        for leaf, weight in reached.items():
            expected[leaf, e.row, e.context] = weight
        if (e.row, e.context) in slow:
            np.testing.assert_allclose(
                [reached.get(leaf, 0) for leaf in range(tree.n_leaves)],
                [slow[e.row, e.context].get(leaf, 0) for leaf in range(tree.n_leaves)],
                rtol=1e-5,
            )
    np.testing.assert_array_equal(weights, expected)
    return n_several


def same_tree(first, second):
    """Two trees, bit by bit; their routes too, if both have some."""

    def equal(one, other, names):
        return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)

    names = ("kind", "feature", "word_start", "words", "left", "right", "value", "gain", "n_rows", "leaf_rows")
    if first.routes is not None and second.routes is not None and not equal(first.routes, second.routes, ROUTES):
        return False
    return equal(first, second, names)


ROUTES = ("share", "surrogate_start", "surrogate_kind", "surrogate_feature", "surrogate_word_start", "surrogate_words")


def same_leaves(first, second):
    """The positions, weights and contexts of two trees' leaves, bit by bit."""
    names = ("rows", "start", "size", "mask") + (("weight",) if first.weight is not None else ())
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


def leaf_weights(case, leaves):
    """The weight of every (row, context) in each leaf, of shape (n_leaves, n_rows, n_contexts)."""
    space = leaves.space
    weights = np.zeros((len(leaves.start), *case.gradient.shape[1:]), dtype=np.float32)
    for leaf, (start, size) in enumerate(zip(leaves.start, leaves.size, strict=True)):
        for p in range(start, start + size):
            row = leaves.rows[p]
            j = space.row_type[row]
            exists = leaves.mask[leaf, space.base[j] : space.base[j] + space.n_contexts_of[j]]
            assert not weights[leaf, row].any()
            weights[leaf, row, : len(exists)] = exists * (1 if leaves.weight is None else leaves.weight[p])
    return weights


def as_binned(case):
    """The columns as the `model` room reads them."""
    return SimpleNamespace(
        codes=case.columns.dense.codes,
        address=case.columns.dense.address,
        padded_row=case.columns.sparse.padded_row,
        offsets=case.offsets,
        slot_indptr=case.columns.sparse.indptr,
        slot_indices=case.columns.sparse.indices,
        layout=SimpleNamespace(
            displacement=case.columns.dense.displacement,
            n_values=case.columns.dense.n_values,
            slot_start=case.columns.sparse.slot_start,
            sparse_kind=case.columns.sparse.kind,
            sparse_missing=case.columns.sparse.missing,
            sparse_offsets=case.columns.sparse.offset,
        ),
    )
