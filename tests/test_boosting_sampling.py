"""Samples: what they draw, against slow twins, and that they keep to their rates and are right on average."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import from_python
from treecrf_data import all_equal, chains, small

from seqboost.boosting import Everything, Examples, Goss, Sequences, Stratified, Trimmed, Uniform, drawing
from seqboost.boosting import reference as twins
from seqboost.boosting.sampling import SALT
from seqboost.exceptions import ParameterError
from seqboost.trees.samples import gather_cells

SHARES = [0.6, 0.3, 0.1]


def cells(n=400, n_contexts=3, n_labels=3, n_held_out=20, seed=0):
    """Return gradients, curvatures and what a sampler may know, for a chain of random labels."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(n_labels, n + n_held_out, p=SHARES[:n_labels] if n_labels == 3 else None).astype(np.int32)
    slot = np.append(0, labels[:-1]).astype(np.int32) if n_contexts > 1 else np.zeros(n + n_held_out, np.int32)
    gradient = rng.normal(size=(n + n_held_out, n_contexts)).astype(np.float32)
    hessian = rng.random((n + n_held_out, n_contexts)).astype(np.float32) + 0.1
    examples = Examples(labels, slot, np.repeat(np.arange((n + n_held_out) // 10 + 1), 10), n, n + n_held_out)
    return gradient, hessian, examples


def drawn(sampler, gradient, hessian, label, examples, seed=0):
    """Draw; return the fitted rows and their weighted derivatives, (n_fitted, n_contexts) each."""
    sample = sampler.draw(gradient, hessian, label, examples, seed)
    fitted = sample.fitted
    shape = (1, fitted.n_fitted, gradient.shape[1])
    new = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
    gather_cells(gradient[None], hessian[None], fitted, *new)
    return fitted.rows[: fitted.n_fitted], new[0][0], new[1][0]


SAMPLERS = [
    Everything(), Uniform(0.3), Uniform(1.0), Sequences(0.3), Stratified(1, 3), Stratified(0.5, 0.5),
    Stratified(1, 2, by_label=True), Stratified(balanced=True), Trimmed(below=0.5), Trimmed(share=0.2), Goss(),
    Goss(0.5, 0.5),
]  # fmt: skip


@pytest.mark.parametrize("n_contexts", [1, 3])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_a_sample_has_every_row_once_and_leaves_the_derivatives_alone(sampler, n_contexts):
    gradient, hessian, examples = cells(n_contexts=n_contexts)
    before = gradient.copy(), hessian.copy()
    sample = sampler.draw(gradient, hessian, 1, examples, 0)
    assert np.array_equal(gradient, before[0])
    assert np.array_equal(hessian, before[1])
    rows, n_fitted, weight = sample.fitted
    assert rows.dtype == np.int32
    assert rows.tolist() == twins.arranged(rows[:n_fitted].tolist(), 420)
    assert rows[-20:].tolist() == list(range(400, 420))  # validation rows ride along
    assert weight.dtype == np.float32
    assert weight.shape[0] == n_fitted
    assert weight.shape[1] in (0, 1, n_contexts)
    again = sampler.draw(gradient, hessian, 1, examples, 0)
    assert all(np.array_equal(a, b) for a, b in zip(sample.fitted, again.fitted, strict=True))


@pytest.mark.parametrize("sampler", [Uniform(0.3), Sequences(0.3), Stratified(1, 3), Goss()], ids=str)
def test_other_seeds_draw_other_rows(sampler):
    gradient, hessian, examples = cells(n_contexts=1)
    rows = {drawn(sampler, gradient, hessian, 2, examples, seed)[0].tobytes() for seed in range(20)}
    assert len(rows) == 20


@pytest.mark.parametrize(("n", "n_wanted"), [(1, 1), (7, 1), (7, 7), (50, 20), (1000, 999)])
@pytest.mark.parametrize("seed", [0, 1, 2**63 + 5, 2**64 - 1])
def test_selection_is_that_of_the_twin(n, n_wanted, seed):
    taken = np.full(n, -1, dtype=np.int32)
    drawing.take(n, n_wanted, np.uint64(seed), taken)
    expected = twins.selected(range(n), n_wanted, [twins.split_mix(seed, i) for i in range(n)])
    assert taken[:n_wanted].tolist() == expected
    number = from_python(drawing.random_number)(np.uint64(seed), n)
    assert int(number) >> 32 == twins.split_mix(seed, n) * 2**32


def test_every_row_and_every_pair_has_the_same_chance():
    n, n_wanted, n_draws = 6, 3, 20_000
    together = np.zeros((n, n))
    taken = np.empty(n, dtype=np.int32)
    for seed in range(n_draws):
        drawing.take(n, n_wanted, np.uint64(seed * 0x9E3779B1), taken)
        together[np.ix_(taken[:n_wanted], taken[:n_wanted])] += 1
    alone, pairs = np.diag(together) / n_draws, together[~np.eye(n, dtype=bool)] / n_draws
    assert np.all(np.abs(alone - 0.5) < 5 * 0.5 / np.sqrt(n_draws))
    assert np.all(np.abs(pairs - 0.2) < 5 * 0.4 / np.sqrt(n_draws))


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 1.0])
def test_shares_are_exact(rate):
    gradient, hessian, examples = cells()
    rows, new_gradient, _ = drawn(Uniform(rate), gradient, hessian, 0, examples)
    assert len(rows) == max(1, round(rate * 400))
    assert np.array_equal(new_gradient, gradient[rows])
    rows, _, new_hessian = drawn(Sequences(rate), gradient, hessian, 0, examples)
    n_sequences = max(1, round(rate * 40))
    assert len(rows) == 10 * n_sequences
    assert len(np.unique(examples.sequence[rows])) == n_sequences
    assert np.array_equal(new_hessian, hessian[rows])


def test_sequences_of_any_length():
    lengths = [1, 7, 1, 1, 30, 2]
    sequence = np.repeat(np.arange(6), lengths)
    rows = np.empty(40, dtype=np.int32)  # the last sequence is held out
    for chosen in ([0], [1, 4], [2, 3], [0, 1, 2, 3, 4]):
        n = drawing.take_marked(sequence, np.array(chosen, dtype=np.int32), rows)
        assert rows[:n].tolist() == np.flatnonzero(np.isin(sequence, chosen)).tolist()


def taken(rows, new_hessian, examples, label):
    """Return the numbers of positive and negative cells that weigh something in a sample."""
    weighs = new_hessian > 0
    is_positive = np.zeros_like(weighs)
    at = np.flatnonzero(examples.labels[rows] == label)
    is_positive[at, examples.slot[rows[at]]] = True
    return int((weighs & is_positive).sum()), int((weighs & ~is_positive).sum())


@pytest.mark.parametrize("label", [0, 1, 2])
def test_strata_have_the_sizes_of_the_scheme(label):
    gradient, hessian, examples = cells(4000)
    n_positive = int((examples.labels[:4000] == label).sum())
    n_negative = 3 * 4000 - n_positive
    for text, positive, negative in (
        ("1p/3n", n_positive, 3 * n_positive),
        ("0.5p/0.5n", n_positive / 2, n_negative / 2),
        ("1p/0.25n", n_positive, n_negative / 4),
        ("1p/1n", n_positive, n_negative),
    ):
        rows, _, new_hessian = drawn(Stratified.parse(text), gradient, hessian, label, examples)
        found = taken(rows, new_hessian, examples, label)
        assert found[0] == pytest.approx(positive, abs=1)
        assert found[1] == pytest.approx(min(negative, n_negative), rel=0.03)


STRATA = [
    Stratified(1, 3), Stratified(0.5, 0.5), Stratified(0.3, 2), Stratified(1, 2, by_label=True),
    Stratified(0.2, 0.4, by_label=True), Stratified(balanced=True), Stratified(0.7, 1.5, balanced=True),
]  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 60])
@pytest.mark.parametrize("n_contexts", [1, 3])
@pytest.mark.parametrize("sampler", STRATA, ids=str)
def test_strata_are_those_of_the_twin(sampler, n_contexts, n):
    for seed in range(4):
        gradient, hessian, examples = cells(n, n_contexts, seed=seed)
        labels = examples.labels[:n]
        labels[np.random.default_rng(seed).random(n) < 0.1] = -1
        for label in range(3):
            n_positive = int((labels == label).sum())
            rows, new_gradient, new_hessian = drawn(sampler, gradient, hessian, label, examples, seed)
            if n_positive == 0:  # nothing to contrast with
                assert len(rows) == n
                continue
            n_drawn = max(1, round(sampler.positive * n_positive))
            count = np.bincount(labels + 1, minlength=label + 2)
            wanted = n_drawn, sampler.rows_wanted(count, n_positive, n_contexts)[0].tolist()
            strata = labels, examples.slot, label, n_contexts, wanted, seed ^ SALT
            expected = twins.strata_choice(*strata)
            is_positive = (labels == label)[:, None] & (examples.slot[:n, None] == np.arange(n_contexts))
            if sampler.balanced and any(not is_positive[i, c] for i, w in expected.items() for c in np.flatnonzero(w)):
                expected = twins.strata_choice(*strata, twins.balanced_weights(expected, is_positive))
                assert new_hessian is not hessian
            elif sampler.balanced:
                continue
            assert rows.tolist() == list(expected)
            weight = np.array(list(expected.values()), dtype=np.float32)
            assert np.array_equal(new_gradient, gradient[rows] * weight)
            assert np.array_equal(new_hessian, hessian[rows] * weight)


