"""FutureFeatureMEMM and FutureFeatures: patterns that lie further on."""

from __future__ import annotations

import numpy as np
import pytest
from family_data import EXPECTED_FAILURES, FLAT, NO_ARRAY_API, check_labeler
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from treecrf_data import all_equal, chains

from seqboost import FutureFeatureMEMM, FutureFeatures, TreeCRF, load
from seqboost.datasets import make_future_bits
from seqboost.estimators import prediction
from seqboost.exceptions import InputError, MemoryLimitError, ModelFileError, ParameterError
from seqboost.model.file import read_model, write_model


def small(order=0, **parameters):
    common = {"max_iter": 5, "min_samples_leaf": 1, "max_leaf_nodes": 6, "max_patterns": 2, "random_state": 0}
    return FutureFeatureMEMM(order, **common | parameters)


def later(n=150, seed=0, far=4, mirrored=False):
    """Words in which an "a" is 1 if an "x" comes within ``far`` letters; all else is 0."""
    rng = np.random.default_rng(seed)
    X = ["".join(rng.choice(list("abx"), rng.integers(1, 14), p=[0.5, 0.38, 0.12])) for _ in range(n)]
    y = [[int(c == "a" and "x" in word[t + 1 : t + 1 + far]) for t, c in enumerate(word)] for word in X]
    return ([w[::-1] for w in X], [labels[::-1] for labels in y]) if mirrored else (X, y)


@pytest.mark.parametrize("kind", ["xor", "or", "extra"])
def test_labels_that_later_positions_decide_are_learnt(kind):
    training, test = make_future_bits(kind, 400, random_state=0), make_future_bits(kind, 60, random_state=1)
    model = FutureFeatureMEMM(0, bag_size=6, random_state=0).fit(training.X, training.y)
    assert model.score(test.X, test.y) >= 0.995
    blind = FutureFeatureMEMM(0, bag_size=6, random_state=0, max_patterns=0).fit(training.X, training.y)
    assert blind.score(test.X, test.y) < 0.9
    assert model.patterns_
    assert blind.patterns_ == []


@pytest.mark.parametrize(("direction", "mirrored"), [("future", False), ("past", True), ("both", False)])
@pytest.mark.parametrize("order", [0, 1])
def test_patterns_ahead_and_behind(direction, mirrored, order):
    X, y = later(mirrored=mirrored)
    model = FutureFeatureMEMM(order, bag_size=4, direction=direction, random_state=0).fit(X, y)
    words, labels = later(60, seed=1, mirrored=mirrored)
    assert model.score(words, labels) > (0.85 if direction == "both" else 0.98)
    fires = np.concatenate(model.pattern_probabilities(words))[:, 0]
    is_x = np.concatenate([[c == "x" for c in word] for word in words])
    assert fires[is_x].min() > fires[~is_x].max()
    assert next(iter(model.patterns_[0].importances)) == "x0"
    assert model.patterns_[0].effect[1] > model.patterns_[0].effect[0]


def test_bags_without_an_end():
    X, y = later(200, far=100)
    words, labels = later(60, seed=1, far=100)
    assert FutureFeatureMEMM(0, bag_size=None, random_state=0).fit(X, y).score(words, labels) > 0.98


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("patterns", ["shared", "per_label"])
def test_held_out_sequences_ride_along_with_the_scores_of_prediction(order, patterns):
    X, y = chains(40, lengths=(1, 8))
    X_val, y_val = chains(20, lengths=(1, 8), seed=1)
    model = small(order, patterns=patterns, window=1).fit(X, y, X_val=X_val, y_val=y_val)
    expected = model.log_prob(X_val, y_val).sum() / sum(map(len, y_val))
    assert model.history_["validation_score"][-1] == pytest.approx(expected, rel=1e-5)
    assert model.history_["level"][0] == "labels"
    assert np.all(np.diff(model.history_["validation_score"]) >= 0)


