"""TreeCRF with minimum durations of labels: what it predicts, files, and what it refuses."""

from __future__ import annotations

import itertools
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from treecrf_data import all_equal, labellings, small

import seqboost
from seqboost import MEMM, TreeCRF
from seqboost.chain.reference import runs_are_long
from seqboost.exceptions import InputError, ModelFileError, ParameterError
from seqboost.model import read_model, write_model

LABELS = np.array(["a", "b", "c"])


def lasting(n=12, length=40, n_labels=3, shortest=4, longest=None, noise=1.0, seed=0):
    """Return sequences cut from longer ones whose runs have at least ``shortest`` positions."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        codes, k = [], int(rng.integers(n_labels))
        while len(codes) < length + 20:
            codes += [k] * int(rng.integers(shortest, longest or 3 * shortest))
            k = (k + int(rng.integers(1, n_labels))) % n_labels
        codes = np.array(codes)[(first := int(rng.integers(20))) : first + length]
        X.append(codes[:, None] + noise * rng.normal(size=(length, 1)))
        y.append(LABELS[codes].tolist())
    return X, y


def allowed(path, model):
    """Tell whether a labelling is within the durations of a model."""
    codes = tuple(np.searchsorted(model.classes_, path).tolist())
    return runs_are_long(codes, model._result.model.durations)


@pytest.fixture(scope="module")
def data():
    return lasting()


@pytest.fixture(scope="module", params=["joint", "factored"])
def model(request):
    data = lasting(60, shortest=3, longest=5, noise=0.8)
    return small(min_duration={"a": 3, "c": 2}, potentials=request.param, window=0, max_iter=25).fit(*data)


def short_sequences(n=3, length=6, seed=3):
    return [np.random.default_rng([seed, i]).normal(1.0, 1.5, size=(length, 1)) for i in range(n)]


def test_probabilities_are_those_of_all_labellings_within_the_durations(model):
    for x in short_sequences():
        paths = labellings(model.classes_, len(x))
        log_prob = model.log_prob([x] * len(paths), paths)
        is_allowed = np.array([allowed(path, model) for path in paths])
        assert np.array_equal(log_prob > -np.inf, is_allowed)
        prob = np.exp(log_prob)
        assert prob.sum() == pytest.approx(1.0, abs=1e-5)
        member = np.array(paths)[:, :, None] == model.classes_
        np.testing.assert_allclose(model.predict_proba([x])[0], np.einsum("p,ptk->tk", prob, member), atol=1e-5)
        pairs = model.predict_marginals([x])[0]
        np.testing.assert_allclose(
            pairs[1:], np.einsum("p,ptj,ptk->tjk", prob, member[:, :-1], member[:, 1:]), atol=1e-5
        )
        hidden = [None, *paths[5][1:3], None, None, paths[5][5]]
        agrees = [all(a in (None, b) for a, b in zip(hidden, path, strict=True)) for path in paths]
        assert model.log_prob([x], [hidden])[0] == pytest.approx(np.log(prob[agrees].sum()), abs=1e-5)


def test_decoding_is_the_best_labelling_within_the_durations(model):
    best = clone(model).set_params(decoding="viterbi")
    best.__dict__ |= {name: value for name, value in vars(model).items() if name != "decoding"}
    n_changed = 0
    for x in short_sequences(40, length=7):
        paths = [path for path in labellings(model.classes_, len(x)) if allowed(path, model)]
        log_prob, node = model.log_prob([x] * len(paths), paths), model.predict_proba([x])[0]
        expected = [sum(node[t, list(model.classes_).index(k)] for t, k in enumerate(path)) for path in paths]
        chosen = model.predict([x])[0].tolist()
        assert allowed(chosen, model)
        assert expected[paths.index(chosen)] == pytest.approx(max(expected), abs=1e-5)
        n_changed += chosen != model.classes_[node.argmax(axis=1)].tolist()
        assert log_prob[paths.index(best.predict([x])[0].tolist())] == pytest.approx(log_prob.max(), abs=1e-5)
        several = model.predict_kbest([x], k=9)[0]
        assert len({tuple(path) for path, _ in several}) == 9
        np.testing.assert_allclose([value for _, value in several], np.sort(log_prob)[::-1][:9], atol=1e-5)
        assert model.log_prob([x], [several[4][0]])[0] == pytest.approx(several[4][1], abs=1e-5)
    assert n_changed


@pytest.mark.parametrize("decoding", ["posterior", "viterbi"])
@pytest.mark.parametrize("duration", [4, {"a": 4, "b": 4}])
def test_no_run_is_too_short(decoding, duration):
    X, y = lasting(30, noise=0.8)
    model, plain = (small(min_duration=d, decoding=decoding, max_iter=40).fit(X, y) for d in (duration, 1))
    new = lasting(20, noise=2.0, seed=1)[0]
    assert all(allowed(path, model) for path in model.predict(new))
    assert not all(allowed(path, model) for path in plain.predict(new))


def test_labels_that_last_are_more_probable():
    X, y = lasting(40, noise=1.5, shortest=6)
    new = lasting(40, noise=1.5, shortest=6, seed=1)
    plain, model = (TreeCRF(min_duration=d, max_iter=60, random_state=0).fit(X, y) for d in (1, 6))
    assert model.log_prob(*new).mean() > plain.log_prob(*new).mean() + 0.5
    assert (np.diff(model.history_["train_score"]) >= 0).all()


def test_one_position_is_the_plain_model(data):
    X, y = data
    plain = small().fit(X, y)
    for duration in (1, {}, {"b": 1}, np.int64(1)):
        model = small(min_duration=duration).fit(X, y)
        assert all_equal(model.predict_proba(X), plain.predict_proba(X))
        assert model._result.model.durations is None


@pytest.mark.parametrize("setting", [{"init": "linear"}, {"class_weight": "balanced"}, {"curvature": "newton"}])
def test_goes_with_other_settings(data, setting):
    X, y = data
    model = small(min_duration=4, potentials="factored", **setting).fit(X, y)
    assert all(allowed(path, model) for path in model.predict(X))
    assert (np.diff(model.history_["train_score"]) >= 0).all()


def test_goes_with_transitions_and_unobserved_labels(data):
    X, y = data
    y = [[None if t % 7 == 3 else label for t, label in enumerate(labels)] for labels in y]
    order = {"a": ["a", "b", "c"], "b": ["a", "b", "c"], "c": ["a", "b", "c"]}
    model = small(min_duration=3, transitions=order).fit(X, y)
    assert all(allowed(path, model) for path in model.predict(X))
    for a, b in itertools.pairwise(model.history_["train_score"]):
        assert b >= a
    after_a = {"a": ["a", "b"], "b": ["b", "c"], "c": ["c", "a"]}
    turns = [["a"] * 4 + ["b"] * 5 + ["c"] * 4 + ["a"] * 3] * 4
    X = [np.random.default_rng(i).normal(size=(16, 1)) for i in range(4)]
    model = small(min_duration=4, transitions=after_a).fit(X, turns)
    for path in model.predict(X):
        assert allowed(path, model)
        assert all(b in after_a[a] for a, b in itertools.pairwise(path.tolist()))


def test_one_long_sequence_is_cut_to_be_held_out():
    X, y = lasting(1, length=2500)
    model = TreeCRF(min_duration=4, max_iter=5, random_state=0).fit(X, y)
    assert len(model.history_["validation_score"]) > 1


def test_threads_change_nothing(data):
    one, two = (small(min_duration=3, n_jobs=n).fit(*data) for n in (1, 2))
    assert all_equal(one.predict_proba(data[0]), two.predict_proba(data[0]))
    assert one.history_["train_score"] == two.history_["train_score"]


def test_file_and_pickle_there_and_back(model, data, tmp_path):
    X, y = data
    path, again = tmp_path / "model.seqboost", tmp_path / "again.seqboost"
    model.save(path)
    for other in (seqboost.load(path), pickle.loads(pickle.dumps(model))):
        assert all_equal(model.predict_proba(X), other.predict_proba(X))
        assert all_equal(model.predict(X), other.predict(X))
        assert np.array_equal(model.log_prob(X, y), other.log_prob(X, y))
        assert other.min_duration == {"a": 3, "c": 2}
    seqboost.load(path).save(again)
    assert path.read_bytes() == again.read_bytes()


def test_forged_files_are_refused(data, tmp_path):
    path = tmp_path / "model.seqboost"
    small(min_duration=3).fit(*data).save(path)
    header, arrays = read_model(path)
    for durations in (np.array([3, 3]), np.array([3, 0, 3]), np.array([3, 3, 2**40]), np.array([3.0, 3.0, 3.0])):
        write_model(path, header, arrays | {"durations": durations})
        with pytest.raises(ModelFileError, match="durations"):
            seqboost.load(path)
    small(order=2).fit(*data).save(path)
    header, arrays = read_model(path)
    write_model(path, header, arrays | {"durations": np.array([3, 3, 3])})
    with pytest.raises(ModelFileError, match="durations need order 1 and all contexts"):
        seqboost.load(path)
    MEMM(max_iter=2).fit(*data).save(path)
    header, arrays = read_model(path)
    write_model(path, header, arrays | {"durations": np.array([3, 3, 3])})
    with pytest.raises(ModelFileError, match="minimum durations, which MEMM does not have"):
        seqboost.load(path)


def test_warm_start_goes_on_with_the_same_durations(data):
    X, y = data
    whole = small(min_duration=3, max_iter=6).fit(X, y)
    model = small(min_duration=3, max_iter=3, warm_start=True).fit(X, y)
    model.set_params(max_iter=6).fit(X, y)
    assert all_equal(model.predict_proba(X), whole.predict_proba(X))
    with pytest.raises(ParameterError, match="'min_duration' parameter was 3 in the last fit and is 2 now"):
        model.set_params(min_duration=2).fit(X, y)


def test_short_runs_are_named(data):
    X, y = data
    y = [list(labels) for labels in y]
    y[5][20:24] = ["a", "b", "a", "a"]
    message = (
        r"y\[5\] has a run of 1 position\(s\) of 'b' that starts at position 21, but min_duration asks for 2 or more"
    )
    with pytest.raises(InputError, match=message + "; smooth the labels, or lower min_duration of 'b'"):
        small(min_duration={"b": 2}).fit(X, y)
    with pytest.raises(InputError, match=re.escape("y_val[5] has a run of 1 position(s) of 'b'")):
        small(min_duration={"b": 2}).fit(*data, X_val=X, y_val=y)


def test_unobserved_labels_that_cannot_be_filled_are_named(data):
    X, y = data
    y_val = [list(labels) for labels in y]
    y_val[7] = ["a"] * 20 + ["a", "b", None, "a"] + ["a"] * 16
    with pytest.raises(
        InputError, match=re.escape("no labels for the unobserved positions of y_val[7] make every run")
    ):
        small(min_duration={"b": 3}).fit(X, y, X_val=X, y_val=y_val)


def test_files_of_earlier_versions_have_no_durations(data, tmp_path):
    X, y = data
    path = tmp_path / "model.seqboost"
    model = small().fit(X, y)
    model.save(path)
    header, arrays = read_model(path)
    del header["parameters"]["min_duration"], header["lasting"]["min_duration"]
    write_model(path, header, arrays)
    loaded = seqboost.load(path)
    assert loaded.min_duration == 1
    assert all_equal(loaded.predict_proba(X), model.predict_proba(X))
    more = loaded.set_params(warm_start=True, max_iter=6).fit(X, y)
    assert all_equal(more.predict_proba(X), small(max_iter=6).fit(X, y).predict_proba(X))


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", None, [2, 2], {"a": 0}, {"a": 2.5}, {"a": "3"}, 2**31])
def test_values_that_make_no_sense(data, value):
    with pytest.raises(ParameterError, match=r"'min_duration' parameter of TreeCRF must be an int from 1 .* or a dict"):
        small(min_duration=value).fit(*data)


def test_unknown_labels(data):
    with pytest.raises(
        ParameterError, match=r"min_duration names the label 'x', which is not in y. The labels are \['a'"
    ):
        small(min_duration={"x": 2}).fit(*data)


@pytest.mark.parametrize(
    ("setting", "needed"),
    [
        ({"order": 0}, "order=1, but order=0"),
        ({"order": 2}, "order=1, but order=2"),
        ({"contexts": "seen"}, "contexts='all', but contexts='seen'"),
        ({"objective": "pseudo_likelihood"}, "objective='likelihood', but objective='pseudo_likelihood'"),
        ({"objective": "position_likelihood"}, "objective='likelihood', but objective='position_likelihood'"),
        ({"pseudo_likelihood_rounds": 2}, "pseudo_likelihood_rounds=0, but pseudo_likelihood_rounds=2"),
        ({"beam": 2}, "beam=None, but beam=2"),
    ],
)
def test_what_does_not_go_together(data, setting, needed):
    for duration in (2, {"a": 2}):
        with pytest.raises(ParameterError, match=re.escape(f"min_duration needs {needed} was asked for; use")):
            small(min_duration=duration, **setting).fit(*data)


def test_a_beam_after_fit_is_refused(data):
    model = small(min_duration=2).fit(*data)
    with pytest.raises(ParameterError, match=re.escape("chains with minimum durations (min_duration) have no beam")):
        model.predict(data[0], beam=1)


@pytest.mark.parametrize("potentials", ["joint", "factored"])
def test_metrics_of_fit_are_those_of_predictions(potentials):
    (X, y), (X_val, y_val) = lasting(), lasting(n=4, seed=1)
    model = small(min_duration=4, potentials=potentials)
    own = []

    def share(truth, guesses):
        own.append(np.concatenate(guesses))
        return float(np.mean(np.concatenate(truth) == own[-1]))

    model.fit(X, y, eval_set=[(X_val, y_val)], eval_metric=["macro_f1", "log_loss", share])
    prob = np.concatenate(model.predict_proba(X_val))
    true = np.searchsorted(model.classes_, np.concatenate(y_val))
    found = model.evals_result_["validation"]
    assert own[-1].tolist() == model.classes_[prob.argmax(axis=1)].tolist()
    assert found["share"][-1] == pytest.approx(found["accuracy"][-1])
    assert found["log_loss"][-1] == pytest.approx(-np.log(prob[np.arange(len(true)), true]).mean(), abs=1e-5)


def test_short_runs_of_further_evaluation_sets_are_named():
    data, strange = lasting(n=4), lasting(n=3, seed=1)
    strange[1][2][20:25] = ["a", "a", "b", "c", "c"]
    with pytest.raises(InputError, match=r"eval_set\[1\]\[1\]\[2\] has a run of"):
        small(min_duration=4).fit(*data, eval_set=[data, strange])


def test_true_is_not_the_label_1():
    X, y = lasting(n_labels=2)
    numbers = [[LABELS.tolist().index(label) for label in labels] for labels in y]
    with pytest.raises(ParameterError, match="min_duration names the label True, which is not in y"):
        small(min_duration={True: 4}).fit(X, numbers)


def test_known_labels_that_durations_forbid(data):
    model = small(min_duration=2).fit(*data)
    x = data[0][0][:1].repeat(5, axis=0)
    first, second = model.classes_[:2].tolist()
    with pytest.raises(InputError, match="Given the labels in known=, no labelling of sequence 0"):
        model.predict([x], known=[[first, first, second, first, first]])


@pytest.mark.parametrize("place", [3, 17])
def test_unobserved_labels_that_cannot_last_are_named_by_the_users_number(place):
    rules = {"min_duration": {1: 3}, "transitions": {0: [0, 1], 1: [1, 2], 2: [2, 0]}, "early_stopping": True}
    y = [[0, 1, 1, 1, 2, 2]] * place + [[0, 0, None, 2, 2, 2]] + [[0, 1, 1, 1, 2, 2]] * (29 - place)
    with pytest.raises(InputError, match=rf"the observed ones of y\[{place}\] keep to min_duration and transitions"):
        small(**rules).fit([np.zeros((6, 1))] * 30, y)