def test_every_negative_cell_has_the_chance_of_the_scheme():
    gradient, hessian, examples = cells(60)
    times = np.zeros((60, 3))
    for seed in range(600):
        rows, _, new_hessian = drawn(Stratified(0.5, 0.25), gradient, hessian, 1, examples, seed)
        times[rows] += new_hessian > 0
    at = np.flatnonzero(examples.labels[:60] == 1)
    expected = np.full((60, 3), 15 / 60)
    expected[at, examples.slot[at]] = round(len(at) / 2) / len(at)
    assert np.all(np.abs(times / 600 - expected) < 5 * 0.5 / np.sqrt(600))


def test_strata_by_label_draw_the_same_number_from_each():
    gradient, hessian, examples = cells(20000)
    rows, _, new_hessian = drawn(Stratified(1, 2, by_label=True), gradient, hessian, 2, examples)
    negative = rows[(new_hessian > 0).sum(axis=1) >= 2]  # positions whose negative cells were drawn
    count = np.bincount(examples.labels[negative], minlength=3)
    assert count.max() - count.min() <= 1


def test_balanced_examples_weigh_the_same():
    gradient, _, examples = cells(2000)
    ones = np.ones_like(gradient)
    for label in range(3):
        rows, _, weight = drawn(Stratified(balanced=True), gradient, ones, label, examples)
        assert len(rows) == 2000
        at = np.flatnonzero(examples.labels[:2000] == label)
        positive = weight[at, examples.slot[at]].sum()
        assert positive == pytest.approx(weight.sum() - positive, rel=1e-4)
        assert weight.sum() == pytest.approx(3 * 2000, rel=1e-4)


