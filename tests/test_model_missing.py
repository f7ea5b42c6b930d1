"""The frozen forest of trees with policies for missing values: scores of training, reference, file, damage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqboost.core.missing import INSTANCE_WEIGHTING, SURROGATE
from seqboost.exceptions import ModelFileError
from seqboost.model import Forest, forest_scores
from seqboost.model.forest import ROUTE_DTYPES
from seqboost.model.reference import reference_scores
from seqboost.trees import LAG, SPARSE, Grower, Problem
from tests.support.trees import (
    CATEGORICAL,
    LACKING,
    LIMITS,
    NUMERIC,
    ORDERED,
    SUBSET,
    as_binned,
    leaf_value,
    policies_of,
    random_case,
    same_tree,
    with_outputs,
)

POLICIES = {"weighting": INSTANCE_WEIGHTING, "surrogate": SURROGATE, "mixed": -1}
N_ROUNDS = 3


def grower_of(case, policy, seed, n_outputs, limits=LIMITS):
    policies = policies_of(case.columns, POLICIES[policy], seed)
    return Grower(Problem(case.columns, case.space, limits), n_outputs, policies)


def trained(policy, seed=0, *, limits=LIMITS, **shape):
    """Trees of a few rounds for all labels, and the scores that their leaves give the rows."""
    case = random_case(seed, **{"missing": 0.2, "n_riders": 6, "n_labels": 2, **shape})
    grower = grower_of(case, policy, seed, 1, limits)
    scores = np.zeros((case.n_labels, *case.gradient.shape[1:]), dtype=np.float32)
    rng, rounds = np.random.default_rng(seed), []
    for _ in range(N_ROUNDS):
        rounds.append([])
        for k in range(case.n_labels):
            gradient = (case.gradient + rng.normal(size=case.gradient.shape) * (case.hessian > 0)).astype(np.float32)
            tree, leaves = grower.grow(gradient, case.hessian, case.rows, case.n_fitted, leaf_value(0.5))
            new = np.zeros_like(scores[k : k + 1])
            leaves.add(tree.value, scores[k : k + 1], new)
            scores[k] = new[0]
            rounds[-1].append(replace(tree, value=tree.value[:, 0]))
    return case, Forest.from_trees(rounds, case.n_labels, case.order), scores


def trained_shared(policy, seed=0, **shape):
    """The same of shared trees."""
    case = random_case(seed, **{"missing": 0.2, "n_riders": 6, "n_labels": 3, **shape})
    grower = grower_of(case, policy, seed, case.n_labels)
    scores = np.zeros((case.n_labels, *case.gradient.shape[1:]), dtype=np.float32)
    rounds = []
    for r in range(N_ROUNDS):
        all_labels = with_outputs(case, seed=r)
        tree, leaves = grower.grow(
            all_labels.gradient, all_labels.hessian, case.rows, case.n_fitted, leaf_value(0.5)
        )  # fmt: skip
        new = np.zeros_like(scores)
        leaves.add(tree.value, scores, new)
        scores = new
        rounds.append([tree])
    return case, Forest.from_trees(rounds, case.n_labels, case.order), scores


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_scores_of_shared_trees_are_those_of_training(policy, order):
    for shape in ({}, {"missing": 0.0}, {"missing": 0.02}, {"slots": ((LACKING, 2, 0), (LACKING, 5, 2))}):
        case, forest, scores = trained_shared(policy, order=order, **shape)
        binned = as_binned(case)
        exists = np.broadcast_to(case.hessian > 0, scores.shape)
        np.testing.assert_array_equal(reference_scores(forest, binned)[exists], scores[exists])
        for method in ("auto", "masks", "traverse"):
            found = forest_scores(Forest.from_arrays(forest.to_arrays()), binned, 2, method=method)
            np.testing.assert_array_equal(found[exists], scores[exists])


def same_routes(first, second):
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in ROUTE_DTYPES)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_scores_are_those_of_training(policy, order):
    case, forest, scores = trained(policy, order=order)
    binned = as_binned(case)
    np.testing.assert_array_equal(reference_scores(forest, binned), scores)
    for method in ("auto", "masks", "traverse"):
        for n_threads in (1, 2):
            np.testing.assert_array_equal(forest_scores(forest, binned, n_threads, method=method), scores)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "shape",
    [
        {"columns": ((NUMERIC, 8), (CATEGORICAL, 4)), "slots": (), "sparse_window": (), "missing": 0.6},
        {"columns": (), "window": (), "slots": ((SUBSET, 90, 0), (SUBSET, 7, 0))},
        {"columns": ((NUMERIC, 3),), "slots": ((ORDERED, 1, 0), (ORDERED, 5, 0), (SUBSET, 5, 0)), "missing": 0.01},
        {"columns": (), "window": (), "slots": ((LACKING, 2, 0), (LACKING, 5, 0), (LACKING, 6, 3), (SUBSET, 6, 0))},
        {"lengths": (1,) * 40},
        {"n_labels": 1},
        {"missing": 0.0},
        {"limits": LIMITS._replace(max_leaf_nodes=80, min_samples_leaf=1), "lengths": (90, 40), "missing": 0.05},
    ],
    ids=["dense", "wide", "rarely missing", "sparse", "length one", "one label", "complete", "large trees"],
)
def test_scores_of_each_kind_of_feature(policy, shape):
    for seed in range(2):
        case, forest, scores = trained(policy, seed, **shape)
        binned = as_binned(case)
        np.testing.assert_array_equal(reference_scores(forest, binned), scores)
        np.testing.assert_array_equal(forest_scores(forest, binned), scores)
        start = np.random.default_rng(seed).normal(size=(*scores.shape[:2], 1)).astype(np.float32)
        np.testing.assert_allclose(forest_scores(forest, binned, start=start), scores + start, atol=1e-5)


@pytest.mark.parametrize("policy", ["weighting", "surrogate"])
def test_values_may_be_missing_at_prediction_alone(policy):
    """Columns that were complete in training, then lack some values, or all."""
    slots = ((ORDERED, 1, 0),)
    _, forest, _ = trained(policy, missing=0.0, slots=slots)
    assert (forest.routes.share > 0).any() or len(forest.routes.surrogate_kind) > 0
    for missing in (0.3, 1.0):
        binned = as_binned(random_case(1, missing=missing, slots=slots, n_labels=2))
        np.testing.assert_array_equal(forest_scores(forest, binned), reference_scores(forest, binned))
        assert np.isfinite(forest_scores(forest, binned)).all()


def test_a_row_without_any_value_gets_the_mean_of_the_leaves_by_their_shares():
    """With instance weighting and no context, Σ w·value over all leaves: what the tree gives on average."""
    case, forest, _ = trained("weighting", missing=0.0, slots=(), order=0, n_labels=1, window=(0,), n_riders=0)
    lacking = as_binned(case)
    lacking.codes = np.zeros(int(lacking.layout.displacement.max()) + 1, dtype=np.uint8)
    lacking.codes[lacking.layout.displacement] = lacking.layout.n_values
    lacking.address = np.zeros(case.gradient.size, dtype=np.int64)
    mean = sum((tree.leaf_rows * tree.value).sum() / tree.leaf_rows.sum() for (tree,) in forest.to_trees())
    np.testing.assert_allclose(forest_scores(forest, lacking), mean, rtol=1e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_forest_keeps_routes(policy):
    case, forest, scores = trained(policy)
    rounds = forest.to_trees()
    again = Forest.from_trees(rounds, case.n_labels, case.order)
    assert same_routes(again.routes, forest.routes)
    halves = Forest.from_trees(rounds[:1], case.n_labels, case.order).extend(rounds[1:])
    assert same_routes(halves.routes, forest.routes)
    read = Forest.from_arrays(forest.to_arrays())
    assert same_routes(read.routes, forest.routes)
    np.testing.assert_array_equal(forest_scores(read, as_binned(case)), scores)
    for tree, other in zip(forest.truncate(1).to_trees()[0], rounds[0], strict=True):
        assert same_tree(tree, other)
        assert same_routes(tree.routes, other.routes)


def test_forests_with_and_without_routes_are_joined():
    case, forest, _ = trained("weighting")
    _, usual, _ = trained("weighting", missing=0.0, slots=())
    plain = Forest.from_trees([[None] * 2], 2, 1)
    assert plain.routes is None
    assert "share" not in plain.to_arrays()
    joined = plain.extend(forest.to_trees())
    assert same_routes(joined.routes, forest.routes)
    assert usual.routes is not None


@pytest.mark.parametrize(
    ("name", "damage", "complaint"),
    [
        ("share", lambda x: np.full_like(x, np.nan), "between 0 and 1"),
        ("share", lambda x: np.full_like(x, 1.0), "between 0 and 1"),
        ("share", lambda x: x[1:], "one entry for each split"),
        ("share", lambda x: x.astype(np.float64), "expected one dimension of float32"),
        ("share", lambda x: None, "the array 'share' is missing"),
        ("surrogate_start", lambda x: x + 1, "does not rise from 0"),
        ("surrogate_start", lambda x: x[1:], "entries, expected"),
        ("surrogate_kind", lambda x: np.full_like(x, LAG), "unknown kind"),
        ("surrogate_kind", lambda x: x[1:], "does not have an entry for each"),
        ("surrogate_feature", lambda x: np.full_like(x, -1), "negative number"),
        ("surrogate_word_start", lambda x: x[::-1].copy(), "does not rise from 0"),
        ("surrogate_words", lambda x: x[1:], "does not rise from 0"),
    ],
)
def test_damaged_routes_are_refused(name, damage, complaint):
    _, forest, _ = trained("surrogate")
    arrays = forest.to_arrays()
    arrays[name] = damage(arrays[name])
    with pytest.raises(ModelFileError, match=complaint):
        Forest.from_arrays(arrays)


def test_shares_of_lag_splits_are_refused():
    _, forest, _ = trained("weighting", order=1)
    assert (forest.kind == LAG).any()
    arrays = forest.to_arrays()
    arrays["share"] = np.full_like(arrays["share"], 0.5)
    with pytest.raises(ModelFileError, match="a lag split has a share"):
        Forest.from_arrays(arrays)


def test_surrogates_that_the_data_do_not_have_are_refused():
    case, forest, _ = trained("surrogate")
    arrays = forest.to_arrays()
    arrays["surrogate_feature"] = np.full_like(arrays["surrogate_feature"], 99)
    with pytest.raises(ModelFileError, match="surrogate 0 of the forest tests window feature 99"):
        forest_scores(Forest.from_arrays(arrays), as_binned(case))
    arrays = forest.to_arrays()
    of_sparse = arrays["surrogate_kind"] == SPARSE
    arrays["surrogate_word_start"] = np.concatenate([[0], np.cumsum(np.where(of_sparse, 2, 4))])
    arrays["surrogate_words"] = np.zeros(arrays["surrogate_word_start"][-1], dtype=np.uint64)
    with pytest.raises(ModelFileError, match="a surrogate of the forest holds a left set of another size"):
        forest_scores(Forest.from_arrays(arrays), as_binned(case))
