"""McNemar's test and the analysis of deviance, against SciPy, statsmodels and sums by hand."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from seqboost.evaluation import deviance_analysis, mcnemar, permutation_test
from seqboost.exceptions import InputError, ParameterError


def test_mcnemar_is_the_binomial_test_of_the_disagreements():
    y = [np.array([0] * 6), np.array([0] * 6)]
    a = [np.array([0] * 6), np.array([0, 1, 1, 1, 0, 0])]
    b = [np.array([1] * 6), np.array([1, 0, 0, 0, 0, 0])]
    found = mcnemar(y, a, b)
    assert (found.only_a, found.only_b, found.statistic) == (7, 3, 3)
    assert found.pvalue == pytest.approx(stats.binomtest(7, 10).pvalue)
    assert mcnemar(y, a, a).pvalue == 1.0
    assert mcnemar(y, a, a, exact=False) == (0, 0, 0.0, 1.0)


@pytest.mark.parametrize("exact", [True, False])
def test_mcnemar_is_that_of_statsmodels(exact):
    contingency_tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    rng = np.random.default_rng(0)
    for _ in range(10):
        y, a, b = rng.integers(0, 3, size=(3, 200))
        table = [[np.sum((a == y) & (b == y)), np.sum((a == y) & (b != y))],
                 [np.sum((a != y) & (b == y)), np.sum((a != y) & (b != y))]]  # fmt: skip
        expected = contingency_tables.mcnemar(table, exact=exact, correction=True)
        found = mcnemar(y, a, b, exact=exact)
        assert (found.statistic, found.pvalue) == pytest.approx((expected.statistic, expected.pvalue))


def test_mcnemar_takes_every_form_of_labels():
    nested = mcnemar([["x", "y"], ["x"]], [["x", "x"], ["x"]], [["y", "y"], ["x"]])
    assert nested[:2] == (1, 1)
    assert mcnemar(["xy", "x"], [np.array(["x", "x"]), np.array(["x"])], ["yy", "x"]) == nested
    assert mcnemar(["x", "y", "x"], np.array(["x", "x", "x"]), ["y", "y", "x"]) == nested
    assert mcnemar([["x", None], [np.nan]], [["x", "x"], ["x"]], [["y", "y"], ["x"]])[:2] == (1, 0)


def test_mcnemar_refuses_labellings_that_do_not_fit():
    with pytest.raises(InputError, match="b has 1 elements but y_true has 2"):
        mcnemar([0, 1], [0, 1], [0])
    with pytest.raises(InputError, match=r"a\[1\] has 2 labels but y_true\[1\] has 1"):
        mcnemar([[0, 1], [0]], [[0, 1], [0, 0]], [[0, 1], [0]])
    with pytest.raises(ParameterError, match="expected True"):
        mcnemar([0], [0], [0], exact="yes")


def test_permutation_test_is_the_share_of_exchanges_that_differ_as_much():
    rng = np.random.default_rng(0)
    y = [np.zeros(n, dtype=int) for n in (3, 1, 7, 4, 5, 2)]
    a, b = ([(rng.random(len(labels)) < 0.4).astype(int) for labels in y] for _ in range(2))
    starts = [0, 3, 4, 8, 11, 15, 18, 20]  # 7 and 5 positions are two blocks each
    gap = np.concatenate(b) - np.concatenate(a)
    units = np.add.reduceat(gap, starts)
    found = permutation_test(y, a, b, block=4)
    signs = np.array(list(itertools.product([-1, 1], repeat=len(units))))
    assert (found.difference, found.n_blocks) == (gap.sum(), len(starts))
    assert found.difference != 0
    assert found.pvalue == pytest.approx(np.mean(np.abs(signs @ units) >= abs(units.sum())))


def test_permutation_test_keeps_its_level_where_mcnemar_does_not():
    rng = np.random.default_rng(0)
    pvalues = []
    for _ in range(100):  # two labellers, equally good, that are wrong for 50 positions at a time
        a, b = (np.repeat(rng.random(20) < 0.3, 50) for _ in range(2))
        y = np.zeros(1000, dtype=bool)
        pvalues.append((permutation_test(y, a, b, block=50).pvalue, mcnemar(y, a, b).pvalue))
    found, naive = np.mean(np.array(pvalues) < 0.05, axis=0)
    assert found < 0.09
    assert naive > 0.5


def test_permutation_test_of_independent_positions_agrees_with_mcnemar():
    rng = np.random.default_rng(1)
    y, a, b = rng.integers(0, 2, size=(3, 300))
    assert permutation_test(y, a, b, block=1).pvalue == pytest.approx(mcnemar(y, a, b).pvalue, abs=0.03)
    assert permutation_test(y, a, a).pvalue == 1.0
    assert permutation_test([[None], [np.nan, 1]], [[1], [1, 1]], [[0], [1, 0]])[:2] == (1, 1)


@pytest.mark.parametrize("block", [0, 1.5, True, "whole"])
def test_permutation_test_refuses_blocks_that_are_none(block):
    with pytest.raises(ParameterError, match="expected a number of positions"):
        permutation_test([0, 1], [0, 1], [0, 1], block=block)


def evaluations(seed=0, n_methods=3, n_sets=4):
    rng = np.random.default_rng(seed)
    method = np.repeat([f"m{i}" for i in range(n_methods)], n_sets * 5)
    training_set = np.tile(np.repeat(np.arange(n_sets), 5), n_methods)
    n = rng.integers(50, 200, size=len(method))
    return rng.binomial(n, 0.8), method, training_set, n


def test_deviance_of_positions_is_that_of_counts():
    pytest.importorskip("statsmodels")
    right, method, training_set, n = evaluations()
    by_position = np.concatenate([np.arange(total) < r for r, total in zip(right, n, strict=True)])
    one = deviance_analysis(right, method, training_set, n=n, baseline="m1")
    two = deviance_analysis(by_position, np.repeat(method, n), np.repeat(training_set, n), baseline="m1")
    assert one == two
    assert [c.name for c in one.methods] == ["m0", "m2"]
    assert one.baseline == "m1"


def test_deviance_is_the_maximum_of_the_likelihood():
    """Coefficients and errors from scratch: Newton's method on the log-likelihood of every position."""
    pytest.importorskip("statsmodels")
    right, method, training_set, n = evaluations(1)
    names = ["m1", "m2"]
    design = np.column_stack([*(method == m for m in names), *(training_set == s for s in range(4))]).astype(float)

    def newton(design):
        theta = np.zeros(design.shape[1])
        for _ in range(30):
            p = 1 / (1 + np.exp(-design @ theta))
            information = (design.T * (n * p * (1 - p))) @ design
            theta += np.linalg.solve(information, design.T @ (right - n * p))
        p = 1 / (1 + np.exp(-design @ theta))
        likelihood = np.sum(right * np.log(p) + (n - right) * np.log(1 - p))
        return theta, np.sqrt(np.diag(np.linalg.inv(information))), likelihood

    theta, errors, full = newton(design)
    by_sets, alone = newton(design[:, 2:])[2], newton(np.ones((len(n), 1)))[2]
    found = deviance_analysis(right, method, training_set, n=n)
    both = [*found.methods, *found.training_sets]
    assert [c.value for c in both] == pytest.approx(theta)
    assert [c.standard_error for c in both] == pytest.approx(errors, rel=1e-5)
    assert [c.pvalue for c in both] == pytest.approx(2 * stats.norm.sf(np.abs(theta / errors)), rel=1e-3, abs=1e-12)
    assert [t.deviance for t in found.terms] == pytest.approx([2 * (by_sets - alone), 2 * (full - by_sets)], rel=1e-5)
    assert [t.degrees for t in found.terms] == [3, 2]
    assert found.terms[1].pvalue == pytest.approx(stats.chi2.sf(2 * (full - by_sets), 2), rel=1e-4)


