"""What "auto" comes to, and that it stays so."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from treecrf_data import all_equal, chains, small

from seqboost import TreeCRF
from seqboost.exceptions import ParameterError

WORDS, SOUNDS = ["banana", "tomato", "panama"] * 9, ["010101"] * 27


def numbers(n_columns, length=30, n=6, n_labels=2):
    rng = np.random.default_rng(n_columns)
    X = [rng.normal(size=(length, n_columns)) for _ in range(n)]
    return X, [rng.integers(n_labels, size=length) for _ in X]


@pytest.mark.parametrize(("n_columns", "side"), [(1, 6), (8, 6), (15, 3), (20, 2), (33, 1), (60, 0)])
def test_the_window_narrows_with_the_columns(n_columns, side):
    model = small(max_iter=1).fit(*numbers(n_columns))
    assert model.window_ == side
    assert model.window == "auto"


def test_a_symbol_gets_its_neighbours():
    assert TreeCRF(max_iter=1).fit(WORDS, SOUNDS).window_ == 5  # six letters have no farther neighbours


@pytest.mark.parametrize(("n_columns", "side"), [(1, 5), (3, 5), (4, 0)])
def test_many_columns_of_symbols_are_neighbours_already(n_columns, side):
    X = [[{f"slot {j}": letter for j in range(n_columns)} for letter in word] for word in WORDS]
    assert TreeCRF(max_iter=1).fit(X, SOUNDS).window_ == side


def test_single_elements_have_no_window():
    assert small(max_iter=1).fit(*numbers(2, length=1, n=30)).window_ == 0


def test_the_automatic_window_is_the_window_it_names():
    X, y = numbers(5)
    automatic, named = (small(window=window).fit(X, y) for window in ("auto", 6))
    assert all_equal(automatic.predict_proba(X), named.predict_proba(X))


def test_sparse_columns_start_linear_and_have_no_window():
    X, y = chains(10)
    rows = [sp.random(len(x), 300, 0.05, "csr", random_state=i) for i, x in enumerate(X)]
    model = small(max_iter=2).fit(rows, y)
    assert (model.init_, model.window_) == ("linear", 0)
    assert small(max_iter=2).fit([x[:, :200] for x in rows], y).init_ == "labels"
    mixed = [[{"size": row[0], "big" if row[1] > 0 else "small": True} for row in x] for x in X]
    model = small(max_iter=2).fit(mixed, y)
    assert (model.init_, model.window_["sparse"]) == ("labels", 0)
    assert small(max_iter=2).fit(X, y).init_ == "labels"


def test_wide_categories_start_linear():
    rng = np.random.default_rng(0)
    X = [[f"word {i}" for i in rng.permutation(400)[:80]] for _ in range(8)]
    y = [rng.integers(2, size=80) for _ in X]
    assert TreeCRF(max_iter=1).fit(X, y).init_ == "linear"


def test_seen_contexts_start_from_the_labels():
    X, y = chains(10)
    rows = [sp.random(len(x), 300, 0.05, "csr", random_state=i) for i, x in enumerate(X)]
    assert small(max_iter=2, contexts="seen", order=2).fit(rows, y).init_ == "labels"


@pytest.mark.parametrize(("n_labels", "sampling", "trees"), [
    (2, None, "per_label"), (3, None, "shared"), (5, "goss", "shared"), (3, "1p/3n", "per_label"),
])  # fmt: skip
def test_labels_decide_on_the_trees(n_labels, sampling, trees):
    assert small(max_iter=1, sampling=sampling).fit(*numbers(3, n_labels=n_labels)).trees_ == trees


def test_what_is_named_is_kept():
    X, y = chains(10)
    model = small(max_iter=1, window=1, trees="per_label", init="linear").fit(X, y)
    assert (model.window_, model.trees_, model.init_) == (1, "per_label", "linear")


def test_a_warm_start_goes_on_with_the_choices_made():
    X, y = chains(20)
    model = small(warm_start=True, max_iter=3).fit(X, y)
    once = small(max_iter=6).fit(X, y)
    assert all_equal(model.set_params(max_iter=6).fit(X, y).predict_proba(X), once.predict_proba(X))
    model.set_params(window=model.window_, trees=model.trees_, max_iter=7).fit(X, y)
    with pytest.raises(ParameterError, match="'window' parameter was 6 in the last fit and is 1 now"):
        model.set_params(window=1).fit(X, y)


def test_a_file_remembers_the_choices(tmp_path):
    X, y = chains(10)
    model = small(max_iter=2).fit(X, y)
    model.save(tmp_path / "model")
    loaded = TreeCRF.load(tmp_path / "model")
    for name in ("window", "trees", "init"):
        assert getattr(loaded, name) == "auto"
        assert getattr(loaded, name + "_") == getattr(model, name + "_")


def test_a_clone_chooses_anew():
    model = small(max_iter=1).fit(*numbers(3, n_labels=3))
    assert clone(model).fit(*numbers(60, n_labels=2)).window_ == 0


def test_other_words_are_refused():
    with pytest.raises(ParameterError, match="window='all'.*is not a window"):
        TreeCRF(window="all").fit(*numbers(2))


@pytest.mark.parametrize(
    ("n_labels", "settings", "rate"),
    [
        (3, {}, 0.25),
        (10, {}, 0.25),
        (11, {}, 0.5),
        (11, {"init": "linear"}, 0.25),
        (10, {"curvature": "newton"}, 0.1),
        (11, {"curvature": "newton"}, 0.25),
        (11, {"learning_rate": 0.1}, 0.1),
    ],
)
def test_many_labels_take_larger_steps(n_labels, settings, rate):
    rng = np.random.default_rng(0)
    y = [rng.permutation(n_labels) for _ in range(30)]
    X = [labels[:, None] + rng.normal(size=(n_labels, 1)) for labels in y]
    auto = small(**settings).fit(X, y)
    named = small(**{**settings, "learning_rate": rate}).fit(X, y)
    assert all_equal(auto.predict_proba(X), named.predict_proba(X))
    further = small(**settings, warm_start=True).fit(X, y).set_params(max_iter=6).fit(X, y)
    named = small(**{**settings, "learning_rate": rate, "max_iter": 6}).fit(X, y)
    assert all_equal(further.predict_proba(X), named.predict_proba(X))


def test_a_learning_rate_is_a_number_or_auto():
    with pytest.raises(ParameterError, match="'learning_rate'.*above 0 and at most 1000 or 'auto'.*Got 'fast'"):
        TreeCRF(learning_rate="fast").fit(["ab"], ["01"])


@pytest.mark.parametrize("early_stopping", [True, False])
def test_a_warm_start_may_name_what_auto_came_to(early_stopping):
    X, y = chains(30)
    model = small(warm_start=True, early_stopping=early_stopping).fit(X, y)
    chosen = {name: getattr(model, f"{name}_") for name in ("potentials", "window", "trees", "init")}
    assert model.set_params(**chosen, max_iter=6).fit(X, y).n_iter_ > 4


@pytest.mark.parametrize(
    ("n", "parameters", "arguments", "match"),
    [
        (30, {}, {}, "needs 500 held-out labels or more to choose by"),
        (200, {}, {"callbacks": [lambda progress: False]}, "callbacks that may stop.*leave no room"),
        (200, {"potentials": "joint", "window": 1, "l2_regularization": 1.0}, {}, "are all named; leave one of them"),
    ],
)
def test_tune_true_says_why_nothing_can_be_tuned(n, parameters, arguments, match):
    rng = np.random.default_rng(0)
    y = [rng.integers(2, size=40).tolist() for _ in range(n)]
    X = [np.array(labels)[:, None] + rng.normal(size=(40, 1)) for labels in y]
    with pytest.raises(ParameterError, match=match):
        TreeCRF(max_iter=2, tune=True, random_state=0, **parameters).fit(X, y, **arguments)
