"""The loop and its pieces: trees by threads, rounds that can be taken back, steps that never lead downhill."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from treecrf_data import chains, small

from seqboost.boosting import (
    Ascent,
    Boosting,
    Ensemble,
    Everything,
    Examples,
    FixedStep,
    History,
    SafeStep,
    Stopping,
    TreeFitter,
    boost,
    tree_columns,
)
from seqboost.boosting import loop as loop_module
from seqboost.boosting import steps as steps_module
from seqboost.boosting.ensemble import Round
from seqboost.core.contexts import ContextSpace, context_space
from seqboost.features import FeatureBinner
from seqboost.objectives import Likelihood
from seqboost.sequences import LabelCoder, as_batch
from seqboost.trees import Limits, Problem

BOTH = pytest.mark.parametrize("joint", [True, False])


class Workshop:
    """Binned rows, an objective and a fitter for the tests."""

    def __init__(self, joint, learning_rate=0.5, n_threads=1, order=1, seed=0, curvature="mixing", l2=1.0):
        X, y = chains(12, seed=seed)
        batch = as_batch(X)
        self.labels = LabelCoder().fit(y, batch)
        self.binned = FeatureBinner.fit(batch, max_bins=32, window=0, min_count=1).transform(batch)
        self.space = ContextSpace(3, order)
        self.n_slots = self.space.n_contexts if joint else 1
        self.objective = Likelihood(
            self.labels, batch.offsets, n_labels=3, order=order, joint=joint, curvature=curvature
        )
        limits = Limits(
            max_leaf_nodes=6, max_depth=6, min_samples_leaf=1, l2_regularization=l2, min_gain=0.0,
            one_against_rest=False, n_drawn_features=2,
        )  # fmt: skip
        self.fitter = TreeFitter(
            Problem(tree_columns(self.binned), context_space(3, order if joint else 0, batch.offsets), limits),
            shared=False, max_leaf_value=2.0, learning_rate=learning_rate, n_threads=n_threads,
        )  # fmt: skip
        n = batch.n_rows
        self.rows = np.arange(n, dtype=np.int32)
        sequence = np.repeat(np.arange(12), np.diff(batch.offsets))
        self.examples = Examples(self.labels, np.zeros(n, dtype=np.int32), sequence, n, n)
        self.history = History(np.ones(12, dtype=bool), np.ones(12))

    def ensemble(self):
        scores = np.zeros((3, len(self.rows), self.n_slots), dtype=np.float32)
        return Ensemble(scores, np.zeros((self.space.n_extended, 3)), n_threads=1)

    def round(self, ensemble):
        derivatives = self.objective.derivatives(ensemble.scores, ensemble.table)
        cells = zip(derivatives.gradient, derivatives.hessian, strict=True)
        samples = [Everything().draw(g, h, k, self.examples, 0) for k, (g, h) in enumerate(cells)]
        trees, leaves = self.fitter.fit(samples, [1, 2, 3])
        move = None
        if derivatives.table_gradient is not None:
            move = self.fitter.value(derivatives.table_gradient, derivatives.table_hessian)
        return Round((trees,), (leaves,), move)

    def task(self, max_iter=5, **changes):
        return replace(
            Boosting(self.objective, self.fitter, self.examples, Everything(), SafeStep(), max_iter, 0, 1), **changes
        )


def scores_of(ensemble):
    return ensemble.scores.copy(), ensemble.table.copy(), ensemble.kept(99)


def same(a, b):
    return np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) and a[2] == b[2]


@BOTH
def test_rounds_are_taken_back_to_the_bit(joint):
    shop = Workshop(joint)
    ensemble = shop.ensemble()
    ensemble.add(shop.round(ensemble), 1.0)
    before = scores_of(ensemble)
    second = shop.round(ensemble)
    ensemble.add(second, 1.0)
    assert not same(scores_of(ensemble), before)
    full = scores_of(ensemble)
    ensemble.undo()
    assert same(scores_of(ensemble), before)
    ensemble.add(second, 1.0)
    assert same(scores_of(ensemble), full)


@BOTH
def test_repeating_a_round_is_adding_it_with_that_step(joint):
    shop = Workshop(joint)
    repeated, direct = shop.ensemble(), shop.ensemble()
    first = shop.round(direct)
    repeated.add(first, 1.0)
    repeated.repeat(first, 0.5)
    repeated.repeat(first, 0.25)
    direct.add(first, 0.25)
    assert np.array_equal(repeated.scores, direct.scores)
    assert np.array_equal(repeated.table, direct.table)
    assert repeated.n_rounds == direct.n_rounds == 1
    for kept, grown in zip(repeated.kept(1)[0], first.bags[0], strict=True):
        assert np.array_equal(kept.value, grown.value * np.float32(0.25))
    repeated.undo()
    assert not repeated.scores.any()
    assert not repeated.table.any()
    assert repeated.n_rounds == 0


def test_scaled_trees():
    shop = Workshop(True)
    boosted = shop.round(shop.ensemble())
    assert boosted.scaled(1.0) is boosted.bags
    halved = boosted.scaled(0.5)[0]
    assert all(np.array_equal(a.value, b.value / 2) for a, b in zip(halved, boosted.bags[0], strict=True))
    assert all(a.words is b.words for a, b in zip(halved, boosted.bags[0], strict=True))


def test_values_are_newton_steps_with_a_cap():
    fitter = Workshop(True, learning_rate=0.5, l2=1.0).fitter
    gradient = np.array([1.0, -1.0, 100.0, -100.0, 0.0, 3.0])
    hessian = np.array([1.0, 3.0, 1.0, 0.0, 0.0, 0.5])
    assert fitter.value(gradient, hessian).tolist() == [0.25, -0.125, 1.0, -1.0, 0.0, 1.0]
    unregularised = Workshop(True, learning_rate=1.0, l2=0.0).fitter
    assert unregularised.value(np.array([0.0, 1e-9]), np.zeros(2)).tolist() == [0.0, 2.0]  # 0/0 and 1/0


@BOTH
def test_leaves_are_capped(joint):
    shop = Workshop(joint, learning_rate=1.0, l2=0.0, curvature="newton")
    ensemble = shop.ensemble()
    largest = 0.0
    for _ in range(12):
        boosted = shop.round(ensemble)
        ensemble.add(boosted, 1.0)
        largest = max(largest, *(float(np.abs(tree.value).max()) for tree in boosted.bags[0]))
    assert largest == 2.0


@BOTH
def test_threads_grow_the_same_trees(joint):
    alone, together = Workshop(joint, n_threads=1), Workshop(joint, n_threads=3)
    a, b = alone.round(alone.ensemble()), together.round(together.ensemble())
    for one, other in zip(a.bags[0], b.bags[0], strict=True):
        for name in ("kind", "feature", "words", "left", "right", "value", "leaf_rows"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


@BOTH
def test_too_long_a_step_is_halved_until_the_likelihood_does_not_fall(joint):
    shop = Workshop(joint, learning_rate=20.0)
    ensemble = shop.ensemble()
    boost(shop.task(15), ensemble, shop.history)
    first = 1.0 if joint else steps_module.TWO_BLOCKS
    steps = np.array(shop.history.step[1:])
    assert np.all(np.diff(shop.history.train_score) >= 0)
    assert steps.min() < first
    assert np.all(steps > 0)
    assert np.all(steps[1:] <= np.maximum(first, steps_module.STEP_GROWTH * steps[:-1]) + 1e-12)
    assert ensemble.n_rounds == len(steps)
    unsafe = Workshop(joint, learning_rate=20.0)
    boost(unsafe.task(15, step=FixedStep()), unsafe.ensemble(), unsafe.history)
    assert np.any(np.diff(unsafe.history.train_score) < 0)  # or else there was nothing to be halved
    assert set(unsafe.history.step[1:]) == {first}


@BOTH
def test_the_step_taken_is_the_largest_that_does_not_fall(joint):
    shop = Workshop(joint, learning_rate=20.0)
    ensemble, n_tested = shop.ensemble(), 0
    for _ in range(15):
        before = shop.objective.log_likelihood(ensemble.scores, ensemble.table).sum()
        boosted = shop.round(ensemble)
        derivatives = shop.objective.derivatives(ensemble.scores, ensemble.table)
        stepped = SafeStep().take(Ascent(ensemble, boosted, shop.objective, derivatives, shop.history, 1))
        if stepped is None:
            break
        step, taken = stepped[0], scores_of(ensemble)
        if step < (1.0 if joint else steps_module.TWO_BLOCKS):
            ensemble.repeat(boosted, 2 * step)
            assert shop.objective.log_likelihood(ensemble.scores, ensemble.table).sum() < before
            ensemble.repeat(boosted, step)
            assert np.array_equal(ensemble.scores, taken[0])
            n_tested += 1
    assert n_tested > 0


@BOTH
def test_the_bound_of_mixing_hardly_ever_needs_a_step_below_the_first(joint):
    shop = Workshop(joint, learning_rate=1.0)
    boost(shop.task(40), shop.ensemble(), shop.history)
    first = 1.0 if joint else steps_module.TWO_BLOCKS
    assert len(shop.history.step) == 41
    assert np.mean(np.array(shop.history.step[1:]) >= first) > 0.9


@BOTH
def test_steps_grow_up_to_newtons_share_and_no_further(joint, monkeypatch):
    monkeypatch.setattr(steps_module, "TOLERATED_CAUTION", 2.0)
    shop = Workshop(joint, learning_rate=0.1)
    ensemble = shop.ensemble()
    first = 1.0 if joint else steps_module.TWO_BLOCKS
    for _ in range(12):
        derivatives = shop.objective.derivatives(ensemble.scores, ensemble.table)
        limit = first * max(1.0, derivatives.caution / 2.0)
        boosted = shop.round(ensemble)
        step = SafeStep().take(Ascent(ensemble, boosted, shop.objective, derivatives, shop.history, 1)).step
        last = shop.history.step[-1] if shop.history.step else 0.0
        assert step <= limit * (1 + 1e-5)
        assert step == pytest.approx(min(max(first, steps_module.STEP_GROWTH * last), max(limit, first)), rel=1e-5)
        shop.history.lists.setdefault("step", []).append(step)
    assert step > first


def test_a_round_that_only_harms_is_dropped_and_ends_the_training():
    shop = Workshop(True)

    class Backwards:
        """Trees that point downhill at every step."""

        value = shop.fitter.value
        draw = shop.fitter.draw
        n_trees = shop.fitter.n_trees

        def fit(self, samples, seeds):
            trees, leaves = shop.fitter.fit(samples, seeds)
            return tuple(replace(tree, value=-tree.value) for tree in trees), leaves

    ensemble = shop.ensemble()
    boost(shop.task(5), ensemble, shop.history)
    before, n_entries = scores_of(ensemble), len(shop.history.train_score)
    boost(shop.task(9, fitter=Backwards()), ensemble, shop.history, n_earlier=5)
    assert same(scores_of(ensemble), before)
    assert len(shop.history.train_score) == n_entries


@BOTH
def test_the_likelihood_of_the_record_is_that_of_the_scores(joint):
    shop = Workshop(joint)
    ensemble = shop.ensemble()
    kept = boost(shop.task(4), ensemble, shop.history)
    assert kept.table is ensemble.table
    assert kept.n_rounds == ensemble.n_rounds == 4
    found = shop.objective.log_likelihood(ensemble.scores, ensemble.table).sum() / len(shop.rows)
    assert shop.history.train_score[-1] == pytest.approx(found)
    assert len(shop.history.train_score) == len(shop.history.step) == len(shop.history.lists["seconds"]) == 5
    assert shop.history.step[0] == shop.history.lists["seconds"][0] == 0


def test_the_table_of_the_best_round_is_returned():
    shop = Workshop(False, learning_rate=1.0)
    history = History(np.arange(12) < 8, np.ones(12))
    weights = np.where(np.arange(12) < 8, 1.0, 0.0)
    objective = Likelihood(shop.labels, shop.binned.offsets, n_labels=3, order=1, joint=False, sequence_weights=weights)
    n_fitted = int(shop.binned.offsets[8])
    tables = []
    ensemble = shop.ensemble()
    kept = boost(
        shop.task(
            25, objective=objective, examples=shop.examples._replace(n_fitted=n_fitted), stopping=Stopping(4, 0.0),
            callbacks=[lambda progress: tables.append(ensemble.table)],
        ),
        ensemble,
        history,
    )  # fmt: skip
    best = int(np.argmax(history.validation_score))
    assert 0 < best == len(tables) - 4 < 25
    assert kept.n_rounds == best
    assert kept.table is tables[best - 1]


def test_draws_depend_on_seed_round_and_label_alone():
    seeds = [loop_module._seed(*numbers) for numbers in itertools.product(range(3), repeat=4)]
    assert len(set(seeds)) == 81
    assert loop_module._seed(1, 2, 0, 1) == loop_module._seed(1, 2, 0, 1)


def test_features_are_sorted_by_displacement_for_the_kernels():
    X, y = chains(4, n_columns=3)
    model = small(window={"x0": 1, "*": 0}).fit(X, y)
    binned = model._result.model.binner.transform(as_batch(X))
    dense, _ = tree_columns(binned)
    assert np.all(np.diff(dense.displacement) > 0)
    assert np.array_equal(binned.layout.displacement, dense.displacement)
    assert len(dense.displacement) == 5
    assert np.array_equal(np.diff(dense.cell_start), dense.n_values + 2)
