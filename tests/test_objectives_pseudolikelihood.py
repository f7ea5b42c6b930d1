"""The pseudo-likelihood, its gradient and its curvature against enumeration and finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from objectives_cases import (
    SHAPES,
    Case,
    assert_finite_differences,
    assert_finite_differences_of_table,
    make_case,
)
from scipy.special import log_softmax

from seqboost.chain import transition_table
from seqboost.core.contexts import ContextSpace
from seqboost.core.offsets import sequence_chunks
from seqboost.exceptions import InputError, ParameterError
from seqboost.objectives import Likelihood, PseudoLikelihood, pseudolikelihood, reference
from seqboost.objectives.conditionals import BLOCK

CURVATURES = ["count", "newton", "mixing"]
HIDDEN = [0.0, 0.2]
KINDS = [(0.3, 0.0), (1.0, 0.0), (3.0, 0.0), (0.3, 3.0), (1.0, 6.0)]  # scale, sticky
TABLES = [(order, joint) for order, joint in SHAPES if not joint]


def pseudo(case: Case, **changes) -> PseudoLikelihood:
    return case.objective(PseudoLikelihood, **changes)


def total(case: Case, scores: np.ndarray, table: np.ndarray) -> float:
    """Give the weighted pseudo-log-likelihood by enumeration."""
    values = [
        reference.pseudo_log_likelihood(scores[:, rows], table, case.labels[rows], case.order, case.end)
        for rows in case.sequences
    ]
    return float(case.weights @ np.array(values))


def to_table(case: Case, cells: np.ndarray) -> np.ndarray:
    """Add cells (K, N, K**m) up by extended context."""
    found = np.zeros_like(case.table)
    for rows in case.sequences:
        for t, row in enumerate(range(rows.start, rows.stop)):
            j = min(t, case.order)
            first, n = sum(case.n_labels**i for i in range(j)), case.n_labels**j
            found[first : first + n] += cells[:, row, :n].T
    return found


def expected_gradient(case: Case) -> np.ndarray:
    """Give the weighted gradient of the cells of a joint model, (K, N, K**m)."""
    table = case.table
    parts = [
        weight * reference.pseudo_gradient(case.scores[:, rows], table, case.labels[rows], case.order, case.end)
        for weight, rows in zip(case.weights, case.sequences, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def constrained(order: int, joint: bool, seed: int = 0) -> Case:
    """Draw a case with forbidden starts, moves and ends, labels that keep to them, and NaN scores where forbidden."""
    case = make_case(order, joint, lengths=(4, 1, 5, 2), weighted=True, seed=seed)
    allowed = ~np.eye(3, k=1, dtype=bool)  # 0 -> 1 and 1 -> 2 are forbidden
    table = case.table + transition_table(ContextSpace(3, order), np.array([True, False, True]), allowed)
    labels = np.array([0, 0, 2, 1, 0, 2, 1, 0, 2, 1, 2, 1], dtype=np.int32)
    scores = case.scores.copy()
    if joint:
        for row in range(1, 4):
            scores[1, row, np.arange(3**order) % 3 == 0] = np.nan
    return replace(case, table=table, labels=labels, scores=scores, end=np.array([0.0, 0.0, -np.inf]))


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_gradient_is_the_finite_difference_of_the_pseudo_log_likelihood(order, joint, hidden):
    case = make_case(order, joint, n_labels=2, lengths=(5, 1, 6, 2), hidden=hidden, weighted=True)
    found = pseudo(case).derivatives(case.scores, case.table)
    assert_finite_differences(case, total, found)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_gradient_of_the_table_is_the_finite_difference(order, hidden):
    case = make_case(order, False, n_labels=2, lengths=(5, 1, 6, 2), hidden=hidden, weighted=True)
    found = pseudo(case).derivatives(case.scores, case.table)
    assert_finite_differences_of_table(case, total, found)


@pytest.mark.parametrize("hidden", [0.0, 0.2, 1.0])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_everything_is_that_of_enumeration(order, joint, hidden):
    case = make_case(order, joint, lengths=(4, 1, 5, 2, 1), hidden=hidden, weighted=True, scale=3.0)
    objective = pseudo(case)
    found = objective.derivatives(case.scores, case.table)
    plain = objective.log_likelihood(case.scores, case.table)
    delta, table = expected_gradient(case), case.table
    np.testing.assert_allclose(found.gradient, delta if joint else delta.sum(axis=2, keepdims=True), atol=2e-6)
    if objective.has_table:
        np.testing.assert_allclose(found.table_gradient, to_table(case, delta), atol=5e-6)
    else:
        assert found.table_gradient is None
        assert found.table_hessian is None
    for s, rows in enumerate(case.sequences):
        labels = case.labels[rows]
        paths, path_score = reference.enumerate_chain(case.scores[:, rows], table, order)
        scored = reference.scored_positions(labels, order)
        laws = {t: reference.conditional(paths, path_score, labels, t, order) for t in scored}
        expected = sum(law[labels[t]] for t, law in laws.items())
        assert found.log_likelihood[s] == pytest.approx(expected, abs=1e-5)
        assert found.n_correct[s] == sum(law.argmax() == labels[t] for t, law in laws.items())
        assert found.n_observed[s] == len(scored)
    np.testing.assert_array_equal(plain, found.log_likelihood)
    assert found.caution == 1.0


@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_the_blanket_says_as_much_as_all_other_labels(order, joint):
    case = make_case(order, joint, lengths=(6,), n_labels=2)
    paths, path_score = reference.enumerate_chain(case.scores, case.table, order)
    for t in range(6):
        others = [case.labels.tolist() for _ in range(2)]
        for j in range(2):
            others[j][t] = j
        score = np.array([path_score[paths.index(tuple(path))] for path in others])
        law = reference.conditional(paths, path_score, case.labels, t, order)
        np.testing.assert_allclose(law, log_softmax(score), atol=1e-12)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_gradient_sums_to_zero_at_each_position(order, joint, hidden):
    case = make_case(order, joint, hidden=hidden, weighted=True, scale=4.0)
    found = pseudo(case).derivatives(case.scores, case.table)
    np.testing.assert_allclose(found.gradient.sum(axis=(0, 2)), 0, atol=1e-5)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("joint", [True, False])
def test_order_zero_is_the_likelihood(joint, curvature):
    case = make_case(0, joint, lengths=(9, 1, 40, 3), n_labels=4, hidden=0.3, weighted=True)
    ours = pseudo(case, curvature=curvature).derivatives(case.scores, case.table)
    theirs = case.objective(Likelihood, curvature=curvature).derivatives(case.scores, case.table)
    # Sequences without any observed label aside, an unobserved one counts as an example of the likelihood.
    scored = case.labels >= 0
    np.testing.assert_allclose(ours.gradient, theirs.gradient, atol=2e-6)
    np.testing.assert_allclose(ours.hessian[:, scored], theirs.hessian[:, scored], atol=2e-6)
    assert np.all(ours.hessian[:, ~scored] == 0)
    np.testing.assert_allclose(ours.log_likelihood, theirs.log_likelihood, atol=1e-5)
    np.testing.assert_array_equal(ours.n_correct, theirs.n_correct)
    np.testing.assert_array_equal(ours.n_observed, theirs.n_observed)


@pytest.mark.parametrize(("order", "joint"), [shape for shape in SHAPES if shape[0] > 0])
def test_forbidden_transitions_have_probability_zero(order, joint):
    case = constrained(order, joint)
    found = pseudo(case, curvature="newton").derivatives(case.scores, case.table)
    known = replace(case, scores=np.nan_to_num(case.scores))
    delta = expected_gradient(known)
    np.testing.assert_allclose(found.gradient, delta if joint else delta.sum(axis=2, keepdims=True), atol=2e-6)
    for s, rows in enumerate(case.sequences):
        expected = reference.pseudo_log_likelihood(
            known.scores[:, rows], case.table, case.labels[rows], order, case.end
        )
        assert found.log_likelihood[s] == pytest.approx(expected, abs=1e-5)
    assert np.all(np.isfinite(found.hessian))
    if not joint:
        np.testing.assert_allclose(found.table_gradient, to_table(case, delta), atol=5e-6)
        assert np.all(found.table_gradient[np.isneginf(case.table)] == 0)
        assert np.all(found.table_hessian[np.isneginf(case.table)] == 0)


def test_labels_that_a_forbidden_transition_excludes_are_named():
    case = constrained(1, True)
    broken = replace(case, labels=np.where(np.arange(12) == 6, 0, case.labels))
    broken.labels[7] = 1
    with pytest.raises(InputError, match=r"y\[2\] moves from 0 to 1 at position 2"):
        pseudo(broken).derivatives(case.scores, case.table)
    ends = replace(case, labels=np.where(np.arange(12) == 11, 2, case.labels))
    with pytest.raises(InputError, match=r"y\[3\] ends with 'c'"):
        pseudo(ends, classes=["a", "b", "c"]).log_likelihood(case.scores, case.table)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_huge_scores_stay_exact(order, joint, curvature):
    for seed in range(3):
        case = make_case(order, joint, hidden=0.1, weighted=True, seed=seed)
        rng = np.random.default_rng(seed)
        huge = np.where(np.isnan(case.scores), np.nan, rng.choice([-1e4, 0.0, 1e4], size=case.scores.shape))
        case = replace(case, scores=huge.astype(np.float32))
        found = pseudo(case, curvature=curvature).derivatives(case.scores, case.table)
        expected = expected_gradient(case)
        np.testing.assert_allclose(
            found.gradient, expected if joint else expected.sum(axis=2, keepdims=True), atol=2e-6
        )
        assert float(case.weights @ found.log_likelihood) == pytest.approx(
            total(case, case.scores, case.table), rel=1e-9
        )
        assert np.all(np.isfinite(found.hessian))


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_one_label_is_certain(order, joint, curvature):
    case = make_case(order, joint, n_labels=1)
    found = pseudo(case, curvature=curvature).derivatives(case.scores, case.table)
    np.testing.assert_array_equal(found.log_likelihood, 0)
    np.testing.assert_array_equal(found.gradient, 0)
    np.testing.assert_array_equal(found.hessian, 1.0 if curvature == "count" else 0.0)
    np.testing.assert_array_equal(found.n_correct, np.diff(case.offsets))


@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_all_sequences_of_length_one(order, joint):
    case = make_case(order, joint, lengths=(1,) * 9, n_labels=4)
    found = pseudo(case).derivatives(case.scores, case.table)
    log_prob = log_softmax(case.scores[:, :, 0].T + case.table[0], axis=1)
    np.testing.assert_allclose(found.log_likelihood, log_prob[np.arange(9), case.labels], atol=1e-6)
    np.testing.assert_allclose(found.gradient[:, :, 0].T, np.eye(4)[case.labels] - np.exp(log_prob), atol=1e-6)
    assert np.all(found.gradient[:, :, 1:] == 0)


@pytest.mark.parametrize(("order", "joint"), [(1, True), (2, False)])
def test_many_positions_fill_several_blocks(order, joint):
    case = make_case(order, joint, lengths=(3, 1, 2) * (BLOCK // 9), hidden=0.1, weighted=True)
    assert len(case.labels) * 3 > 1.5 * BLOCK
    found = pseudo(case).derivatives(case.scores, case.table)
    delta = expected_gradient(case)
    np.testing.assert_allclose(found.gradient, delta if joint else delta.sum(axis=2, keepdims=True), atol=2e-6)
    assert float(case.weights @ found.log_likelihood) == pytest.approx(total(case, case.scores, case.table), rel=1e-6)


def test_more_labels_than_a_block_holds():
    n_labels = BLOCK + 76
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(n_labels, 5, 1)).astype(np.float32)
    table = rng.normal(size=(1 + n_labels, n_labels))
    labels = rng.integers(n_labels, size=5).astype(np.int32)
    objective = PseudoLikelihood(labels, np.array([0, 4, 5]), n_labels=n_labels, order=1, joint=False)
    found = objective.derivatives(scores, table)
    local = scores[:, :, 0].T.astype(np.float64)
    local += table[[0, 1 + labels[0], 1 + labels[1], 1 + labels[2], 0]]
    local[:3] += table[1:, labels[1:4]].T
    log_prob = log_softmax(local, axis=1)
    expected = log_prob[np.arange(5), labels]
    np.testing.assert_allclose(found.log_likelihood, [expected[:4].sum(), expected[4]], atol=1e-5)
    np.testing.assert_allclose(found.gradient[:, :, 0].T, np.eye(n_labels)[labels] - np.exp(log_prob), atol=2e-6)


def test_products_of_totals_do_not_overflow():
    labels = np.zeros(3000, dtype=np.int32)
    objective = PseudoLikelihood(labels, np.array([0, 2999, 3000]), n_labels=20, order=1, joint=True)
    found = objective.derivatives(np.zeros((20, 3000, 20), np.float32), np.zeros((21, 20)))
    np.testing.assert_allclose(found.log_likelihood, [-2999 * np.log(20), -np.log(20)], rtol=1e-12)


@pytest.mark.parametrize(("scale", "sticky"), KINDS)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_mixing_is_the_exact_row_sums_and_newton_the_diagonal(order, joint, scale, sticky):
    case = make_case(
        order, joint, n_labels=2 if order > 1 else 3, lengths=(6, 1, 3, 2), scale=scale, sticky=sticky, weighted=True,
        hidden=0.05,
    )  # fmt: skip
    mixing = pseudo(case).derivatives(case.scores, case.table)
    newton = pseudo(case, curvature="newton").derivatives(case.scores, case.table)
    for weight, rows in zip(case.weights, case.sequences, strict=True):
        scores, labels = case.scores[:, rows], case.labels[rows]
        exact = weight * reference.pseudo_hessian(scores, case.table, labels, order, not joint)
        row_sums = reference.row_sums(exact, scores.shape)
        np.testing.assert_allclose(mixing.hessian[:, rows], row_sums, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(newton.hessian[:, rows].ravel(), np.diag(exact), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_the_exact_second_derivative_is_the_finite_difference_of_the_gradient(order, joint):
    case = make_case(order, joint, n_labels=2, lengths=(5,), weighted=True)
    scores, table, step = np.nan_to_num(case.scores.astype(np.float64)), case.table, 1e-5

    def gradient(scores):
        delta = reference.pseudo_gradient(scores, table, case.labels, order)
        return (delta if joint else delta.sum(axis=2)).ravel()

    exact = reference.pseudo_hessian(scores, table, case.labels, order, not joint)
    for i in range(scores.size):
        move = np.zeros(scores.size)
        move[i] = step
        slope = (gradient(scores + move.reshape(scores.shape)) - gradient(scores - move.reshape(scores.shape))) / step
        np.testing.assert_allclose(exact[i], -slope / 2, atol=1e-8)


@pytest.mark.parametrize(("scale", "sticky"), KINDS)
@pytest.mark.parametrize("order", [1, 2])
def test_mixing_bounds_the_second_derivative_by_the_table(order, scale, sticky):
    case = make_case(order, False, n_labels=2, lengths=(6, 1, 3), scale=scale, sticky=sticky, weighted=True)
    found = pseudo(case).derivatives(case.scores, case.table)
    newton = pseudo(case, curvature="newton").derivatives(case.scores, case.table)
    exact, row_sums, diagonal = np.zeros((case.table.size,) * 2), [], []
    for weight, rows in zip(case.weights, case.sequences, strict=True):
        shape = (2, rows.stop - rows.start, 2**order)
        hessian = weight * reference.pseudo_hessian(case.scores[:, rows], case.table, case.labels[rows], order, False)
        row_sums.append(reference.row_sums(hessian, shape))
        diagonal.append(np.diag(hessian).reshape(shape))
        in_table = np.zeros((case.table.size, len(hessian)))
        for cell, (k, t, c) in enumerate(np.ndindex(shape)):
            j = min(t, order)
            if c < 2**j:
                in_table[(2**j - 1 + c) * 2 + k, cell] = 1
        exact += in_table @ hessian @ in_table.T
    np.testing.assert_allclose(found.table_hessian, to_table(case, np.concatenate(row_sums, axis=1)), atol=1e-5)
    np.testing.assert_allclose(newton.table_hessian, to_table(case, np.concatenate(diagonal, axis=1)), atol=1e-5)
    lowest = np.linalg.eigvalsh(np.diag(found.table_hessian.ravel()) - exact).min()
    assert lowest >= -1e-5


@pytest.mark.parametrize("hidden", [0.0, 0.3])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_count_is_one_for_every_cell_of_a_row_that_a_law_sees(order, joint, hidden):
    case = make_case(order, joint, lengths=(9, 1, 12, 2), hidden=hidden, weighted=True)
    found = pseudo(case, curvature="count").derivatives(case.scores, case.table)
    cells = np.zeros((3, len(case.labels), 3**order))
    alone = np.zeros((3, len(case.labels), 1))
    for weight, rows in zip(case.weights, case.sequences, strict=True):
        for t in reference.scored_positions(case.labels[rows], order):
            alone[:, rows.start + t] = weight
            for s in range(t, min(t + order, rows.stop - rows.start - 1) + 1):
                cells[:, rows.start + s, : 3 ** min(s, order)] = weight
    np.testing.assert_allclose(found.hessian, cells if joint else alone, rtol=1e-6)
    if not joint:
        np.testing.assert_allclose(found.table_hessian, to_table(case, cells), rtol=1e-12)


@pytest.mark.parametrize("hidden", [0.0, 0.3])
@pytest.mark.parametrize(("scale", "sticky"), KINDS)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_a_full_step_never_lowers_the_pseudo_log_likelihood(order, joint, scale, sticky, hidden):
    case = make_case(order, joint, lengths=(12, 1, 7, 20), scale=scale, sticky=sticky, hidden=hidden)
    objective, scores = pseudo(case), np.nan_to_num(case.scores)
    before = -np.inf
    for _ in range(12):
        found = objective.derivatives(scores, case.table)
        now = found.log_likelihood.sum()
        assert now >= before - 1e-5
        before = now
        step = np.divide(found.gradient, found.hessian, out=np.zeros_like(scores), where=found.hessian > 1e-12)
        scores = scores + np.clip(step, -1, 1)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_bounds_hold(order, joint, curvature):
    for hidden, scale in ((0.0, 0.1), (0.2, 5.0), (0.0, 100.0)):
        case = make_case(order, joint, hidden=hidden, weighted=True, scale=scale, lengths=(9, 1, 30, 2))
        found = pseudo(case, curvature=curvature).derivatives(case.scores, case.table)
        largest = (1.0 + 2.0 * (order if joint else 0)) * case.weights.max()
        assert np.abs(found.gradient).sum(axis=2).max() <= largest * 1.0001
        assert np.all(found.hessian >= 0)


@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_gradient_bound_is_reached_where_every_label_is_wrong(order, joint):
    case = make_case(order, joint, n_labels=2, lengths=(8,))
    worst = np.zeros_like(case.scores)
    worst[1] = 100.0  # labels 0 that all want to be 1, whatever is around them: S_t(1) − S_t(0) = 100
    found = pseudo(replace(case, labels=np.zeros(8, np.int32))).derivatives(worst, 0 * case.table)
    assert np.abs(found.gradient).sum(axis=2).max() >= 0.999 * (1.0 + 2.0 * (order if joint else 0))


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_weight_two_is_repetition(order, joint, curvature):
    case = make_case(order, joint, hidden=0.1, lengths=(3, 4))
    found = pseudo(replace(case, weights=np.array([2.0, 1.0])), curvature=curvature).derivatives(
        case.scores, case.table
    )
    repeated = case.take([0, 0, 1])
    twice = pseudo(repeated, curvature=curvature).derivatives(repeated.scores, repeated.table)
    for name in ("gradient", "hessian"):
        ours, theirs = getattr(found, name), getattr(twice, name)
        np.testing.assert_allclose(ours[:, :3], theirs[:, :3] + theirs[:, 3:6], rtol=1e-6)
        np.testing.assert_array_equal(ours[:, 3:], theirs[:, 6:])
    if not joint:
        np.testing.assert_allclose(found.table_gradient, twice.table_gradient, atol=1e-9)
        np.testing.assert_allclose(found.table_hessian, twice.table_hessian, atol=1e-9)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_weight_zero_gives_no_gradient_but_a_pseudo_log_likelihood(order, joint, curvature):
    case = make_case(order, joint, hidden=0.1)
    held_out = replace(case, weights=np.array([1.0, 0.0, 0.0, 1.0]))
    full = pseudo(case, curvature=curvature).derivatives(case.scores, case.table)
    found = pseudo(held_out, curvature=curvature).derivatives(case.scores, case.table)
    np.testing.assert_array_equal(found.log_likelihood, full.log_likelihood)
    np.testing.assert_array_equal(found.n_correct, full.n_correct)
    np.testing.assert_array_equal(found.n_observed, full.n_observed)
    assert np.all(found.gradient[:, 4:10] == 0)
    assert np.all(found.hessian[:, 4:10] == 0)
    for kept in (slice(0, 4), slice(10, 12)):
        np.testing.assert_array_equal(found.gradient[:, kept], full.gradient[:, kept])
        np.testing.assert_array_equal(found.hessian[:, kept], full.hessian[:, kept])
    if not joint:
        alone = case.take([0, 3])
        only = pseudo(alone, curvature=curvature).derivatives(alone.scores, alone.table)
        np.testing.assert_allclose(found.table_gradient, only.table_gradient, atol=1e-12)
        np.testing.assert_allclose(found.table_hessian, only.table_hessian, atol=1e-12)


@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_same_bits_for_any_threads_and_any_order_of_sequences(order, joint, monkeypatch):
    case = make_case(order, joint, n_labels=2, lengths=(7, 30, 1, 50, 12, 33), hidden=0.03, weighted=True)
    monkeypatch.setattr(pseudolikelihood, "sequence_chunks", lambda offsets: sequence_chunks(offsets, 20))
    found = pseudo(case).derivatives(case.scores, case.table, n_threads=1)
    threaded = pseudo(case).derivatives(case.scores, case.table, n_threads=3)
    for name in ("gradient", "hessian", "log_likelihood", "n_correct"):
        np.testing.assert_array_equal(getattr(found, name), getattr(threaded, name))
    turned = case.take([5, 4, 3, 2, 1, 0])
    other = pseudo(turned).derivatives(turned.scores, turned.table)
    np.testing.assert_array_equal(found.log_likelihood[::-1], other.log_likelihood)
    back = replace(turned, scores=other.gradient).take([5, 4, 3, 2, 1, 0])
    np.testing.assert_array_equal(found.gradient, back.scores)
    assert np.any(found.gradient != 0)
    if not joint:
        np.testing.assert_array_equal(found.table_gradient, threaded.table_gradient)
        np.testing.assert_array_equal(found.table_hessian, threaded.table_hessian)
        np.testing.assert_allclose(found.table_gradient, other.table_gradient, atol=1e-10)


@pytest.mark.parametrize("curvature", ["newton", "mixing"])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_cells_with_a_part_are_overwritten_and_the_others_stay_zero(order, joint, curvature):
    case = make_case(order, joint, hidden=0.1, weighted=True)
    clean = pseudo(case, curvature=curvature).derivatives(case.scores, case.table)
    objective = pseudo(case, curvature=curvature)
    other = objective.derivatives(np.nan_to_num(-2 * case.scores), case.table)
    has_part = clean.hessian > 0
    assert np.all((other.gradient != 0) <= has_part)
    for name in ("_gradient", "_hessian"):
        getattr(objective, name)[has_part] = np.nan
    for name in ("_means", "_variances"):
        getattr(objective, name).fill(np.nan)
    for buffer in objective._found:
        buffer[objective._blankets.rows] = np.nan if buffer.dtype != bool else True
    again = objective.derivatives(case.scores, case.table)
    for name in ("gradient", "hessian", "log_likelihood", "n_correct", "table_gradient", "table_hessian"):
        np.testing.assert_array_equal(getattr(again, name), getattr(clean, name))


def test_buffers_are_reused_and_log_likelihood_leaves_them_alone():
    case = make_case(1, False, hidden=0.1)
    objective = pseudo(case)
    first = objective.derivatives(case.scores, case.table)
    kept = first.gradient.copy(), first.table_gradient.copy(), first.log_likelihood.copy()
    objective.log_likelihood(case.scores * 2, case.table * 2)
    for ours, theirs in zip((first.gradient, first.table_gradient, first.log_likelihood), kept, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert objective.derivatives(case.scores * 2, case.table).gradient is first.gradient


def test_wrong_arguments_are_named():
    case = make_case(1, True)
    with pytest.raises(ParameterError, match="curvature must be one of .* got 'exact'"):
        pseudo(case, curvature="exact")
    wrong = replace(case, labels=np.where(np.arange(12) == 6, 7, case.labels))
    with pytest.raises(InputError, match=r"y\[2\] has 7 at position 1"):
        pseudo(wrong)
    with pytest.raises(InputError, match="sequence weights must be 4 finite numbers"):
        pseudo(case, sequence_weights=np.array([1.0, -1.0, 1.0, 1.0]))
    with pytest.raises(ParameterError, match=r"scores must have shape \(3, 12, 3\), got \(3, 12, 1\)"):
        pseudo(case).derivatives(np.zeros((3, 12, 1), np.float32), case.table)
