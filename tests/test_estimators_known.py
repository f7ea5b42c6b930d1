"""Known labels, costs and beams of prediction, against the probabilities of all labellings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from treecrf_data import all_equal, chains, labellings, small

from seqboost import HMM, MEMM, LinearCRF, SlidingWindow, VotedPerceptron
from seqboost.estimators.query import cost_matrix
from seqboost.exceptions import InputError, ParameterError

X, Y = chains(n=12, lengths=(1, 6))
SHAPES = {
    **{f"joint{m}": {"order": m, "potentials": "joint"} for m in (0, 1, 2)},
    **{f"factored{m}": {"order": m, "potentials": "factored"} for m in (1, 2)},
    "seen": {"order": 2, "contexts": "seen"},
    "constrained": {"transitions": {"a": ["a", "b"], "b": ["b", "c"], "c": ["a", "b", "c"]}},
    "weighted": {"class_weight": {"a": 5.0}},
}
RULES = SHAPES["constrained"]["transitions"]


def obeyed(labels):
    """Cut labels before the first move that the rules forbid."""
    for t in range(1, len(labels)):
        if labels[t] not in RULES[labels[t - 1]]:
            return labels[:t]
    return labels


OBEYED = [obeyed(labels) for labels in Y]
SHORTER = [rows[: len(labels)] for rows, labels in zip(X, OBEYED, strict=True)]


@pytest.fixture(scope="module", params=SHAPES)
def model(request):
    return small(max_iter=6, **SHAPES[request.param]).fit(SHORTER, OBEYED)


def some_known(y, seed=0):
    """Return known labels, sets and None for sequences with labels y."""
    rng = np.random.default_rng(seed)

    def known(label):
        kind = rng.random()
        other = str(rng.choice([one for one in "abc" if one != label]))
        return label if kind < 0.3 else {label, other} if kind < 0.6 else None

    return [[known(label) for label in labels] for labels in y]


KNOWN = some_known(OBEYED)


def fits(path, known):
    return all(
        y is None or (k in y if isinstance(y, set) else k == y) for k, y in zip(path, known, strict=True)
    )  # fmt: skip


def paths_of(model, rows, known):
    """Return the labellings that fit, and their probabilities given that."""
    paths = [path for path in labellings(model.classes_, len(rows)) if fits(path, known)]
    prob = np.exp(model.log_prob([rows] * len(paths), paths))
    return paths, prob / prob.sum()


def slow_proba(model, rows, known):
    """Return the marginals of the labellings that fit."""
    found = np.zeros((len(rows), len(model.classes_)))
    for path, prob in zip(*paths_of(model, rows, known), strict=True):
        for t, label in enumerate(path):
            found[t, model.classes_.tolist().index(label)] += prob
    if model.class_weight is not None:
        found *= [5.0, 1.0, 1.0]
        found /= found.sum(axis=1, keepdims=True)
    return found


def test_probabilities_given_known_labels_are_those_of_enumeration(model):
    for found, rows, known in zip(model.predict_proba(SHORTER, known=KNOWN), SHORTER, KNOWN, strict=True):
        np.testing.assert_allclose(found, slow_proba(model, rows, known), atol=1e-4)


def test_labels_given_known_labels(model):
    for found, rows, known in zip(model.predict(SHORTER, known=KNOWN), SHORTER, KNOWN, strict=True):
        assert fits(found, known)
        prob = slow_proba(model, rows, known)
        paths, chance = paths_of(model, rows, known)
        if model.transitions != "any":
            paths = [path for path, p in zip(paths, chance, strict=True) if p > 0]
        codes = np.array([[model.classes_.tolist().index(label) for label in path] for path in paths])
        right = prob[np.arange(len(rows)), codes].sum(axis=1)
        assert prob[np.arange(len(rows)), np.searchsorted(model.classes_, found)].sum() > right.max() - 1e-4


def test_viterbi_and_k_best_given_known_labels():
    for shape in ("joint1", "factored2", "constrained", "seen"):
        model = small(max_iter=6, decoding="viterbi", **SHAPES[shape]).fit(SHORTER, OBEYED)
        lists = [None] * len(X) if shape == "seen" else model.predict_kbest(SHORTER, 4, known=KNOWN)
        for found, rows, known, best in zip(model.predict(SHORTER, known=KNOWN), SHORTER, KNOWN, lists, strict=True):
            paths, prob = paths_of(model, rows, known)
            order = [i for i in np.argsort(-prob) if prob[i] > 0][:4]
            assert found.tolist() == paths[order[0]]
            if best is not None:
                assert [labels.tolist() for labels, _ in best] == [paths[i] for i in order]
                np.testing.assert_allclose([log_prob for _, log_prob in best], np.log(prob[order]), atol=1e-4)


def test_nothing_known_and_everything_known(model):
    nothing = [[None] * len(rows) for rows in SHORTER]
    assert all_equal(model.predict_proba(SHORTER, known=nothing), model.predict_proba(SHORTER))
    assert all_equal(model.predict(SHORTER, known=nothing), model.predict(SHORTER))
    assert [labels.tolist() for labels in model.predict(SHORTER, known=OBEYED)] == OBEYED


@pytest.mark.parametrize("kind", [MEMM, HMM, VotedPerceptron, LinearCRF])
def test_other_chains(kind, monkeypatch):
    model = kind().fit(X, Y)
    known = some_known(Y)
    for decoding in ("posterior", "viterbi"):
        found = model.set_params(decoding=decoding).predict(X, known=known)
        assert all(map(fits, found, known))
    monkeypatch.setattr("seqboost.estimators.prediction.MOST_CELLS", 20)  # MEMM cuts batches into pieces
    assert all_equal(model.predict(X, known=known), found)
    assert all_equal(model.predict(X, known=Y), [np.array(labels) for labels in Y])
    for prob, labels in zip(model.predict_proba(X, known=Y), Y, strict=True):
        np.testing.assert_allclose(prob, np.array(labels)[:, None] == model.classes_)


def test_known_labels_in_the_form_of_y():
    table = pd.DataFrame({"s": [0, 0, 1, 1], "x": [0.0, 1.0, 0.5, 0.2]}, index=[5, 6, 7, 8])
    model = small(sequence="s").fit(table, [0, 1, 1, 0])
    known = pd.Series([np.nan, 0.0, np.nan, 1.0], index=table.index)
    assert model.predict(table, known=known)[[1, 3]].tolist() == [0, 1]
    assert model.predict(table, known=known.to_numpy())[[1, 3]].tolist() == [0, 1]
    assert model.predict_proba(table, known=known)[1].tolist() == [1.0, 0.0]


def test_a_known_label_moves_its_neighbours():
    sticky = small(max_iter=3).fit(*chains(n=60, lengths=(4, 8), stickiness=0.95))
    rows = np.full((3, 2), 1.0)
    before = sticky.predict_proba([rows])[0][0, 2]
    assert sticky.predict_proba([rows], known=[[None, "c", None]])[0][0, 2] > 2 * before


@pytest.mark.parametrize(
    ("known", "match"),
    [
        ([["a"], ["a", "a", "c"]], r"known\[1\] moves from 'a' to 'c' at position 2, which transitions=\.\.\. forbids"),
        ([["a"], ["a", None, {"a"}]], None),
        ([["b"], ["b", {"a", "b"}, "a"]], r"known\[1\] moves from 'b' to 'a' at position 2"),
        ([["b"], ["b", None, None], ["a"]], r"In known=, .*: y has 3 label sequences but X has 2 sequences"),
        ([["b"], ["b", None]], r"In known=, .*: y\[1\] has 2 labels but X\[1\] has 3 positions"),
        ([["b"], ["b", None, "x"]], r"In known=, .*: y holds the label 'x' at sequence 1, position 2, which was not"),
        ([["b"], ["b", None, {"x", "a"}]], r"In known=, .*: y holds the label 'x' at sequence 1, position 2"),
        ([["b"], ["b", None, set()]], r"In known=, .*: The label at sequence 1, position 2 is an empty set"),
    ],
)
@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_kbest"])
def test_known_labels_that_cannot_be(known, match, method):
    model = small(max_iter=1, transitions=RULES).fit(SHORTER, OBEYED)
    rows = [np.zeros((1, 2)), np.zeros((3, 2))]
    if match is None:
        getattr(model, method)(rows, known=known)
        return
    with pytest.raises(InputError, match=match):
        getattr(model, method)(rows, known=known)


def test_known_labels_that_cannot_be_with_seen_contexts_and_a_beam():
    rows, known = [np.zeros((3, 2))], [["a", "a", "c"]]
    for parameters in ({"contexts": "seen", "order": 2}, {"decoding": "viterbi"}, {"order": 2}):
        model = small(max_iter=1, transitions=RULES, **parameters).fit(SHORTER, OBEYED)
        beam = None if "contexts" in parameters else 2
        with pytest.raises(InputError, match=r"known\[0\] moves from .*'a' to 'c' at position 2"):
            model.predict(rows, known=known, beam=beam)


# ---------------------------------------------------------------------------------------------------------- costs


def test_labels_of_least_expected_cost(model):
    rng = np.random.default_rng(1)
    costs = rng.uniform(0, 5, (3, 3))
    for known in (None, KNOWN):
        prob = model.predict_proba(SHORTER, known=known)
        found = model.predict(SHORTER, known=known, costs=costs)
        for i, rows in enumerate(SHORTER):
            given = [None] * len(rows) if known is None else known[i]
            paths = [path for path in labellings(model.classes_, len(rows)) if fits(path, given)]
            if model.transitions != "any":
                paths = [path for path in paths if obeyed(path) == path]
            codes = np.array([[model.classes_.tolist().index(label) for label in path] for path in paths])
            expected = (prob[i] @ costs)[np.arange(len(rows)), codes].sum(axis=1)
            assert found[i].tolist() in paths
            assert expected[paths.index(found[i].tolist())] < expected.min() + 1e-4


def test_equal_costs_change_nothing(model):
    assert all_equal(model.predict(X, costs={}), model.predict(X))
    assert all_equal(model.predict(X, costs=1.0 - np.eye(3)), model.predict(X))


def test_costs_beyond_the_scores_of_chains(model):
    costs = np.random.default_rng(1).uniform(0, 5, (3, 3))
    assert all_equal(model.predict(X, costs=1e200 * costs), model.predict(X, costs=costs))
    assert all(map(len, model.predict(X, costs=np.zeros((3, 3)))))


def test_costs_at_other_labelers():
    model = SlidingWindow().fit(X, Y)
    found = np.concatenate(model.predict(X, costs={("a", "b"): 1e9, ("a", "c"): 1e9}))
    assert set(found[np.concatenate(model.predict_proba(X))[:, 0] > 1e-8]) == {"a"}
    voted = VotedPerceptron().fit(X, Y).set_params(decoding="posterior")
    assert all_equal(voted.predict(X, costs={}), voted.predict(X))


def test_forms_of_costs():
    classes = np.array(["ill", "well"])
    expected = [[0.0, 20.0], [1.0, 0.0]]
    frame = pd.DataFrame([[0, 1], [20, 0]], index=["well", "ill"], columns=["well", "ill"])
    for costs in ({("ill", "well"): 20}, {"ill": {"well": 20}}, frame, np.array(expected), [[0, 20], [1, 0]]):
        assert cost_matrix(costs, classes).tolist() == expected
    assert cost_matrix({(0, 1): -2.5, (0, 0): 3}, np.array([0, 1])).tolist() == [[3.0, -2.5], [1.0, 0.0]]
    tuples = np.empty(2, object)
    tuples[:] = [("a", 1), ("b", 2)]
    assert cost_matrix({("a", 1): {("b", 2): 7}}, tuples)[0, 1] == 7.0
    assert cost_matrix({(("a", 1), ("b", 2)): 7}, tuples)[0, 1] == 7.0


@pytest.mark.parametrize(
    ("costs", "match"),
    [
        ({"a": 3}, r"costs holds 3 for 'a'; expected a dict \{\(true, predicted\): cost\}"),
        ({("a", "x"): 3}, r"costs names the label 'x', which training did not have.*\['a', 'b'\].*different labels"),
        ({("a", "b"): "dear"}, r"costs\[\('a', 'b'\)\] is 'dear'; a cost must be a finite number"),
        ({("a", "b"): 10**400}, r"costs\[\('a', 'b'\)\] is 10+; a cost must be a finite number"),
        ([[0, 10**400], [1, 0]], r"costs is \[\[0, 10+.*expected a dict"),
        ({("a", "b"): np.nan}, r"costs must be finite, but predicting 'b' for 'a' costs nan"),
        ([[0, 1, 2]], r"costs has shape \(1, 3\), but there are 2 labels; expected"),
        ("cheap", r"costs is 'cheap'; expected a dict"),
        (3.0, r"costs has shape \(\), but there are 2 labels"),
        (pd.DataFrame([[0, 1]], index=["a"], columns=["a", "b"]), r"The index of costs must hold every label once"),
        (pd.DataFrame([[0, 1]] * 2, index=["a", "b"], columns=["a", "a"]), r"The columns of costs must hold every"),
        (pd.DataFrame([[0, "x"]] * 2, index=["a", "b"], columns=["a", "b"]), r"costs table must hold numbers"),
    ],
)
def test_strange_costs_are_refused(costs, match):
    with pytest.raises(ParameterError, match=match):
        cost_matrix(costs, np.array(["a", "b"]))


def test_a_table_of_costs_needs_names_for_its_rows():
    polars = pytest.importorskip("polars")
    with pytest.raises(ParameterError, match=r"costs is a table without names for its rows \(DataFrame\)"):
        cost_matrix(polars.DataFrame({"a": [0, 1], "b": [1, 0]}), np.array(["a", "b"]))


def test_costs_need_posterior_decoding():
    model = small(decoding="viterbi").fit(X, Y)
    with pytest.raises(ParameterError, match=r"costs= weighs the errors of single labels, but decoding='viterbi'"):
        model.predict(X, costs={("a", "b"): 3})


# ----------------------------------------------------------------------------------------------------------- beam


@pytest.mark.parametrize("decoding", ["posterior", "viterbi"])
def test_beam_of_prediction_is_the_beam_of_the_labeler(decoding):
    model = small(order=2, decoding=decoding).fit(X, Y)
    prob = model.predict_proba(X, beam=np.int64(2))
    exact = model.predict_proba(X)
    assert not all_equal(prob, exact)
    assert all_equal(model.predict_proba(X, beam=9), exact)
    pruned = small(order=2, decoding=decoding, beam=2).fit(X, Y)  # prediction keeps as many as training
    assert all_equal(pruned.predict(X), pruned.predict(X, beam=2))
    assert all_equal(pruned.predict_proba(X), pruned.predict_proba(X, beam=2))
    assert not all_equal(pruned.predict_proba(X), pruned.predict_proba(X, beam=9))


def test_beam_with_known_labels():
    model = small(order=2).fit(X, Y)
    known = some_known(Y)
    for beam in (1, 3):
        assert all(map(fits, model.predict(X, known=known, beam=beam), known))
    np.testing.assert_allclose(
        np.concatenate(model.predict_proba(X, known=known, beam=8)),
        np.concatenate(model.predict_proba(X, known=known)),
        atol=0.05,
    )


@pytest.mark.parametrize("beam", [0, -1, 2.5, "wide", True])
def test_strange_beams_are_refused(beam):
    model = small().fit(X, Y)
    for method in ("predict", "predict_proba"):
        with pytest.raises(ParameterError, match=rf"The 'beam' parameter of {method} must be an int of 1 or more or N"):
            getattr(model, method)(X, beam=beam)


def test_seen_contexts_have_no_beam():
    model = small(order=2, contexts="seen").fit(X, Y)
    with pytest.raises(ParameterError, match=r"contexts='seen'\) have no beam search, got beam=2"):
        model.predict(X, beam=2)