def test_many_labels_have_a_table_of_transitions():
    rng = np.random.default_rng(0)
    y = [(rng.integers(12) + np.arange(10)) % 12 for _ in range(60)]
    X = [labels[:, None] % 6 + 0.1 * rng.normal(size=(10, 1)) for labels in y]
    model = FutureFeatureMEMM(1, random_state=0, max_patterns=1).fit(X, y)
    assert model._result.forest.order == 0
    assert model.score(X, y) > 0.7
    blind = FutureFeatureMEMM(0, random_state=0, max_patterns=0).fit(X, y)
    assert model.score(X, y) > blind.score(X, y) + 0.1


@pytest.mark.parametrize("form", ["numbers", "words"])
def test_saved_and_threaded_models_are_the_same_to_the_bit(form, tmp_path):
    X, y = chains(20) if form == "numbers" else later(40)
    model = small(1, bag_size=3).fit(X, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, FutureFeatureMEMM)
    assert all_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.history_ == model.history_
    assert again.patterns_ == model.patterns_
    other = small(1, bag_size=3, n_jobs=3).fit(X, y)
    assert all_equal(other.predict_proba(X), model.predict_proba(X))


def test_parameters_changed_after_fit_wait_for_the_next_fit(tmp_path):
    X, y = later(40)
    model = small(1, bag_size=3).fit(X, y)
    before = model.predict_proba(X)
    model.set_params(bag_size=1, direction="past", pattern_start=-1.0, order=0)
    assert all_equal(model.predict_proba(X), before)
    model.save(tmp_path / "model")
    assert all_equal(load(tmp_path / "model").predict_proba(X), before)


def test_files_with_missing_parts_are_refused(tmp_path):
    X, y = later(40)
    model = small(0, bag_size=3).fit(X, y)
    assert model.patterns_
    model.save(tmp_path / "model")
    document, arrays = read_model(tmp_path / "model")
    del_pattern = {name: array for name, array in arrays.items() if not name.startswith("pattern0.")}
    write_model(tmp_path / "broken", document, del_pattern)
    with pytest.raises(ModelFileError, match="does not hold a complete model"):
        load(tmp_path / "broken")
    write_model(tmp_path / "broken", document, arrays | {"effects": arrays["effects"][:, :1]})
    with pytest.raises(ModelFileError, match="do not fit together"):
        load(tmp_path / "broken")


def test_unobserved_labels_are_left_out_of_training():
    X, y = later(100)
    hidden = [[None if t % 3 == 2 else label for t, label in enumerate(labels)] for labels in y]
    words, labels = later(60, seed=1)
    assert FutureFeatureMEMM(1, bag_size=4, random_state=0).fit(X, hidden).score(words, labels) > 0.95
    with pytest.raises(InputError, match="has its 1 labels before it observed"):
        small(1).fit(["ab"] * 10, [[None, "u"], [None, "v"]] * 5)


def test_features_are_columns_for_any_labeller():
    data, test = make_future_bits("or", 400, random_state=0), make_future_bits("or", 60, random_state=1)
    crf = TreeCRF(window=0, max_iter=100, random_state=0)
    both = make_pipeline(FutureFeatures(FutureFeatureMEMM(0, bag_size=6, random_state=0)), crf).fit(data.X, data.y)
    assert both.score(test.X, test.y) > 0.98
    assert crf.fit(data.X, data.y).score(test.X, test.y) < 0.9
    finder = both[0]
    batch = finder.transform(test.X)
    assert batch.schema.names[-1] == finder.names_[-1] == "future_pattern_" + str(len(finder.names_) - 1)
    assert finder.get_feature_names_out().tolist() == list(batch.schema.names)
    q = np.concatenate(finder.model_.future_features(test.X))
    np.testing.assert_array_equal(batch.numeric[:, -q.shape[1] :], q)


def test_features_of_near_and_far_can_be_chained():
    X, y = later(60)
    near = FutureFeatures(small(bag_size=2)).fit(X, y)
    batch = near.transform(X)
    far = FutureFeatures(small(bag_size=None)).fit(batch, y)
    assert not set(near.names_) & set(far.names_)
    assert len(far.transform(batch).schema.names) == 1 + len(near.names_) + len(far.names_)