def test_a_label_without_examples_in_the_sample_gets_all():
    gradient, hessian, examples = cells(50, seed=3)
    examples = examples._replace(labels=np.zeros_like(examples.labels))
    rows, _, new_hessian = drawn(Stratified(1, 3), gradient, hessian, 2, examples)
    assert rows.tolist() == list(range(50))
    assert np.array_equal(new_hessian, hessian[:50])


def test_all_positive_and_all_negative_examples_are_all_examples():
    gradient, hessian, examples = cells()
    assert Stratified.parse("1p/1n").draw(gradient, hessian, 0, examples, 0).fitted.is_whole


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e20])
@pytest.mark.parametrize("n_labels", [1, 4])
def test_trimming_is_that_of_the_twin(n_labels, scale):
    rng = np.random.default_rng(0)
    n, n_contexts = 70, 3
    gradient = (scale * rng.normal(size=(n_labels, n + 5, n_contexts)) ** 3).astype(np.float32)
    gradient[:, 10:20] = 0.0
    gradient[:, n:] = 1e6 * scale  # held out
    shape = (n + 5, n_contexts) if n_labels == 1 else gradient.shape
    derivatives = gradient.reshape(shape), np.ones(shape, np.float32)
    zeros = np.zeros(n + 5, dtype=np.int32)
    examples = Examples(zeros, zeros, np.arange(n + 5), n, n + 5)
    influence = np.abs(np.moveaxis(gradient[:, :n], 0, 1).reshape(n, -1))
    for sampler in (Trimmed(share=0.3), Trimmed(share=0.01), Trimmed(share=1.0), Trimmed(below=0.4)):
        threshold = 0.4
        if sampler.share is not None:
            threshold = twins.trimming_threshold(np.abs(gradient[:, :n]), sampler.share)
            assert sampler.threshold(gradient, n) == threshold
        rows, n_fitted, weight = sampler.draw(*derivatives, -1, examples, 0).fitted
        expected = twins.trimmed_choice(influence, threshold)
        if expected:
            assert rows[:n_fitted].tolist() == list(expected)
            assert weight.tolist() == list(expected.values())
        else:
            assert n_fitted == n


