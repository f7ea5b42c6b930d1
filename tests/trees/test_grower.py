"""The grower: its buffers, threads and histogram slots, and trees that several machines grow together."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees import LAG, Columns, Grower, Problem, grow_together
from seqboost.trees import grower as grower_module
from seqboost.trees import nodes as nodes_module
from seqboost.trees.nodes import N_NODES
from tests.support.trees import (
    LIMITS,
    NUMERIC,
    ORDERED,
    POLICIES,
    as_binned,
    leaf_value,
    leaf_weights,
    policies_of,
    random_case,
    same_leaves,
    same_tree,
    with_outputs,
)

JOINT = pytest.mark.parametrize("joint", [False, True], ids=["one output", "all labels"])


def outputs_of(case, joint):
    return with_outputs(case) if joint else case


@JOINT
@pytest.mark.parametrize("n_drawn", [3, 10**6])
def test_a_grower_used_again_grows_the_same_tree(n_drawn, joint):
    limits = LIMITS._replace(n_drawn_features=n_drawn, max_leaf_nodes=12)
    case = outputs_of(random_case(6, n_riders=5, order=2, n_labels=2), joint)
    fresh, leaves = case.grow(limits, seed=7)
    grower = case.grower(limits)
    shuffled = np.random.default_rng(0).permutation(case.gradient, axis=1) * (case.hessian > 0)
    other, _ = case.with_derivatives(shuffled, case.hessian).grow(seed=1, grower=grower)
    again, leaves_again = case.grow(seed=7, grower=grower)
    assert not same_tree(fresh, other)
    assert same_tree(fresh, again)
    assert same_leaves(leaves, leaves_again)


@pytest.mark.parametrize("policy", ["weighting", "surrogate", "mixed"])
def test_a_grower_with_policies_is_used_again_and_its_segments_grow(policy):
    case = random_case(2, missing=0.5, n_labels=2)
    limits = LIMITS._replace(max_leaf_nodes=30, min_samples_leaf=1)
    grower = case.grower(limits, policies_of(case.columns, POLICIES[policy]))
    (first, leaves), _, (last, last_leaves) = (case.grow(grower=grower) for _ in range(3))
    assert same_tree(first, last)
    assert same_leaves(leaves, last_leaves)
    if policy == "weighting":
        assert len(grower.work.nodes.rows) > 2 * len(case.rows)
        assert len(grower.weighted.weight) == len(grower.weighted.units) == len(grower.work.nodes.rows)


def arrays_in(held):
    """All arrays of nested tuples."""
    if isinstance(held, np.ndarray):
        yield held
    elif isinstance(held, tuple):
        for part in held:
            yield from arrays_in(part)


@JOINT
@pytest.mark.parametrize("policy", ["direction", "mixed"])
def test_buffers_may_hold_garbage(policy, joint):
    limits = LIMITS._replace(max_leaf_nodes=12)
    case = outputs_of(random_case(6, n_riders=5, order=2, n_labels=2), joint)
    policies = policies_of(case.columns, POLICIES[policy])
    fresh, _ = case.grow(limits, policies)
    grower = case.grower(limits, policies)
    scratch = grower.scratch.get()
    grower.scratch.put(scratch)
    kept = {id(grower.work.blocks), *map(id, policies or ())}
    for array in arrays_in((grower.work, grower.weighted, scratch.value)):
        if id(array) not in kept:
            array.fill({"f": np.nan, "b": True}.get(array.dtype.kind, 99))
    again, _ = case.grow(grower=grower)
    assert same_tree(fresh, again)


@JOINT
@pytest.mark.parametrize("order", [0, 2])
def test_order_of_rows_does_not_matter(order, joint):
    case = outputs_of(random_case(8, order=order, n_labels=2, n_riders=9), joint)
    fresh, leaves = case.grow()
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(part) for part in np.split(case.rows, [case.n_fitted])])
    tree, leaves_again = replace(case, rows=rows).grow()
    assert same_tree(fresh, tree)
    assert np.array_equal(leaf_weights(case, leaves), leaf_weights(case, leaves_again))


def test_segments_grow_when_they_must():
    """Lag splits copy rows to the end of the segments: a tree that has to stop for room goes on as if it had not."""
    case = random_case(0, order=2, n_labels=3, columns=(), window=(), slots=(), sparse_window=())  # lags only
    limits = LIMITS._replace(max_leaf_nodes=10, min_samples_leaf=1)
    n_rows, roomy = len(case.rows), case.grower(limits)
    nodes = roomy.work.nodes._replace(rows=np.empty(50 * n_rows, dtype=np.int32))
    roomy.work = roomy.work._replace(nodes=nodes)
    expected, expected_leaves = case.grow(grower=roomy)
    tight = case.grower(limits)
    tree, leaves = case.grow(grower=tight)
    assert len(roomy.work.nodes.rows) == 50 * n_rows
    assert len(tight.work.nodes.rows) >= 4 * n_rows  # doubled twice at least
    assert same_tree(tree, expected)
    assert same_leaves(leaves, expected_leaves)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("gradient", [0.1, 0.7, -0.3])
def test_what_rounding_makes_of_no_gain_is_no_split(joint, gradient):
    """Positions that are all alike, without a penalty: gains of splits are zero but for rounding."""
    case = random_case(0, n_labels=2, order=0, columns=((NUMERIC, 200),), window=(0,), lengths=(30_000,))
    alike = np.full((1 + joint, 30_000, 1), gradient)
    tree, _ = case.with_derivatives(alike, np.ones_like(alike)).grow(LIMITS._replace(l2_regularization=0.0))
    assert tree.n_leaves == 1


@pytest.mark.parametrize(("missing", "lam"), [(0.0, 0.0), (0.2, 3.0)])
def test_same_predictions_as_histogram_boosting_of_scikit_learn(missing, lam):
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    case = random_case(
        3, order=0, n_labels=1, lengths=(1,) * 400, columns=((NUMERIC, 12), (NUMERIC, 30), (NUMERIC, 3)), window=(0,),
        slots=(), sparse_window=(), missing=missing,
    )  # fmt: skip
    codes = case.columns.dense.codes.reshape(400, 3)
    X = np.where(codes == [12, 30, 3], np.nan, codes).astype(float)
    y = np.sin(np.nan_to_num(X[:, 0], nan=5)) + 0.1 * np.nan_to_num(X[:, 1], nan=3) * (X[:, 2] > 0)
    y += rng.normal(size=400)
    forest = ensemble.HistGradientBoostingRegressor(
        max_iter=1, learning_rate=1.0, l2_regularization=lam, max_leaf_nodes=15, min_samples_leaf=10,
        early_stopping=False,
    ).fit(X, y)  # fmt: skip
    limits = LIMITS._replace(max_leaf_nodes=15, min_samples_leaf=10, l2_regularization=lam, max_depth=100)
    ours = case.with_derivatives((y - y.mean())[None, :, None], np.ones((1, 400, 1)))
    tree, leaves = ours.grow(limits)
    scores = np.zeros((1, 400, 1), dtype=np.float32)
    leaves.add(tree.value, scores, scores)
    assert tree.n_leaves == 15
    np.testing.assert_allclose(scores[0, :, 0] + y.mean(), forest.predict(X), atol=1e-5)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_leaves_add_what_the_model_would_score(order):
    model = pytest.importorskip("seqboost.model.reference")
    case = random_case(9, order=order, n_labels=3, n_riders=9)
    tree, leaves = case.grow()
    old = np.random.default_rng(0).normal(size=case.gradient.shape).astype(np.float32)
    new = np.full_like(old, np.nan)
    leaves.add(tree.value, old, new)
    binned = as_binned(case)
    for e in case.examples:
        leaf = model._leaves(tree, binned, e.row, list(e.lags))[0][0]
        assert new[0, e.row, e.context] == old[0, e.row, e.context] + tree.value[leaf, 0]


# --- policies


def test_rows_have_weights_where_they_must():
    """Shares of splits are known either way; so are the leaves of complete rows."""
    complete, damaged = (random_case(0, missing=missing, slots=()) for missing in (0.0, 0.2))
    for case in (complete, damaged):
        assert case.grower(policies=None).one_way
        assert case.grower(policies=policies_of(case.columns, DIRECTION)).policies is None
        assert not case.grower(policies=policies_of(case.columns, SURROGATE)).one_way
    assert complete.grower(policies=policies_of(complete.columns, INSTANCE_WEIGHTING)).one_way
    assert not damaged.grower(policies=policies_of(damaged.columns, INSTANCE_WEIGHTING)).one_way


@JOINT
@pytest.mark.parametrize("order", [0, 1])
def test_complete_rows_give_the_same_tree_with_weights_and_without(order, joint, monkeypatch):
    case = random_case(3, missing=0.0, order=order, slots=((ORDERED, 1, 0), (ORDERED, 4, 2)), n_riders=6)
    case, policies = outputs_of(case, joint), policies_of(case.columns, -1)
    policies.dense[policies.dense == SURROGATE] = INSTANCE_WEIGHTING
    fast, leaves = case.grow(LIMITS, policies)
    assert leaves.weight is None
    monkeypatch.setattr(grower_module, "needs_weights", lambda columns, policies: True)
    slow, leaves = case.grow(LIMITS, policies)
    assert (leaves.weight == 1).all()
    assert same_tree(fast, slow)
    assert fast.routes.share.any()
    assert np.array_equal(fast.routes.share, slow.routes.share)


# --- threads and slots


@pytest.mark.parametrize("policy", ["direction", "mixed"])
@JOINT
@pytest.mark.parametrize("order", [0, 1, 2])
def test_threads_and_blocks_do_not_matter(order, joint, policy, monkeypatch):
    case = outputs_of(random_case(4, order=order, n_riders=9), joint)
    limits, policies = LIMITS._replace(max_leaf_nodes=16), policies_of(case.columns, POLICIES[policy])
    tree, leaves = case.grow(limits, policies)
    assert tree.n_leaves >= 8
    monkeypatch.setattr(grower_module, "WORTH_A_THREAD", 0)
    monkeypatch.setattr("seqboost.trees.histogram.BLOCK_BYTES", 1)
    searched, search = [], Grower._search
    monkeypatch.setattr(Grower, "_search", lambda self, *rest: searched.append(1) or search(self, *rest))
    for n_threads in (1, 2, 3, 7):
        grower = case.grower(limits, policies, n_threads=n_threads)
        assert len(grower.tasks) == n_threads
        again, leaves_again = case.grow(grower=grower)
        assert same_tree(tree, again)
        assert same_leaves(leaves, leaves_again)
        assert bool(searched) == (n_threads > 1)


@pytest.mark.parametrize("order", [0, 1])
def test_labels_that_decide_do_not_depend_on_threads(order):
    case = with_outputs(random_case(3, order=order, n_labels=6, n_riders=8), 3)
    growers = [case.grower(max_deciding=2, n_threads=n) for n in (1, 2, 3)]
    found = set()
    for seed in range(6):
        tree, leaves = case.grow(seed=seed, max_deciding=2)
        found.add(tuple(tree.gain.tolist()))
        for grower in growers:
            again, leaves_again = case.grow(seed=seed, grower=grower)
            assert same_tree(tree, again)
            assert same_leaves(leaves, leaves_again)
    assert len(found) > 1


@pytest.mark.parametrize("policy", ["direction", "mixed"])
@JOINT
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("n_slots", [2, 3, 5])
def test_few_histograms_make_the_same_tree(n_slots, order, joint, policy, monkeypatch):
    """Leaves that gave up their histogram have it made anew when they are split."""
    case = outputs_of(random_case(4, order=order), joint)
    limits = LIMITS._replace(max_leaf_nodes=20, min_samples_leaf=1)
    policies = policies_of(case.columns, POLICIES[policy])
    tree, leaves = case.grow(limits, policies)
    assert tree.n_leaves >= 15
    monkeypatch.setattr(nodes_module, "MIN_SLOTS", n_slots)
    monkeypatch.setattr(nodes_module, "HISTOGRAM_BYTES", 1)
    grower = case.grower(limits, policies)
    assert len(grower.work.sums.cells) == n_slots
    again, leaves_again = case.grow(grower=grower)
    if policy == "direction":
        assert same_tree(tree, again)
        assert same_leaves(leaves, leaves_again)
    else:  # weighted sums are rounded: parent − child is not quite what the sibling's rows add up to
        np.testing.assert_allclose(again.gain[0], tree.gain[0])
        np.testing.assert_allclose(again.gain.sum(), tree.gain.sum(), rtol=0.1)


def test_without_a_reducer_nothing_is_measured_ahead():
    for seed in range(3):
        case = with_outputs(random_case(seed))
        grower = case.grower(LIMITS._replace(max_leaf_nodes=16))
        tree, _ = case.grow(grower=grower)
        assert grower.work.nodes.progress[N_NODES] == 2 * tree.n_leaves - 1


# --- several machines


class Sums:
    """Adds arrays over threads, each of which grows a tree on its rows: a reducer for each of them."""

    def __init__(self, n_parties):
        self.barrier = threading.Barrier(n_parties, timeout=60)
        self.given = [None] * n_parties
        self.n_reductions = [0] * n_parties

    def of(self, party):
        return _Reducer(self, party)


class _Reducer:
    def __init__(self, sums, party):
        self.sums, self.party = sums, party

    def sum(self, arrays):
        sums = self.sums
        sums.n_reductions[self.party] += 1
        sums.given[self.party] = arrays
        sums.barrier.wait()
        assert len({len(part) for part in sums.given}) == 1
        assert all(len({(a.shape, a.dtype) for a in same}) == 1 for same in zip(*sums.given, strict=True))
        assert all(array.dtype.kind == "i" for array in arrays)
        total = [sum(array.astype(np.int64) for array in same) for same in zip(*sums.given, strict=True)]
        sums.barrier.wait()  # all have read what all have given
        for array, new in zip(arrays, total, strict=True):
            array[...] = new


def part_of(case, first, last):
    """The case of the sequences from ``first`` to ``last - 1``; bin codes stay where they are."""
    a, b = int(case.offsets[first]), int(case.offsets[last])
    (dense, sparse), space = case.columns, case.space
    fitted, others = (
        part[(part >= a) & (part < b)] - a for part in np.split(case.rows, [case.n_fitted])
    )  # fmt: skip
    return replace(
        case,
        columns=Columns(
            dense._replace(address=dense.address[a:b]), sparse._replace(padded_row=sparse.padded_row[a:b])
        ),
        space=space._replace(row_type=space.row_type[a:b]),
        offsets=case.offsets[first : last + 1] - a,
        gradient=np.ascontiguousarray(case.gradient[:, a:b]),
        hessian=np.ascontiguousarray(case.hessian[:, a:b]),
        rows=np.concatenate([fitted, others]).astype(np.int32),
        n_fitted=len(fitted),
    )  # fmt: skip


def labels_alone(case):
    """For each label, the case with its derivatives alone."""
    pairs = zip(case.gradient, case.hessian, strict=True)
    return [replace(case, gradient=g[None].copy(), hessian=h[None].copy()) for g, h in pairs]


def grow_apart(cases, cuts, limits, seed=0, **options):
    """Grow the trees of some cases, on the same rows, in step: each party holds the sequences between two cuts.

    Return trees and leaves of each party, the number of reductions, and the growers.
    """
    units = []
    for number, case in enumerate(cases):
        whole = case.grower(limits, **options)
        units.append(whole.units(case.gradient, case.hessian, case.rows, case.n_fitted, seed + number))
    n_parties = len(cuts) - 1
    sums, found, failed = Sums(n_parties), [None] * n_parties, []

    def party(number):
        try:
            parts = [part_of(case, cuts[number], cuts[number + 1]) for case in cases]
            reducer = sums.of(number)
            growers = [part.grower(limits, reducer=reducer, **options) for part in parts]
            for k, (grower, part) in enumerate(zip(growers, parts, strict=True)):
                grower.start(part.gradient, part.hessian, part.rows, part.n_fitted, *units[k], seed + k)
            grow_together(growers, reducer)
            found[number] = [grower.finish(leaf_value(limits.l2_regularization)) for grower in growers], growers
        except BaseException as error:
            failed.append(error)
            sums.barrier.abort()

    threads = [threading.Thread(target=party, args=(number,)) for number in range(n_parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    real = [error for error in failed if not isinstance(error, threading.BrokenBarrierError)]
    if failed:
        raise (real or failed)[0]
    assert len(set(sums.n_reductions)) == 1
    return [trees for trees, _ in found], sums.n_reductions[0], [growers for _, growers in found]


def depth_of(tree):
    depth, deepest = np.zeros(tree.n_splits, dtype=int), 0
    for split in range(tree.n_splits):  # children follow their parents
        for child in (tree.left[split], tree.right[split]):
            deepest = max(deepest, depth[split] + 1)
            if child >= 0:
                depth[child] = depth[split] + 1
    return deepest


LENGTHS = (7, 1, 12, 2, 9, 1, 8, 30, 3, 1, 5, 4)
CUTS = {"two": (0, 7, 12), "three": (0, 4, 8, 12), "uneven": (0, 1, 11, 12), "none": (0, 12, 12), "one": (0, 12)}


def assert_same_apart(cases, cuts, limits, seed=0, **options):
    """Grow trees on all rows and in parts; return the trees and the number of reductions."""
    found, n_reductions, growers = grow_apart(cases, cuts, limits, seed, **options)
    trees = []
    for k, case in enumerate(cases):
        tree, leaves = case.grow(limits, seed=seed + k, **options)
        weights = leaf_weights(case, leaves)
        trees.append(tree)
        for party, (first, last) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
            other, part_leaves = found[party][k]
            assert same_tree(tree, other)
            part = part_of(case, first, last)
            here = slice(case.offsets[first], case.offsets[last])
            assert np.array_equal(leaf_weights(part, part_leaves), weights[:, here])
    return trees, n_reductions, growers


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_tree_grown_apart_is_the_same(order, cuts):
    n_lags = 0
    for seed in range(3):
        case = with_outputs(random_case(seed, lengths=LENGTHS, order=order, n_riders=9), seed)
        limits = LIMITS._replace(max_leaf_nodes=16)
        (tree,), n_reductions, _ = assert_same_apart([case], CUTS[cuts], limits)
        assert tree.n_leaves == 16
        n_lags += (tree.kind == LAG).sum()
        # The root is one more level; and a leaf may wait while deeper ones are split.
        assert n_reductions <= depth_of(tree) + 3
    assert (n_lags > 0) == (order > 0)


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("order", [0, 1])
def test_trees_of_all_labels_grow_in_step(order, cuts):
    case = with_outputs(random_case(5, lengths=LENGTHS, order=order, n_riders=9), 5)
    trees, n_reductions, _ = assert_same_apart(labels_alone(case), CUTS[cuts], LIMITS._replace(max_leaf_nodes=16), 3)
    assert len(trees) == 3
    assert n_reductions <= max(map(depth_of, trees)) + 3


@JOINT
@pytest.mark.parametrize("order", [0, 1])
def test_features_drawn_apart(order, joint):
    limits = LIMITS._replace(max_leaf_nodes=16, n_drawn_features=3, n_tree_features=6)
    case = with_outputs(random_case(2, lengths=LENGTHS, order=order), 2)
    for seed in range(4):
        assert_same_apart([case] if joint else labels_alone(case), CUTS["three"], limits, seed)


@pytest.mark.parametrize("n_slots", [2, 3, 5, 9])
@JOINT
@pytest.mark.parametrize("order", [0, 1])
def test_few_histograms_apart(order, joint, n_slots, monkeypatch):
    limits = LIMITS._replace(max_leaf_nodes=20, min_samples_leaf=1)
    monkeypatch.setattr(nodes_module, "MIN_SLOTS", n_slots)
    for seed in range(3):
        case = with_outputs(random_case(seed, lengths=LENGTHS, order=order), seed)
        monkeypatch.setattr(nodes_module, "HISTOGRAM_BYTES", 1)
        _, _, growers = assert_same_apart([case] if joint else labels_alone(case), CUTS["three"], limits)
        assert all(len(grower.work.sums.cells) == n_slots for of_party in growers for grower in of_party)


@pytest.mark.parametrize(
    "change",
    [{"max_leaf_nodes": 1}, {"max_depth": 0}, {"max_depth": 2}, {"min_samples_leaf": 9}, {"l2_regularization": 0.0}],
    ids=str,
)
def test_limits_apart(change):
    case = with_outputs(random_case(1, lengths=LENGTHS), 1)
    assert_same_apart([case], CUTS["three"], LIMITS._replace(**change))


def test_growers_apart_use_threads():
    case = with_outputs(random_case(1, lengths=LENGTHS), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grower_module, "WORTH_A_THREAD", 0)
        patch.setattr("seqboost.trees.histogram.BLOCK_BYTES", 1)
        assert_same_apart([case], CUTS["two"], LIMITS, n_threads=2)


def test_weighted_rows_are_not_grown_apart():
    case = random_case(0, missing=0.3)
    with pytest.raises(ValueError, match="with a reducer, missing values"):
        Grower(Problem(case.columns, case.space, LIMITS), 1, policies_of(case.columns, SURROGATE), reducer=object())
