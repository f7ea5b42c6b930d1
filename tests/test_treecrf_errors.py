"""Bad input to TreeCRF: one message each, which says what was expected, what came, where, and how to mend it."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from treecrf_data import chains, small

import seqboost.training.memory as memory
from seqboost import HMM, MEMM, FutureFeatureMEMM, TreeCRF
from seqboost.exceptions import InputError, InputTypeError, MemoryLimitError, ParameterError

X, Y = chains()
LENGTHS = [len(labels) for labels in Y]


def changed(y, i, labels):
    """Return a copy of label sequences with another y[i]."""
    return [*y[:i], labels, *y[i + 1 :]]


@pytest.mark.parametrize(
    ("y", "error", "match"),
    [
        (changed(Y, 1, Y[1] + ["a"]), InputError,
         rf"y\[1\] has {LENGTHS[1] + 1} labels but X\[1\] has {LENGTHS[1]} positions"),
        (Y[:-1], InputError, r"y has 9 label sequences but X has 10 sequences"),
        (sum(Y, []), InputError, r"but X has 10 sequences\. Split it at the ends of the sequences"),
        (changed(Y, 2, 7), InputTypeError, r"y\[2\] is 7, a int; expected a sequence of \d+ labels for X\[2\]"),
        ([["a"] * n for n in LENGTHS], InputError, r"only one class, 'a'; TreeCRF needs at least two"),
        ([[None] * n for n in LENGTHS], InputError, r"no observed label: all \d+ labels are None or NaN"),
        ([[np.nan] * n for n in LENGTHS], InputError, r"no observed label: all \d+ labels are None or NaN"),
        (changed(Y, 0, [["a"]] * LENGTHS[0]), InputTypeError,
         r"label at sequence 0, position 0 is \['a'\], a list; a label must be"),
        (changed([np.zeros(n) for n in LENGTHS], 3, np.full(LENGTHS[3], np.inf)), InputError, r"y contains infinity"),
        (None, InputError, r"requires y to be passed, but the target y is None"),
        ("abc", InputTypeError, r"y='abc' is a string, which names a column of a table, but X is a list"),
        (3, InputTypeError, r"y is a int; expected a list"),
    ],
)  # fmt: skip
def test_bad_labels(y, error, match):
    with pytest.raises(error, match=match):
        small().fit(X, y)


@pytest.mark.parametrize(
    ("bad", "error", "match"),
    [
        ([], InputError, r"Found array with 0 sample\(s\): X holds no sequences"),
        (changed(X, 1, np.empty((0, 2))), InputError, r"X\[1\] is an empty sequence.*Drop empty sequences"),
        (changed(X, 1, np.full((LENGTHS[1], 2), np.inf)), InputError,
         r"infinity \(inf\) or .* a float: sequence 1, position 0, column 'x0'\. Replace it by NaN"),
        (changed(X, 1, np.ones((LENGTHS[1], 3))), InputError, r"X\[1\] has 3 features but X\[0\] has 2"),
        (changed(X, 1, ["word"] * LENGTHS[1]), InputTypeError, r"X\[0\] is a 2-D array but X\[1\] is a list"),
        (changed(X, 1, None), InputTypeError, r"X\[0\] is a 2-D array but X\[1\] is a single value"),
        (changed([x.tolist() for x in X], 0, [["a", 1.0]] * LENGTHS[0]), InputError,
         r"'x0' mixes numbers and other values"),
        ([x * 1j for x in X], InputTypeError, r"Complex data not supported: X\[0\]"),
        (None, InputTypeError, r"X is None"),
        ("abc", InputTypeError, r"X is a single string.*pass \[X\]"),
    ],
)  # fmt: skip
def test_bad_sequences(bad, error, match):
    with pytest.raises(error, match=match):
        small().fit(bad, Y)


ABSURD = {
    "learning_rate": [0, -1, np.nan, np.inf, 1e9, 10**400, "fast", None, True],
    "max_iter": [0, -3, 1.5, None, "many", True],
    "max_leaf_nodes": [1, 10**9, None, 3.0],
    "max_depth": [0, 10**30, 2.5],
    "min_samples_leaf": [0, 10**30, 0.1, None],
    "l2_regularization": [-1, np.inf, 10**400, None, 1j],
    "min_gain": [-0.1, np.nan],
    "max_features": [0, 1.5, "sqrt", None],
    "max_bins": [1, 256, 255.0],
    "categorical_splits": ["all", None],
    "order": [-1, 9, 1.0, None, True],
    "potentials": ["both", None, ["joint"]],
    "decoding": ["greedy", None, np.array("viterbi")],
    "curvature": ["exact", None],
    "beam": [0, 2.5, True],
    "early_stopping": ["yes", None, 1, 0],
    "validation_fraction": [0, 1.0, -0.1, 10, None],
    "n_iter_no_change": [0, None],
    "tol": [-1e-3, np.nan, None],
    "warm_start": ["no", None, 1],
    "verbose": [-1, "yes", None, 0.5],
    "n_jobs": [0, 1.5, "2", 10**30, True],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ABSURD.items() for value in values])
def test_absurd_parameters(name, value):
    with pytest.raises(
        ParameterError, match=rf"The '{name}' parameter of (TreeCRF|Method) must be .*\. Got .* instead"
    ):
        small(**{name: value}).fit(X, Y)


@pytest.mark.parametrize(
    "parameters",
    [{"max_iter": np.int32(2)}, {"learning_rate": np.float32(0.5)}, {"order": np.int64(2)}, {"warm_start": np.True_},
     {"potentials": np.str_("factored")}, {"early_stopping": np.False_}, {"learning_rate": 1}, {"n_jobs": np.int8(2)},
     {"window": np.int64(1)}, {"window": np.array([-1, 0])}, {"beam": np.uint8(2)}, {"max_features": np.float64(0.5)},
     {"verbose": False}, {"transitions": np.ones((3, 3), dtype=np.int8)}, {"random_state": np.int64(3)}],
    ids=str,
)  # fmt: skip
def test_numpy_scalars_are_parameters_too(parameters, tmp_path):
    model = small(**parameters).fit(X, Y)
    assert len(model.predict(X)) == 10
    model.save(tmp_path / "model")
    assert len(TreeCRF.load(tmp_path / "model").predict(X)) == 10


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"window": "3"}, ParameterError, r"window='3' \(of type str\) is not a window; expected a non-negative"),
        ({"window": -2}, ParameterError, r"window=-2 is negative.*\(2, 0\)"),
        ({"window": 1.5}, ParameterError, r"window=1.5"),
        ({"window": None}, ParameterError, r"window=None"),
        ({"window": 10**9}, ParameterError, r"window reaches 1000000000 positions away"),
        ({"window": []}, ParameterError, r"window is empty"),
        ({"window": {"nose": 1}}, ParameterError, r"window names the column 'nose', which X does not have"),
        ({"transitions": np.ones((2, 2))}, ParameterError, r"'transitions' parameter .* 3 × 3 array of booleans"),
        ({"transitions": np.full((3, 3), 0.5)}, ParameterError, r"'transitions' parameter .* 3 × 3 array of booleans"),
        ({"transitions": None}, ParameterError, r"'transitions' parameter .* Got None"),
        ({"transitions": [[1, 2], [3]]}, ParameterError, r"'transitions' parameter"),
        ({"transitions": "IOB7"}, ParameterError, r"Unknown chunk scheme 'IOB7'; known schemes are IOB1"),
        ({"transitions": "IOB2"}, ParameterError, r"The label 'a' does not fit the scheme 'IOB2'.*transitions='any'"),
        ({"transitions": "seen", "order": 0}, ParameterError, r"order is 0; use order=1 or more"),
        ({"class_weight": "equal"}, ParameterError, r"class_weight must be 'balanced', a dict"),
        ({"class_weight": {"z": 1.0}}, ParameterError, r"names the label 'z', which is not in y"),
        ({"class_weight": {"a": 0}}, ParameterError, r"class_weight\['a'\] is 0; weights must be positive"),
        ({"categorical_features": [7]}, ParameterError, r"categorical_features names 7, but X has no such column"),
        ({"sequence": "id"}, InputTypeError, r"sequence='id' names a column of a table, but X is a list"),
        ({"random_state": "seed"}, ValueError, r"'random_state' parameter of TreeCRF must be"),
        ({"early_stopping": True, "validation_fraction": 1}, ParameterError, r"above 0 and at most 0.9"),
    ],
)
def test_parameters_that_do_not_suit_the_data(parameters, error, match):
    with pytest.raises(error, match=match):
        small(**parameters).fit(X, Y)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"X_val": X}, ParameterError, r"must be given together, but y_val is missing"),
        ({"y_val": Y}, ParameterError, r"must be given together, but X_val is missing"),
        ({"X_val": X, "y_val": Y, "eval_set": [(X, Y)]}, ParameterError, r"X_val and y_val or as eval_set, not both"),
        ({"eval_set": []}, ParameterError, r"eval_set must be a list of pairs \(X, y\); got a list of 0"),
        ({"eval_set": [(X, Y), (X, Y, X)]}, ParameterError, r"pairs \(X, y\); got a list of 2, not all of them pairs"),
        ({"eval_set": [X, Y]}, ParameterError, r"pairs \(X, y\); got a list of 2, not all of them pairs"),
        ({"eval_set": [X[:2], Y[:2]]}, ParameterError, r"pairs \(X, y\); got a list of 2, not all of them pairs"),
        ({"eval_set": 3}, ParameterError, r"pairs \(X, y\); got a int"),
        ({"eval_set": [(X, Y), (X, Y)], "sample_weight_val": [1.0]}, ParameterError,
         r"sample_weight_val must be a list with the weights of each of the 2 pairs of eval_set, .* got a list of 1"),
        ({"eval_set": [(X, Y), (X, changed(Y, 0, ["z"] * LENGTHS[0]))]}, InputError,
         r"In eval_set\[1\]: y holds the label 'z' at sequence 0, position 0"),
        ({"eval_names": ["a"]}, ParameterError, r"eval_names needs the evaluation sets it names"),
        ({"eval_set": [(X, Y), (X, Y)], "eval_names": ["a"]}, ParameterError, r"for each of the 2 evaluation sets"),
        ({"eval_set": [(X, Y), (X, Y)], "eval_names": ["a", "train"]}, ParameterError, r"eval_names has 'train'"),
        ({"eval_metric": "auc"}, ParameterError, r"eval_metric must be one of accuracy, .*; got 'auc'"),
        ({"eval_metric": lambda y_true, y_pred: 1 / 0}, ParameterError, r"eval_metric 'custom' failed on the"),
        ({"sample_weight_val": [1.0]}, ParameterError, r"sample_weight_val needs the validation data"),
        ({"X_val": X, "y_val": changed(Y, 0, ["z"] * LENGTHS[0])}, InputError,
         r"In the validation data: y holds the label 'z' at sequence 0, position 0, which was not seen in training"),
        ({"X_val": [np.ones((2, 5))], "y_val": [["a", "b"]]}, InputError, r"In the validation data: X has 5 features"),
        ({"X_val": X, "y_val": [[None] * n for n in LENGTHS]}, InputError,
         r"In the validation data: no sequence .* has an observed label in y_val"),
        ({"X_val": X, "y_val": Y, "sample_weight_val": [1.0]}, InputError,
         r"In the validation data: sample_weight has 1 weights but X has 10"),
        ({"sample_weight": [1.0]}, InputError, r"sample_weight has 1 weights but X has 10 sequences"),
        ({"sample_weight": [-1.0] * 10}, InputError, r"sample_weight\[0\] is -1.0; weights must be finite"),
        ({"sample_weight": [np.nan] * 10}, InputError, r"sample_weight\[0\] is nan"),
        ({"sample_weight": [0] * 10}, InputError, r"All sample weights are zero"),
        ({"sample_weight": ["much"] * 10}, InputError, r"one number for each sequence"),
        ({"callbacks": [3]}, ParameterError, r"callbacks must be a list of functions"),
        ({"callbacks": 3}, ParameterError, r"callbacks must be a list of functions"),
    ],
)  # fmt: skip
def test_bad_arguments_of_fit(arguments, error, match):
    model = small()
    with pytest.raises(error, match=match):
        model.fit(X, Y, **arguments)
    assert vars(model) == model.get_params()  # nothing half-done stays behind


def test_weights_that_leave_only_unobserved_labels():
    y = [[None] * n for n in LENGTHS[:-1]] + [["a"] * (LENGTHS[-1] - 1) + ["b"]]
    with pytest.raises(InputError, match="no sequence with a positive weight has an observed label in y"):
        small().fit([*X[:-1], np.zeros((len(y[-1]), 2))], y, sample_weight=[1] * 9 + [0])


def test_early_stopping_needs_a_second_sequence():
    with pytest.raises(ParameterError, match=r"needs sequences to hold out, but X has only one, which cannot be cut"):
        small(early_stopping=True).fit([np.arange(4.0)[:, None]], ["abab"])
    assert small(early_stopping="auto").fit([np.arange(4.0)[:, None]], ["abab"]).n_iter_ == 4


FITTED = small().fit(X, Y)


@pytest.mark.parametrize(
    ("use", "error", "match"),
    [
        (lambda: FITTED.predict([np.ones((2, 5))]), InputError, r"X has 5 features, but TreeCRF is expecting 2"),
        (lambda: FITTED.predict([]), InputError, r"0 sample"),
        (lambda: FITTED.predict([np.ones((0, 2))]), InputError, r"X\[0\] is an empty sequence"),
        (lambda: FITTED.predict([np.full((1, 2), np.inf)]), InputError, r"infinity .* a float: sequence 0, position 0"),
        (lambda: FITTED.predict([["u", "v"]]), InputError, r"X has 1 features, but TreeCRF is expecting 2"),
        (lambda: FITTED.predict([[("u", 1.0)]]), InputError, r"'x0' was numeric .* sequence 0, position 0 holds 'u'"),
        (lambda: FITTED.predict([[{"a": 1}]]), InputTypeError, r"trained with columns without names"),
        (lambda: FITTED.log_prob(X, Y[:-1]), InputError, r"y has 9 label sequences but X has 10"),
        (lambda: FITTED.log_prob(X, changed(Y, 0, ["z"] * LENGTHS[0])), InputError, r"label 'z' at sequence 0"),
        (lambda: FITTED.score(X, [[None] * n for n in LENGTHS]), InputError, r"no observed label to score against"),
        (lambda: FITTED.score(X, Y, sample_weight=[1.0]), InputError, r"sample_weight has 1 weights"),
        (lambda: FITTED.score(X, [Y[0], *[[None] * n for n in LENGTHS[1:]]], sample_weight=[0] + [1] * 9), InputError,
         r"no observed label to score against"),
        (lambda: FITTED.predict_kbest(X, 0), ParameterError, r"'k' parameter of predict_kbest .* Got 0"),
        (lambda: FITTED.predict_kbest(X, 2.0), ParameterError, r"'k' parameter of predict_kbest .* Got 2.0"),
        (lambda: FITTED.predict_kbest(X, 10**30), ParameterError, r"'k' parameter of predict_kbest"),
    ],
)  # fmt: skip
def test_bad_input_after_fit(use, error, match):
    with pytest.raises(error, match=match):
        use()


def test_parameters_changed_after_fit_are_checked_too():
    model = small().fit(X, Y)
    for change, match in (({"decoding": "best"}, "'decoding'"), ({"n_jobs": 0}, "'n_jobs'")):
        with pytest.raises(ParameterError, match=match):
            small().fit(X, Y).set_params(**change).predict(X)
    with pytest.raises(ParameterError, match="'beam' parameter of predict must be an int of 1 or more or None"):
        model.predict(X, beam=0)
    assert len(model.predict_kbest([X[0][:2]], 1_000_000)[0]) == 9  # as many as there are


def test_an_unknown_label_is_scored_as_wrong():
    right = FITTED.score(X, FITTED.predict(X))
    assert right == 1.0
    y = [labels.astype(object) for labels in FITTED.predict(X)]
    y[0][0] = "never seen"
    assert FITTED.score(X, y) == pytest.approx(1 - 1 / sum(LENGTHS))


def test_other_labels_and_columns_at_a_warm_start():
    model = small(warm_start=True).fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises(InputError, match="label 'z' at sequence 0, position 0, which was not seen in training"):
        model.fit(X, changed(Y, 0, ["z"] * LENGTHS[0]))
    with pytest.raises(InputError, match="X has 1 features, but TreeCRF is expecting 2"):
        model.fit([x[:, :1] for x in X], Y)
    assert all(map(np.array_equal, model.predict_proba(X), before))


def test_arrays_inside_parameters_at_a_warm_start():
    model = small(warm_start=True, window={"x0": np.array([-1, 0]), "x1": [0]}).fit(X, Y)
    again = {"x0": [-1, 0], "x1": np.array([0])}
    assert model.set_params(window=again, max_iter=6).fit(X, Y).n_iter_ == 6
    with pytest.raises(ParameterError, match="'window' parameter was .* in the last fit and is"):
        model.set_params(window={"x0": np.array([0, 1]), "x1": [0]}).fit(X, Y)
    model = small(warm_start=True, window=[1, 0]).fit(X, Y)
    with pytest.raises(ParameterError, match=r"'window' parameter was \[1, 0\] .* is \(1, 0\) now"):
        model.set_params(window=(1, 0)).fit(X, Y)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_labels_that_break_a_rule_are_named_as_the_user_counts(early_stopping):
    allowed = np.array([[1, 1], [0, 1]])  # no way back from b to a
    for i in range(6):
        y = changed(["aab"] * 6, i, "aba")
        with pytest.raises(
            InputError, match=rf"y\[{i}\] moves from 'b' to 'a' at position 2, which transitions=.* forbids\. Allow it"
        ):
            small(transitions=allowed, early_stopping=early_stopping, validation_fraction=0.5).fit(["uvw"] * 6, y)
    with pytest.raises(InputError, match=r"y\[4\] moves from 'b' to 'a' at position 1"):
        small(transitions=allowed).fit(["uvw"] * 6, changed(["aab"] * 6, 4, "baa"), sample_weight=[0, 0, 1, 0, 1, 1])
    with pytest.raises(InputError, match=r"y_val\[1\] moves from 'b' to 'a' at position 1"):
        small(transitions=allowed).fit(["uvw"] * 6, ["aab"] * 6, X_val=["uv"] * 2, y_val=["ab", "ba"])
    with pytest.raises(InputError, match=r"y\[1\] has 'a' at position 2, which no allowed labels before it lead to|"
                                         r"y\[1\] moves from 'b' to 'a' at position 2|"
                                         r"y\[1\] leaves no allowed label"):  # fmt: skip
        small(transitions=allowed).fit(["uvw"] * 2, [["a", "a", "b"], ["b", None, "a"]])


@pytest.mark.filterwarnings("ignore:TreeCRF keeps no round")
def test_what_held_out_sequences_show_is_seen():
    for seed in range(6):
        X_few, y_few = chains(8, n_labels=4, seed=seed)
        model = small(transitions="seen", early_stopping=True, validation_fraction=0.5, random_state=seed)
        model.fit(X_few, y_few)
        assert np.isfinite(model.log_prob(X_few, y_few)).all()
    model = small(transitions="seen", early_stopping=True).fit(["uu"] * 3, ["ab"] * 3, X_val=["uu"], y_val=["ba"])
    assert np.isfinite(model.history_["validation_score"]).all()


def test_a_labelling_that_is_impossible_cannot_be_predicted_away():
    model = small(transitions=np.array([[0, 1], [0, 0]])).fit(["uv", "u"], ["ab", "b"])
    with pytest.raises(InputError, match=r"no labelling of sequence 1 \(length 3\) is allowed; relax the constraints"):
        model.predict(["uv", "uvw"])


@pytest.mark.parametrize(
    ("parameters", "available", "remedy"),
    [({"potentials": "joint"}, 200_000, r"potentials='factored' would need about"),
     ({"potentials": "factored", "order": 3}, 20_000, "use a lower order"),
     ({"potentials": "factored"}, 2000, "train on fewer sequences, or lower max_bins or max_leaf_nodes"),
     ({"potentials": "auto"}, 2000, "train on fewer sequences, or lower max_bins or max_leaf_nodes")],
)  # fmt: skip
def test_a_fit_that_would_not_fit_is_refused(parameters, available, remedy, monkeypatch):
    X_wide, y_wide = chains(40, n_labels=8, lengths=(3, 8))
    model = small(n_jobs=1, max_leaf_nodes=2, max_bins=2, window=0, trees="per_label").fit(X, Y)
    before = model.predict_proba(X)
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    with pytest.raises(MemoryLimitError, match=rf"fit would need about .* GiB for \d+ positions.*; {remedy}"):
        model.set_params(**parameters).fit(X_wide, y_wide)
    assert all(map(np.array_equal, model.predict_proba(X), before))


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of a process")
def test_a_limit_on_the_process_counts():
    script = (
        "import resource; from seqboost.training.memory import available_bytes\n"
        "free = available_bytes()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))\n"
        "print(free, available_bytes())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    free, limited = map(int, done.stdout.split())
    assert 0 < limited < 3 * 2**30
    assert limited <= free


def test_auto_turns_to_factored_when_memory_is_short(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 200_000)
    X_wide, y_wide = chains(40, n_labels=8, lengths=(3, 8))
    model = small(n_jobs=1, max_leaf_nodes=2, max_bins=2, window=0, trees="per_label")
    assert model.fit(X_wide, y_wide).potentials_ == "factored"


def test_a_high_order_of_many_labels_is_refused_before_it_is_allocated():
    y = [[f"l{(i + t) % 30}" for t in range(3)] for i in range(30)]
    for potentials in ("auto", "joint", "factored"):
        with pytest.raises(MemoryLimitError, match="order 8"):
            small(order=8, potentials=potentials).fit([np.zeros((3, 1))] * 30, y)


TABLE = pd.DataFrame({"s": [1, 1, 2, 2], "x": [1.0, 2, 3, 4], "label": list("abab")})


@pytest.mark.parametrize(
    ("parameters", "table", "y", "error", "match"),
    [
        ({"sequence": "q"}, TABLE[["s", "x"]], TABLE["label"], InputError, r"sequence='q' names no column"),
        ({"sequence": "s"}, TABLE[["s", "x"]], "label", InputError, r"y='label' names no column .* are \['s', 'x'\]"),
        ({"sequence": "s"}, TABLE[["s", "x"]], TABLE["label"][:3], InputError, r"y has 3 labels but the table has 4"),
        ({"sequence": "s"}, TABLE[["s"]], TABLE["label"], InputError, r"0 feature\(s\)|no feature|no column"),
        ({"sequence": "s"}, TABLE.assign(s=[1, None, 2, 2])[["s", "x"]], TABLE["label"], InputError,
         r"sequence.*(missing|None|NaN|null)|(missing|None|NaN|null).*sequence"),
    ],
)  # fmt: skip
def test_bad_tables(parameters, table, y, error, match):
    with pytest.raises(error, match=match):
        small(**parameters).fit(table, y)


def test_tables_that_lack_columns_at_prediction():
    model = small(sequence="s").fit(TABLE[["s", "x"]], TABLE["label"])
    with pytest.raises(InputError, match=r"sequence='s' names no column of the table. Its columns are \['x'\]"):
        model.predict(TABLE[["x"]])
    with pytest.raises(InputError, match=r"X lacks the column\(s\) 'x' that TreeCRF was trained with"):
        model.predict(TABLE[["s"]])
    with pytest.raises(InputError, match=r"'x' was numeric .* holds 'high'"):
        model.predict(pl.DataFrame({"s": [1], "x": ["high"]}))


def test_a_table_with_a_column_twice():
    twice = pd.DataFrame(np.ones((4, 3)), columns=["s", "x", "x"])
    with pytest.raises(InputError, match=r"The table has the column 'x' 2 times \(columns 1, 2, .*Rename the others"):
        small(sequence="s").fit(twice, TABLE["label"])
    model = small(sequence="s").fit(TABLE[["s", "x"]], TABLE["label"])
    with pytest.raises(InputError, match=r"The table has the column 'x' 2 times \(columns 1, 2, .*Rename the others"):
        model.predict(twice)


@pytest.mark.parametrize("beyond", [10**400, -(10**5000)], ids=["large", "too long to print"])
def test_a_number_beyond_all_floats(beyond):
    with pytest.raises(InputError, match=r"'x0'.*too large for a float, at sequence 0, position 0.*pass NaN"):
        small().fit([[beyond, 2, 3]], ["abb"])
    model = small().fit([[1, 2, 3]], ["abb"])
    with pytest.raises(InputError, match="'x0'.*too large for a float, at sequence 0, position 2"):
        model.predict([[1, 2, beyond]])
    with pytest.raises(InputError, match="sample_weight holds a number that is too large for a float"):
        small().fit([[1, 2, 3]], ["abb"], sample_weight=[beyond])
    with pytest.raises(ParameterError, match=r"class_weight\['a'\] is too large for a float"):
        small(class_weight={"a": beyond}).fit([[1, 2, 3]], ["abb"])


def test_odd_but_sound_numbers():
    for rows in ([[10**30], [2], [3]], [[True], [False], [True]],
                 np.array([[2**63], [3], [2**64 - 1]], dtype=np.uint64),
                 np.array([[True, None], [2, "a"], [3.0, None]], dtype=object), np.float16([[1], [2], [3]]),
                 [[np.nan], [None], [1]], [[1e308], [-1e308], [1e-308]]):  # fmt: skip
        probabilities = small().fit([rows], ["abb"]).predict_proba([rows])[0]
        assert np.isfinite(probabilities).all()
        assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("curvature", ["mixing", "newton", "count"])
@pytest.mark.parametrize("potentials", ["joint", "factored"])
def test_extreme_steps_stay_finite(curvature, potentials):
    fast = {"learning_rate": 1000.0, "l2_regularization": 0.0}
    for extreme in (fast, {"l2_regularization": 1e308}, {"min_gain": 1e300}):
        with warnings.catch_warnings():  # halves of a step a thousand times too long may all be too long: that is said
            warnings.filterwarnings("ignore", message="TreeCRF keeps no round of boosting")
            model = small(curvature=curvature, potentials=potentials, max_iter=20, **extreme).fit(X, Y)
        assert all(np.isfinite(p).all() and np.allclose(p.sum(axis=1), 1, atol=1e-4) for p in model.predict_proba(X))
        assert np.isfinite(model.history_["train_score"]).all()


def test_text_that_no_file_can_hold(tmp_path):
    path = tmp_path / "model"
    labels = small().fit(X, [[label.replace("a", "a\ud800") for label in labels] for labels in Y])
    with pytest.raises(InputError, match=r"the label 'a\\ud800' holds a lone surrogate.*clean the labels, or pickle"):
        labels.save(path)
    names = small().fit([[{"w\ud800": value} for value in x[:, 0]] for x in X], Y)
    with pytest.raises(InputError, match=r"a lone surrogate in .*w\\ud800.*Clean the names"):
        names.save(path)
    assert not path.exists()


def test_weights_of_any_size_train():
    for weight in (1e-9, 1e-3, 1e6, 1e30):
        model = small(l2_regularization=weight, learning_rate=1.0, max_iter=10).fit(X, Y, sample_weight=[weight] * 10)
        plain = small(l2_regularization=1.0, learning_rate=1.0, max_iter=10).fit(X, Y)
        assert model.history_["train_score"][-1] == pytest.approx(plain.history_["train_score"][-1], abs=0.01)
        assert model.history_["train_score"][-1] > plain.history_["train_score"][0]


def test_more_labels_than_classes_have():
    ids = [list(range(1001))]
    for model in (small(), small(potentials="joint"), MEMM(), FutureFeatureMEMM()):
        with pytest.raises(InputError, match=r"y holds 1,001 different labels, such as 0 and 1; .* at most 1,000.* bin "
                           r"or group .* TreeCRF\(potentials='factored'\)"):  # fmt: skip
            model.fit(ids, ids)
    model = small(potentials="factored", max_iter=1, trees="shared").fit(ids, ids)
    assert len(model.classes_) == 1001
    assert len(HMM().fit(ids, ids).classes_) == 1001


def test_continuous_labels_are_refused_before_anything_is_trained():
    values = np.random.default_rng(0).normal(size=200_000)
    start = time.perf_counter()
    for kind in (np.array, list):
        with pytest.raises(InputError, match="continuous"):
            TreeCRF().fit([values], [kind(values)])
    with pytest.raises(InputError, match="different labels"):
        TreeCRF().fit([values], [values.astype(str)])
    assert time.perf_counter() - start < 10