def test_output_settings_of_scikit_learn_do_not_touch_batches():
    X, y = later(40)
    with config_context(transform_output="pandas"):
        assert len(FutureFeatures(small(bag_size=2)).fit_transform(X, y)) == 40


def test_features_need_a_model_that_finds_them():
    with pytest.raises(ParameterError, match="'model' parameter of FutureFeatures must be a FutureFeatureMEMM"):
        FutureFeatures(TreeCRF()).fit(*later(20))


def test_held_out_labels_that_cannot_be_scored_are_refused():
    X, y = later(40)
    hidden = [[None if t % 2 == 0 else label for t, label in enumerate(labels)] for labels in y]
    usable = [i for i, labels in enumerate(y) if len(labels) > 1][:5]
    with pytest.raises(InputError, match="no held-out label has its 1 labels before it observed"):
        small(1).fit(X, y, X_val=[X[i] for i in usable], y_val=[hidden[i] for i in usable])


def test_what_does_not_fit_into_memory_is_refused():
    X = ["abcdefghi" * 2] * 60
    y = [[c + str(t % 1) for t, c in enumerate(word)] for word in X]
    with pytest.raises(MemoryLimitError, match="lower order"):
        small(8, max_patterns=0).fit(X, y)


def test_prediction_in_pieces_is_the_same(monkeypatch):
    X, y = later(40)
    model = small(1, bag_size=3).fit(X, y)
    whole = model.predict_proba(X)
    monkeypatch.setattr(prediction, "MOST_CELLS", 60)
    assert all_equal(model.predict_proba(X), whole)
    assert all_equal(model.predict(X), [model.classes_[p.argmax(axis=1)] for p in whole])


def test_one_long_sequence_is_cut_into_blocks_and_a_short_one_refused():
    X, y = chains(1, lengths=(3000, 3001))
    assert len(small(1).fit(X, y).predict(X)[0]) == len(y[0])
    with pytest.raises(ParameterError, match="chosen by held-out sequences, but X has only one"):
        small().fit([X[0][:50]], [y[0][:50]])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"bag_size": 0}, "'bag_size'.*an int from 1 to .* or None"), ({"direction": "left"}, "'direction'.*one of"),
     ({"pattern_start": 1.0}, "'pattern_start'"), ({"patterns": "both"}, "'patterns'"), ({"order": -1}, "'order'"),
     ({"max_patterns": -1}, "'max_patterns'"), ({"validation_fraction": 0.0}, "'validation_fraction'")],
)  # fmt: skip
def test_absurd_parameters(parameters, message):
    X, y = later(20)
    with pytest.raises(ParameterError, match=message):
        FutureFeatureMEMM(**parameters).fit(X, y)


def test_generator_refuses_other_kinds():
    with pytest.raises(ParameterError, match="kind must be one of"):
        make_future_bits("and")
    with pytest.raises(ParameterError, match="n_sequences must be 1 or more"):
        make_future_bits("or", 0)


def test_generator_makes_what_the_source_describes():
    data = make_future_bits("extra", 300, random_state=0)
    for x, y, bag, rare in zip(*data, strict=True):
        n_set = x[:, :6].sum(axis=1)
        assert x.shape == (30, 8)
        for t in range(30):
            assert rare[t] == (n_set[t] <= 1)
            assert bag[t] == any(rare[s] for s in range(t + 1, min(t + 7, 30)))
            assert y[t] == (n_set[t] + bag[t] >= 4)
    assert 0.4 < np.concatenate([b[:24] for b in data.bags]).mean() < 0.6
    again = make_future_bits("extra", 300, random_state=0)
    assert all_equal(again.X, data.X)


def test_contract(tmp_path):
    check_labeler(small(1, max_patterns=1), tmp_path=tmp_path)


HELD_OUT = "sequences are held out at random to choose rounds and patterns: other ones if there are more of them"
WEIGHTS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
EXPECTED = EXPECTED_FAILURES | dict.fromkeys(WEIGHTS, HELD_OUT)


@pytest.mark.filterwarnings(FLAT, NO_ARRAY_API, "ignore:FutureFeatureMEMM keeps no round of boosting")  # noise
@parametrize_with_checks([small(0, max_patterns=1)], expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
