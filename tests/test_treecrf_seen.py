"""TreeCRF(contexts="seen"): the estimator on chains of seen contexts."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from treecrf_data import LABELS, all_equal, chains, labellings, small

import seqboost
from seqboost.exceptions import InputError, ModelFileError, ParameterError
from seqboost.model import read_model, write_model


def seen(**parameters):
    return small(**{"contexts": "seen", "order": 3} | parameters)


def parity(n=40, seed=0):
    """Return sequences whose label depends on the label three before it, which no column shows."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(4, 15, n):
        labels = rng.integers(3, size=length)
        for t in range(3, length):
            labels[t] = labels[t - 3] if rng.random() < 0.95 else labels[t]
        rows = rng.normal(size=(length, 1))
        rows[:3, 0] = 10 * labels[:3]
        X.append(rows)
        y.append(LABELS[labels].tolist())
    return X, y


@pytest.mark.parametrize("order", [1, 2, 4])
def test_probabilities_are_those_of_one_distribution(order):
    X, y = chains(n=30)
    model = seen(order=order).fit(X, y)
    rows = np.random.default_rng(1).normal(size=(4, 2))
    every = labellings(model.classes_, 4)
    log_prob = model.log_prob([rows] * len(every), every)
    np.testing.assert_allclose(np.exp(log_prob).sum(), 1.0, rtol=1e-6)
    node = model.predict_proba([rows])[0]
    expected = np.zeros_like(node)
    for labels, p in zip(every, np.exp(log_prob), strict=True):
        expected[np.arange(4), np.searchsorted(model.classes_, labels)] += p
    np.testing.assert_allclose(node, expected, atol=1e-6)
    best = model.set_params(decoding="viterbi").predict([rows])[0].tolist()
    assert best == every[int(np.argmax(log_prob))]
    hidden = [None, every[5][1], None, every[5][3]]
    agree = [i for i, labels in enumerate(every) if labels[1] == hidden[1] and labels[3] == hidden[3]]
    np.testing.assert_allclose(model.log_prob([rows], [hidden]), np.log(np.exp(log_prob[agree]).sum()), rtol=1e-6)


def test_longer_histories_are_learned():
    X, y = parity()
    X_test, y_test = parity(seed=1)
    scores = {order: seen(order=order, max_iter=20, window=0).fit(X, y).score(X_test, y_test) for order in (1, 3)}
    everything = small(order=3, max_iter=20, potentials="factored", window=0).fit(X, y).score(X_test, y_test)
    assert scores[3] > scores[1] + 0.2
    assert scores[3] > everything - 0.05


@pytest.mark.parametrize("curvature", ["mixing", "newton"])
def test_the_likelihood_climbs(curvature):
    X, y = parity()
    model = seen(max_iter=30, curvature=curvature, learning_rate=0.2).fit(X, y)
    assert (np.diff(model.history_["train_score"]) >= 0).all()
    assert model.potentials_ == "factored"


def test_threads_change_nothing():
    X, y = chains(n=60)
    one, two = (seen(n_jobs=n).fit(X, y) for n in (1, 2))
    assert all_equal(one.predict_proba(X), two.predict_proba(X))
    assert one.history_["train_score"] == two.history_["train_score"]


def test_file_and_pickle_there_and_back(tmp_path):
    X, y = chains(n=40)
    model = seen(transitions=np.ones((3, 3))).fit(X, y)
    path = tmp_path / "model.seqboost"
    model.save(path)
    for other in (seqboost.load(path), pickle.loads(pickle.dumps(model))):
        assert all_equal(model.predict_proba(X), other.predict_proba(X))
        assert np.array_equal(model.log_prob(X, y), other.log_prob(X, y))
        assert other.get_params()["method__contexts"] == "seen"
    again = tmp_path / "again.seqboost"
    seqboost.load(path).save(again)
    assert path.read_bytes() == again.read_bytes()


def test_forged_file_is_refused(tmp_path):
    path = tmp_path / "model.seqboost"
    seen().fit(*chains(n=40)).save(path)
    header, arrays = read_model(path)
    changes = {
        "seen.prefix": arrays["seen.prefix"] + np.int32(1000),
        "seen.arc_label": arrays["seen.arc_label"][:-1],
        "table": arrays["table"][:-1],
        "seen.allowed": arrays["seen.allowed"][1:],
    }
    for name, array in changes.items():
        write_model(path, header, arrays | {name: array})
        with pytest.raises(ModelFileError, match="save the model again"):
            seqboost.load(path)
    write_model(path, header, {name: array for name, array in arrays.items() if name != "seen.arc_start"})
    with pytest.raises(ModelFileError, match="lacks 'arc_start'"):
        seqboost.load(path)
    write_model(path, header, arrays | {"table": np.full_like(arrays["table"], -np.inf)})
    with pytest.raises(ModelFileError, match="do not fit together"):
        seqboost.load(path)


def test_file_of_a_version_without_contexts_loads(tmp_path):
    X, y = chains()
    path = tmp_path / "model.seqboost"
    model = small().fit(X, y)
    model.save(path)
    header, arrays = read_model(path)
    header["parameters"].pop("method")
    del header["lasting"]["contexts"]
    write_model(path, header, arrays)
    loaded = seqboost.load(path)
    assert loaded.method is None
    assert all_equal(model.predict_proba(X), loaded.predict_proba(X))


