"""Weights of positions in ``fit`` and ``score``."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, log_loss
from treecrf_data import all_equal, chains, small

from seqboost import HMM, MEMM, FutureFeatureMEMM, Method, TreeCRF, as_batch
from seqboost.exceptions import InputError, ParameterError
from seqboost.sequences import sample_weights
from seqboost.training.dataset import Dataset

X, Y = chains(40, lengths=(2, 9), seed=1)
ONES = [[1.0] * len(labels) for labels in Y]


@pytest.mark.parametrize("potentials", ["joint", "factored"])
def test_ones_are_the_objective_of_single_positions(potentials):
    weighted = small(potentials=potentials).fit(X, Y, ONES)
    named = small(potentials=potentials, objective="position_likelihood").fit(X, Y)
    assert all_equal(weighted.predict_proba(X), named.predict_proba(X))
    assert weighted.method is None
    assert not all_equal(weighted.predict_proba(X), small(potentials=potentials).fit(X, Y).predict_proba(X))


def test_a_weight_for_all_positions_of_a_sequence_is_that_of_the_sequence():
    rng = np.random.default_rng(0)
    of_sequences = rng.integers(1, 4, size=len(X)).astype(float)
    of_positions = [np.full(len(labels), w) for labels, w in zip(Y, of_sequences, strict=True)]
    weighted = small().fit(X, Y, of_positions)
    named = small(objective="position_likelihood").fit(X, Y, of_sequences)
    for ours, theirs in zip(weighted.predict_proba(X), named.predict_proba(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_positions_without_weight_do_not_count():
    rng = np.random.default_rng(0)
    spoiled, weights = [], []
    for labels in Y:
        is_wrong = rng.random(len(labels)) < 0.5
        is_wrong[0] = False
        spoiled.append(
            [str(rng.choice(list("abc"))) if wrong else k for k, wrong in zip(labels, is_wrong, strict=True)]
        )
        weights.append(np.where(is_wrong, 0.0, 1.0))
    others = [
        ["c" if w == 0 else k for k, w in zip(labels, row, strict=True)]
        for labels, row in zip(spoiled, weights, strict=True)
    ]
    settings = {"order": 0, "max_iter": 8}
    one, other = (small(**settings).fit(X, y, weights) for y in (spoiled, others))
    assert all_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.score(X, Y) > small(**settings).fit(X, spoiled).score(X, Y)


@pytest.mark.parametrize("settings", [{}, {"init": "linear"}, {"potentials": "factored", "order": 2}], ids=str)
def test_labels_without_weight_are_unobserved(settings):
    rng = np.random.default_rng(0)
    weights = [(rng.random(len(labels)) < 0.5).astype(float) for labels in Y]
    unobserved = [[k if w else None for k, w in zip(*pair, strict=True)] for pair in zip(Y, weights, strict=True)]
    spoiled = [[k if w else "c" for k, w in zip(*pair, strict=True)] for pair in zip(Y, weights, strict=True)]
    model = small(**settings).fit(X, spoiled, weights, X_val=X, y_val=spoiled, sample_weight_val=weights)
    named = small(objective="position_likelihood", **settings).fit(X, unobserved, X_val=X, y_val=unobserved)
    assert all_equal(model.predict_proba(X), named.predict_proba(X))


@pytest.mark.parametrize("by_weight", [True, False])
def test_blocks_that_tell_nothing_are_not_held_out(by_weight):
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(3000, 2)) for _ in range(2)]
    labels = [np.where(part[:, 0] > 0, "a", "b").tolist() for part in rows]
    weights = [(np.arange(3000) < 700).astype(float), np.zeros(3000)]
    if not by_weight:
        labels, weights = [[*labels[0][:700], *[None] * 2300], [None] * 3000], None
    model = TreeCRF(max_iter=5, random_state=0, tune=False).fit(rows, labels, weights)
    assert model.best_iteration_ == 5
    assert -1 < model.best_score_ < -0.1


def test_labels_in_one_block_cannot_be_held_out():
    rows, labels = np.arange(3000.0)[:, None], ["a", "b"] * 20 + [None] * 2960
    with pytest.raises(ParameterError, match="it has labels in one block only, or"):
        TreeCRF(early_stopping=True).fit([rows], [labels])


def test_labels_without_weight_count_as_seen():
    y = [["start", *labels[1:]] for labels in Y]
    weights = [[0.0, *row[1:]] for row in ONES]
    model = small(transitions="seen").fit(X, y, weights)
    assert all(labels[0] == "start" for labels in model.predict(X))


def test_rows_of_a_table_in_any_order():
    rng = np.random.default_rng(0)
    table = pd.concat(
        [
            pd.DataFrame(x, columns=["a", "b"]).assign(who=i, when=range(len(x)), y=y)
            for i, (x, y) in enumerate(zip(X, Y, strict=True))
        ]
    )
    table["weight"] = rng.random(len(table))
    shuffled = table.sample(frac=1.0, random_state=0)
    settings = {"sequence": "who", "time": "when"}
    ordered, mixed = (
        small(**settings).fit(t[["a", "b", "who", "when"]], t["y"], t["weight"]) for t in (table, shuffled)
    )
    by_list = [table.loc[table.who == i, "weight"].to_numpy() for i in range(len(X))]
    listed = small(**settings).fit(table[["a", "b", "who", "when"]], table["y"], by_list)
    proba = ordered.predict_proba(table[["a", "b", "who", "when"]])
    assert np.array_equal(proba, mixed.predict_proba(table[["a", "b", "who", "when"]]))
    assert np.array_equal(proba, listed.predict_proba(table[["a", "b", "who", "when"]]))


def test_held_out_sequences_and_validation_data_have_theirs():
    weights = [np.linspace(0.1, 1.0, len(labels)) for labels in Y]
    stopped = small(early_stopping=True, max_iter=30, n_iter_no_change=3, class_weight={"a": 2.0}).fit(X, Y, weights)
    assert "validation_score" in stopped.history_
    given = small(max_iter=5, early_stopping=True).fit(
        X[:30], Y[:30], X_val=X[30:], y_val=Y[30:], sample_weight_val=weights[30:]
    )
    assert given._result.config.method.objective == "position_likelihood"


def test_sets_of_labels_have_no_weights_of_positions():
    sets = [[{"a", "b"}, *Y[0][1:]], *Y[1:]]
    match = r"weights of positions cannot train on sets .* y\[0\] .* give one weight for each sequence"
    with pytest.raises(InputError, match=match):
        small().fit(X, sets, ONES)


def test_held_out_parts_count_as_their_scores_do():
    weights = np.array([4.0, 4.0, 1.0, 1.0])
    data = Dataset(as_batch(["ab", "cd"]), np.zeros(4, np.int32), np.array([2.0, 1.0]), position_weights=weights)
    total, n_equal = data.n_judging()
    assert total == 6.0  # as the scores per position are divided by
    assert n_equal == pytest.approx(18**2 / (2 * 8**2 + 2))


def test_named_metrics_weigh_positions():
    rng = np.random.default_rng(0)
    weights = [rng.uniform(0.1, 3, size=len(labels)) for labels in Y]
    model = small().fit(X, Y, eval_set=[(X, Y)], sample_weight_val=weights, eval_metric=["log_loss", "macro_f1"])
    flat, true = np.concatenate(weights), np.concatenate(Y)
    loss = log_loss(true, np.concatenate(model.predict_proba(X)), sample_weight=flat)
    f1 = f1_score(true, np.concatenate(model.predict(X)), average="macro", sample_weight=flat)
    kept = model.best_iteration_
    assert model.history_["validation_log_loss"][kept] == pytest.approx(loss, abs=1e-5)
    assert model.history_["validation_macro_f1"][kept] == pytest.approx(f1, abs=1e-5)


def test_score_weighs_positions():
    model = small(max_iter=1).fit(X, Y)
    found = model.predict(X)
    weights = [np.where(labels == np.array(y), 2.0, 0.5) for labels, y in zip(found, Y, strict=True)]
    n_right = sum(int((w == 2.0).sum()) for w in weights)
    n_wrong = sum(map(len, Y)) - n_right
    assert model.score(X, Y, weights) == pytest.approx(2 * n_right / (2 * n_right + 0.5 * n_wrong))


def test_forms():
    batch = as_batch(["ab", "c"])
    assert sample_weights(None, batch).positions is None
    assert sample_weights(3.0, batch).sequences.tolist() == [3.0, 3.0]
    assert sample_weights(np.array([2.0, 1.0]), batch).positions is None
    for given in ([[1, 2], [3]], [np.array([1, 2]), (3,)], ([1, 2], [3.0])):
        assert sample_weights(given, batch).positions.tolist() == [1.0, 2.0, 3.0]
    assert sample_weights([[1, 2], [3]], batch).of_rows(batch).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([[1, 2], [3, 4]], r"In sample_weight, which has the form of y .* 2 sequences\): .*"),
        ([[1, 2]], "In sample_weight, which has the form of y"),
        ([[1, -2], [3]], r"The sample_weight at .*position 1.* is -2.0; weights must be finite"),
        ([[1, np.nan], [3]], "is nan; weights must be finite"),
        ([[1, 1e31], [3]], r"is 1e\+31; weights must be finite, not negative and at most 1e\+30"),
        ([[0, 0], [0]], "All sample weights are zero; at least one position"),
        ([["1", "2"], ["3"]], "sample_weight must hold one number"),
        ([1, 2, 3], "sample_weight has 3 weights but X has 2 sequences"),
        ([[[1, 2], [3]]], r"In sample_weight, which has the form of y .* 2 sequences\)"),
        ([[[1, 2], 3], [4]], "sample_weight must hold one number"),
        ([[[1, 2], [3, 4]], [[5, 6]]], r"nested too deeply: at .* an array of shape \(2,\); expected one number"),
    ],
)
def test_bad_weights(weights, match):
    with pytest.raises(InputError, match=match):
        sample_weights(weights, as_batch(["ab", "c"]))


@pytest.mark.parametrize("labeler", [HMM(), MEMM(), FutureFeatureMEMM()], ids=lambda labeler: type(labeler).__name__)
def test_other_labelers_take_weights_of_sequences(labeler):
    with pytest.raises(InputError, match=f"weights of positions, but {type(labeler).__name__} takes one number for"):
        labeler.fit(X, Y, ONES)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": Method(objective="pseudo_likelihood")}, {"method": Method(pseudo_likelihood_rounds=2)},
        {"method": Method(beam=2)}, {"method": Method(contexts="seen")}, {"min_duration": 2},
    ],
    ids=str,
)  # fmt: skip
def test_what_weights_of_positions_cannot_do(settings):
    with pytest.raises(ParameterError, match="sample_weight has weights of positions, which need objective="):
        small(**settings).fit(X, Y, ONES)
