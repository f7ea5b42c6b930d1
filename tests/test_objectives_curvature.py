"""The mixing bound against the exact second derivative, which enumeration gives."""

from __future__ import annotations

import numpy as np
import pytest
from objectives_cases import SHAPES, make_case

from seqboost.objectives import Likelihood, reference
from seqboost.objectives.cells import BLOCK, subtract_expected
from seqboost.objectives.curvature import COUNT, MIXING, NEWTON, mixing_sums

KINDS = [(0.3, 0.0), (1.0, 0.0), (3.0, 0.0), (0.3, 3.0), (1.0, 6.0)]  # scale, sticky


def exact(case, rows):
    """Give the exact row sums of one sequence and the reference's probabilities and contraction coefficients."""
    scores, table = case.scores[:, rows], case.table
    hessian = reference.exact_hessian(scores, table, case.order, not case.joint)
    paths, path_score = reference.enumerate_chain(scores, table, case.order)
    prob = np.exp(path_score - np.logaddexp.reduce(path_score))
    tau = [reference.contraction(paths, prob, case.n_labels, case.order, backward) for backward in (False, True)]
    p = reference.pair_marginals(paths, prob, case.n_labels, case.order)
    return reference.row_sums(hessian, scores.shape), p, tau


@pytest.mark.parametrize(("scale", "sticky"), KINDS)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_mixing_is_at_least_the_exact_row_sums_and_at_most_the_plain_bound(order, joint, scale, sticky):
    case = make_case(order, joint, n_labels=2 if order > 1 else 3, lengths=(6, 1, 3, 2), scale=scale, sticky=sticky)
    found = case.objective().derivatives(case.scores, case.table)
    for rows in case.sequences:
        row_sums, p, tau = exact(case, rows)
        hessian = found.hessian[:, rows]
        assert np.all(hessian >= row_sums - 2e-6 * (1 + row_sums))
        if not joint:
            p = p.sum(axis=2, keepdims=True)
            tau[1] = [1.0 if u + order >= len(tau[1]) else x for u, x in enumerate(tau[1])]
        right, left = reference.mixing_sums(*tau, order, not joint)
        plain = 2 * (1 + right + left)[None, :, None] * p * (1 - p)
        assert np.all(hessian <= plain + 1e-4 * (1 + plain))
        if not joint:
            np.testing.assert_allclose(hessian, plain, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize(("scale", "sticky"), KINDS)
@pytest.mark.parametrize("order", [1, 2])
def test_mixing_bounds_the_second_derivative_by_the_table(order, scale, sticky):
    case = make_case(order, False, n_labels=2, lengths=(6, 1, 3), scale=scale, sticky=sticky)
    found = case.objective().derivatives(case.scores, case.table)
    wide = np.broadcast_to(case.scores, (2, case.scores.shape[1], 2**order))
    total = np.zeros((case.table.size, case.table.size))
    for rows in case.sequences:
        hessian = reference.exact_hessian(wide[:, rows], case.table, order, False)
        cells = np.arange(len(hessian)).reshape(wide[:, rows].shape)
        to_table = np.zeros((case.table.size, len(hessian)))
        for k, t, c in np.ndindex(*cells.shape):
            j = min(t, order)
            if c < 2**j:
                to_table[(2**j - 1 + c) * 2 + k, cells[k, t, c]] = 1
        total += to_table @ hessian @ to_table.T
    # The bound is of the quadratic form, not of row sums of the summed matrix: D − H has no negative eigenvalue.
    lowest = np.linalg.eigvalsh(np.diag(found.table_hessian.ravel()) - total).min()
    assert lowest >= -1e-5


@pytest.mark.parametrize(("scale", "sticky"), KINDS)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_mixing_bounds_the_quadratic_form_of_a_shared_trees_leaves(order, joint, scale, sticky):
    """A shared tree moves the values of all labels in a leaf at once: BᵀDB − BᵀHB has no negative eigenvalue."""
    rng = np.random.default_rng(order)
    case = make_case(order, joint, n_labels=2 if order > 1 else 3, lengths=(6, 1, 3, 2), scale=scale, sticky=sticky)
    found = case.objective().derivatives(case.scores, case.table)
    for rows in case.sequences:
        scores = case.scores[:, rows]
        hessian = reference.exact_hessian(scores, case.table, order, not joint)
        for n_leaves in (1, 2, 3):
            leaf_of = rng.integers(n_leaves, size=scores.shape[1:])
            to_leaf = np.zeros((*scores.shape, n_leaves, len(scores)))
            for k, t, c in np.ndindex(*scores.shape):
                to_leaf[k, t, c, leaf_of[t, c], k] = 1.0
            to_leaf = to_leaf.reshape(hessian.shape[0], -1)
            diagonal = to_leaf.T @ found.hessian[:, rows].ravel()
            form = to_leaf.T @ hessian @ to_leaf
            assert np.linalg.eigvalsh(np.diag(diagonal) - form).min() >= -1e-5 * (1 + diagonal.max())


@pytest.mark.parametrize("hidden", [0.0, 0.4])
@pytest.mark.parametrize(("scale", "sticky"), KINDS)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_a_full_step_never_lowers_the_log_likelihood(order, joint, scale, sticky, hidden):
    case = make_case(order, joint, lengths=(12, 1, 7, 20), scale=scale, sticky=sticky, hidden=hidden)
    objective, scores = case.objective(), np.nan_to_num(case.scores)
    before = -np.inf
    for _ in range(12):
        found = objective.derivatives(scores, case.table)
        now = found.log_likelihood.sum()
        assert now >= before - 1e-4
        before = now
        step = np.divide(found.gradient, found.hessian, out=np.zeros_like(scores), where=found.hessian > 1e-12)
        scores = scores + np.clip(step, -1, 1)


@pytest.mark.parametrize("curvature", ["newton", "count"])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_newton_and_count_are_what_they_say(order, joint, curvature):
    case = make_case(order, joint, weighted=True, hidden=0.2)
    found = case.objective(curvature=curvature).derivatives(case.scores, case.table)
    table_hessian = np.zeros_like(case.table)
    for weight, rows in zip(case.weights, case.sequences, strict=True):
        weight *= np.any(case.labels[rows] >= 0)  # nothing observed, nothing to learn
        _, p = reference.gradient(case.scores[:, rows], case.table, case.labels[rows], order)
        one = np.zeros_like(p)
        for t in range(p.shape[1]):
            j = min(t, order)
            one[:, t, : 3**j] = 1
            cells = one[:, t, : 3**j] if curvature == "count" else (p * (1 - p))[:, t, : 3**j]
            first = sum(3**i for i in range(j))
            table_hessian[first : first + 3**j] += weight * cells.T
        node = p.sum(axis=2, keepdims=True)
        if curvature == "count":
            expected = one if joint else np.ones_like(node)
        else:
            expected = p * (1 - p) if joint else node * (1 - node)
        np.testing.assert_allclose(found.hessian[:, rows], weight * expected, atol=1e-6)
    if not joint:
        np.testing.assert_allclose(found.table_hessian, table_hessian, atol=1e-5)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_mixing_sums_are_those_of_the_reference(order, joint):
    rng = np.random.default_rng(order)
    lengths = [1, 2, 9, 3, 5]
    offsets = np.append(0, np.cumsum(lengths))
    tau = rng.random((2, offsets[-1])).astype(np.float32)
    right, left = np.full((2, offsets[-1]), np.nan, dtype=np.float32)
    for start, stop in zip(offsets[:-1], offsets[1:], strict=True):
        tau[1, start : min(start + order, stop)] = 0
    mixing_sums(offsets, 0, 5, order, joint, tau[0], tau[1], right, left)
    for start, stop in zip(offsets[:-1], offsets[1:], strict=True):
        # tau[1, t] belongs to the kernel that gives the label of t - order
        leaving = [float(tau[1, u + order]) if u + order < stop else 1.0 for u in range(start, stop)]
        expected = reference.mixing_sums([float(x) for x in tau[0, start:stop]], leaving, order, not joint)
        np.testing.assert_allclose(right[start:stop], expected[0], rtol=1e-5)
        np.testing.assert_allclose(left[start:stop], expected[1], rtol=1e-5)


@pytest.mark.parametrize("curvature", [COUNT, NEWTON, MIXING])
@pytest.mark.parametrize(("n_labels", "n_slots"), [(1, 1), (3, 1), (3, 3), (5, 5), (3, 9), (2, 8), (40, 1600)])
def test_cells_are_those_of_the_reference_across_blocks(n_labels, n_slots, curvature):
    rng = np.random.default_rng(n_slots)
    n_rows = max(3, 5 * BLOCK // (2 * n_slots))
    prob = rng.random((n_labels, n_rows, n_slots)).astype(np.float32) ** 4
    prob /= prob.sum(axis=(0, 2), keepdims=True)
    weights, (right, left) = rng.random(n_rows), 9 * rng.random((2, n_rows), dtype=np.float32)
    gradient, hessian = prob.copy(), np.full_like(prob, np.nan)
    best = np.full(n_rows, -7, dtype=np.int32)
    first, last = 1, n_rows - 1
    subtract_expected(gradient, hessian, weights, right, left, best, (first, last, curvature))
    inside = slice(first, last)
    expected = reference.cell_hessian(prob, weights, right, left, curvature == MIXING)
    np.testing.assert_allclose(gradient[:, inside], -(weights[None, :, None] * prob)[:, inside], rtol=1e-6)
    if curvature == COUNT:
        assert np.all(np.isnan(hessian))
    else:
        np.testing.assert_allclose(hessian[:, inside], expected[:, inside], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(best[inside], prob.sum(axis=2).argmax(axis=0)[inside])
    for outside in (0, n_rows - 1):
        np.testing.assert_array_equal(gradient[:, outside], prob[:, outside])
        assert np.all(np.isnan(hessian[:, outside]))
        assert best[outside] == -7


@pytest.mark.parametrize("joint", [True, False])
def test_caution_is_the_mean_excess_over_newton_whatever_the_weights(joint):
    rng = np.random.default_rng(0)
    n_labels, offsets = 3, np.array([0, 9, 10, 30])
    labels = rng.integers(n_labels, size=30).astype(np.int32)
    scores = rng.normal(size=(n_labels, 30, n_labels if joint else 1)).astype(np.float32)
    table = np.vstack([np.zeros((1, n_labels)), 3.0 * np.eye(n_labels)])

    def caution(labels=labels, weight=1.0, curvature="mixing"):
        objective = Likelihood(
            labels, offsets, n_labels=n_labels, order=1, joint=joint, curvature=curvature,
            sequence_weights=np.full(3, weight),
        )  # fmt: skip
        return objective.derivatives(scores, table)

    mixing, newton = caution(), caution(curvature="newton")
    expected = mixing.hessian.sum(dtype=float) / newton.hessian.sum(dtype=float)
    # The joint bound is tighter than 2γp(1 − p), so its caution is an upper estimate.
    assert mixing.caution >= expected * (1 - 1e-5)
    assert mixing.caution == pytest.approx(expected, rel=0.5 if joint else 1e-5)
    assert newton.caution == 1.0
    assert caution(weight=1e4).caution == pytest.approx(mixing.caution, rel=1e-6)
    hidden = labels.copy()
    hidden[1:9] = hidden[11:] = -1
    assert caution(hidden).caution < 2 * mixing.caution