def test_warm_start_goes_on_where_the_last_fit_stopped():
    X, y = chains(n=40)
    whole = seen(max_iter=6).fit(X, y)
    parts = seen(max_iter=3, warm_start=True).fit(X, y)
    parts.set_params(max_iter=6).fit(X, y)
    np.testing.assert_allclose(
        np.concatenate(parts.predict_proba(X)), np.concatenate(whole.predict_proba(X)), atol=1e-5
    )
    with pytest.raises(ParameterError, match="'contexts' parameter was 'seen' in the last fit"):
        parts.set_params(method__contexts="all").fit(X, y)


def test_weight_two_is_repetition():
    X, y = chains(n=20)
    twice = (X + X, y + y)  # so that all histories are contexts either way
    weighted = seen().fit(*twice, sample_weight=np.where(np.arange(40) < 7, 2.0, 1.0))
    repeated = seen().fit(X + X + X[:7], y + y + y[:7])
    np.testing.assert_allclose(
        np.concatenate(weighted.predict_proba(X)), np.concatenate(repeated.predict_proba(X)), atol=1e-4
    )


def test_forbidden_transitions_are_kept():
    X, y = chains(n=40, seed=3)
    kept = [i for i, labels in enumerate(y) if "ca" not in "".join(labels)]
    X_kept, y_kept = [X[i] for i in kept], [y[i] for i in kept]
    allowed = np.ones((3, 3), bool)
    allowed[2, 0] = False
    for transitions in (allowed, "seen"):
        for decoding in ("posterior", "viterbi"):
            model = seen(transitions=transitions, decoding=decoding).fit(X_kept, y_kept)
            for labels in model.predict(X):
                assert "ca" not in "".join(labels)
    model = seen(transitions=allowed).fit(X_kept, y_kept)
    assert model.log_prob([X[0][:1].repeat(2, axis=0)], [["c", "a"]])[0] == -np.inf
    with pytest.raises(InputError, match=r"y\[\d+\] moves from 'c' to 'a' at position \d+"):
        seen(transitions=allowed).fit(X, y)


def test_validation_and_class_weights_go_along():
    X, y = chains(n=40)
    model = seen(early_stopping=True, class_weight="balanced", max_iter=8).fit(X, y)
    assert len(model.history_["validation_score"]) >= 2
    rare = seen(class_weight={"a": 50.0, "b": 1.0, "c": 1.0}).fit(X, y).predict_proba(X)
    plain = seen().fit(X, y).predict_proba(X)
    assert np.concatenate(rare)[:, 0].mean() > np.concatenate(plain)[:, 0].mean() + 0.1


def test_order_0_has_no_contexts():
    X, y = chains()
    assert all_equal(seen(order=0).fit(X, y).predict_proba(X), small(order=0).fit(X, y).predict_proba(X))


def test_many_labels_of_high_order():
    """134 labels of order 8 would be 10**17 contexts."""
    rng = np.random.default_rng(0)
    y = [rng.integers(134, size=6).tolist() for _ in range(40)]
    X = [np.array(labels, float)[:, None] for labels in y]
    model = seen(order=8, max_iter=1).fit(X, y)
    assert model.predict(X[:2])[0].shape == (6,)


def test_transition_scores_of_order_1():
    X, y = chains(n=30)
    model = seen(order=1, transitions="seen", max_iter=1).fit(X, y)
    scores = model.transition_scores_
    assert scores.shape == (3, 3)
    flat = [np.zeros((2, 2))]  # the same rows at both positions: labels differ by transitions alone
    both = model.log_prob(flat * 9, labellings(model.classes_, 2)).reshape(3, 3)
    own = both - scores
    gap = own[:, 1:] - own[:, :1]  # what is left over does not depend on the label before
    np.testing.assert_allclose(gap, np.tile(gap[:1], (3, 1)), atol=1e-5)


def test_clone_and_scikit_learn_parameters():
    assert clone(seen()).get_params()["method__contexts"] == "seen"


def test_errors():
    X, y = chains(n=12)
    with pytest.raises(ParameterError, match="'contexts' parameter of Method must be one of 'all', 'seen'. Got 'some'"):
        small(contexts="some").fit(X, y)
    with pytest.raises(ParameterError, match="contexts='seen' needs factored potentials"):
        seen(potentials="joint").fit(X, y)
    for parameters in ({"objective": "pseudo_likelihood"}, {"pseudo_likelihood_rounds": 3}):
        with pytest.raises(ParameterError, match="contexts='seen' needs objective='likelihood'"):
            seen(**parameters).fit(X, y)
    with pytest.raises(ParameterError, match="contexts='seen' starts from the labels alone, but init='linear'"):
        seen(init="linear").fit(X, y)
    with pytest.raises(ParameterError, match="has no beam search, but beam=2"):
        seen(beam=2).fit(X, y)
    model = seen().fit(X, y)
    with pytest.raises(ParameterError, match="k best labellings of a chain of seen contexts"):
        model.predict_kbest(X)
    with pytest.raises(ParameterError, match="predict_marginals has an entry for every context"):
        model.predict_marginals(X)
    with pytest.raises(ParameterError, match="no beam search, got beam=2"):
        model.predict(X, beam=2)
    with pytest.raises(AttributeError, match="transition_scores_ is there for order=1"):
        _ = model.transition_scores_
    hidden = [list(labels) for labels in y]
    hidden[4][-1] = None
    place = len(hidden[4]) - 1
    match = rf"contexts='seen' needs every label, but y\[4\] has an unobserved one \(None or NaN\) at position {place}"
    if place:
        with pytest.raises(InputError, match=match):
            seen().fit(X, hidden)
    with pytest.raises(InputError, match=r"y_val\[4\] has an unobserved one"):
        seen(early_stopping=True).fit(X, y, X_val=X, y_val=hidden)