def test_stars_tell_significance():
    pytest.importorskip("statsmodels")
    found = deviance_analysis([800, 700, 795], ["a", "b", "c"], [0, 0, 0], n=[1000] * 3)
    assert str(found.methods[0]) == f"{found.methods[0].value:.3f}***"
    assert found.methods[0].value == pytest.approx(np.log(7 / 3) - np.log(8 / 2))
    assert found.methods[1].stars == ""
    text = str(found)
    assert "***" in text
    assert "baseline: a" in text
    assert "methods" in text


def test_deviance_refuses_what_it_cannot_answer():
    with pytest.raises(InputError, match="compares methods; got only 'a'"):
        deviance_analysis([1, 0], ["a", "a"], [0, 1])
    with pytest.raises(InputError, match="one entry for each evaluation"):
        deviance_analysis([1, 0], ["a"], [0, 1])
    with pytest.raises(InputError, match="from 0 to n"):
        deviance_analysis([3, 0], ["a", "b"], [0, 1], n=[2, 2])
    with pytest.raises(ParameterError, match="baseline='z' is not one of the methods: 'a', 'b'"):
        deviance_analysis([1, 0, 1, 0], ["a", "a", "b", "b"], [0, 0, 0, 0], baseline="z")
    with pytest.raises(InputError, match="method 'b' has 2 of 2 labels right"):
        deviance_analysis([1, 0, 1, 1], ["a", "a", "b", "b"], [0, 0, 0, 0])
    with pytest.raises(InputError, match="cannot be told apart"):
        deviance_analysis([1, 0, 1, 0], ["a", "a", "b", "b"], [0, 0, 1, 1])


def test_statsmodels_is_named_when_it_is_not_there():
    code = """
import sys; sys.modules["statsmodels"] = sys.modules["statsmodels.api"] = None
from seqboost.evaluation import deviance_analysis
try:
    deviance_analysis([1, 0, 1, 0], ["a", "a", "b", "b"], [0, 0, 0, 0])
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "seqboost[stats]"' in done.stdout