def test_trimming_drops_small_gradients_only():
    gradient, hessian, examples = cells(5000)
    rows, new_gradient, new_hessian = drawn(Trimmed(share=0.2), gradient, hessian, 0, examples)
    lost = 1 - np.abs(new_gradient).sum() / np.abs(gradient[:5000]).sum()
    assert 0.19 < lost <= 0.2
    largest_lost = np.abs(gradient[rows][new_hessian == 0]).max()
    assert largest_lost <= np.abs(new_gradient[new_hessian > 0]).min()


def test_nothing_to_trim_by():
    gradient, hessian, examples = cells()
    for sampler in (Trimmed(share=0.2), Trimmed(below=0.2)):
        rows, _, new_hessian = drawn(sampler, 0 * gradient, hessian, 0, examples)
        assert len(rows) == 400
        assert np.array_equal(new_hessian, hessian[:400])


@pytest.mark.parametrize("n", [1, 2, 5, 300])
def test_the_kth_largest(n):
    rng = np.random.default_rng(n)
    counts = np.full(drawing.DIGIT, 99, dtype=np.int64)
    for values in (rng.random(n), rng.integers(4, size=n), 1e30 * rng.random(n) ** 40, np.zeros(n)):
        numbers = values.astype(np.float32)
        for k in {1, (n + 1) // 2, n}:
            bits, n_equal = drawing.kth_largest(numbers.view(np.uint32), k, counts)
            largest = np.sort(numbers)[::-1]
            assert np.uint32(bits).view(np.float32) == largest[k - 1]
            assert n_equal == int((largest[:k] == largest[k - 1]).sum())


@pytest.mark.parametrize("n_labels", [1, 4])
@pytest.mark.parametrize("n_values", [2, 1000])  # many equal ones, and few
def test_goss_is_that_of_the_twin(n_values, n_labels):
    rng = np.random.default_rng(0)
    n = 90
    gradient = (rng.integers(-n_values, n_values + 1, size=(n_labels, n + 5, 2)) / 1024).astype(np.float32)
    shape = (n + 5, 2) if n_labels == 1 else gradient.shape
    derivatives = gradient.reshape(shape), np.ones(shape, np.float32)
    zeros = np.zeros(n + 5, dtype=np.int32)
    examples = Examples(zeros, zeros, np.arange(n + 5), n, n + 5)
    influence = np.abs(gradient[:, :n]).sum(axis=(0, 2))  # exact: all are multiples of 1/1024
    found = np.full(n, np.nan, dtype=np.float32)
    drawing.row_influence(gradient, found)
    assert np.array_equal(found, influence)
    for sampler, n_top, n_other in ((Goss(), 18, 9), (Goss(0.5, 0.25), 45, 22), (Goss(0.001, 0.001), 1, 1)):
        for seed in range(5):
            rows, n_fitted, weight = sampler.draw(*derivatives, -1, examples, seed).fitted
            expected = twins.goss_choice(influence, n_top, n_other, seed ^ SALT)
            assert rows[:n_fitted].tolist() == list(expected)
            np.testing.assert_allclose(weight[:, 0], list(expected.values()), rtol=1e-6)


def test_goss_is_right_on_average():
    gradient, hessian, examples = cells(1000)
    influence = np.abs(gradient[:1000]).sum(axis=1)
    top = set(np.argsort(influence)[-200:])
    sums = []
    for seed in range(300):
        rows, new_gradient, new_hessian = drawn(Goss(0.2, 0.1), gradient, hessian, 0, examples, seed)
        assert top <= set(rows.tolist())
        assert len(rows) == 300
        sums.append((new_gradient.sum(), new_hessian.sum()))
    expected = gradient[:1000].sum(), hessian[:1000].sum()
    error = np.std(sums, axis=0) / np.sqrt(300)
    assert np.all(error > 0)
    assert np.all(np.abs(np.mean(sums, axis=0) - expected) < 4 * error)


@pytest.mark.parametrize("sampling", [0.4, Sequences(0.5), "goss", Trimmed(share=0.1)], ids=str)
@pytest.mark.parametrize("trees", ["per_label", "shared"])
@pytest.mark.parametrize("forms", [{}, {"max_leaf_nodes": 70, "min_samples_leaf": 1}], ids=str)
def test_scores_of_rows_outside_the_sample_are_the_models(sampling, trees, forms):
    X, y = chains(24)
    model = small(sampling=sampling, trees=trees, max_iter=6, n_jobs=2, **forms).fit(X, y)
    found = model.log_prob(X, y).sum() / sum(map(len, y))
    assert found == pytest.approx(model.history_["train_score"][-1], rel=1e-4)
    other = small(sampling=sampling, trees=trees, max_iter=6, n_jobs=1, **forms).fit(X, y)
    assert all_equal(other.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(0), "rate of Uniform must be a number above 0 and at most 1, got 0"),
        (lambda: Uniform(True), "rate of Uniform"),
        (lambda: Sequences(1.5), "rate of Sequences"),
        (lambda: Stratified(2, 1), "positive of Stratified must be a number above 0 and at most 1, got 2"),
        (lambda: Stratified(1, -1), "negative of Stratified must be a number above 0, got -1"),
        (lambda: Stratified.parse("3n/1p"), "such as '1p/3n' or '0.5p/0.5n', got '3n/1p'"),
        (Trimmed, "either `below` or `share`"),
        (lambda: Trimmed(0.1, 0.1), "either `below` or `share`"),
        (lambda: Trimmed(share=2.0), "share of Trimmed"),
        (lambda: Goss(0.7, 0.6), "must not exceed 1 together, got 0.7 and 0.6"),
    ],
)
def test_absurd_samplers(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_levels_of_tiny_gradients_stay_in_their_array():
    gradient = np.full((1, 50, 1), 1e-38, dtype=np.float32)
    gradient[0, :25] = 5e-39
    sums = np.zeros(drawing.N_LEVELS + 10)
    largest = drawing.trimming_levels(gradient, 50, sums[: drawing.N_LEVELS])
    assert largest == pytest.approx(1e-38)
    assert np.flatnonzero(sums).max() == drawing.N_LEVELS - 1
    assert sums.sum() == pytest.approx(gradient.sum(dtype=float))
