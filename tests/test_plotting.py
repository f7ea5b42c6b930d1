"""Pictures: the data of what is drawn, not its pixels."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import seqboost
from seqboost.evaluation import confusion, label_sequences
from seqboost.exceptions import InputError, MissingExtraError, ParameterError
from seqboost.inspection import FeatureImportances, feature_importances
from seqboost.plotting import (
    ConfusionDisplay,
    ImportanceDisplay,
    LabelStripDisplay,
    LearningCurveDisplay,
    label_colours,
)
from seqboost.plotting.colours import luminance

plt = pytest.importorskip("matplotlib.pyplot")

X = ["banana", "tomato", "salad", "melon"] * 8
Y = ["".join("1" if letter in "aeiou" else "0" for letter in word) for word in X]


@pytest.fixture(scope="module")
def model():
    return seqboost.TreeCRF(window=1, max_iter=8, min_samples_leaf=2, refit=False, random_state=0).fit(X, Y)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def test_learning_curve_shows_the_history(model):
    shown = LearningCurveDisplay.from_estimator(model)
    assert list(shown.lines_) == ["train", "validation"]
    for part, line in shown.lines_.items():
        np.testing.assert_allclose(line.get_ydata(), model.history_[f"{part}_score"])
        assert line.get_xdata()[0] == 0
    assert shown.best_.get_xdata()[0] == model.best_iteration_
    accuracy = LearningCurveDisplay.from_estimator(model, metric="accuracy")
    np.testing.assert_allclose(accuracy.lines_["train"].get_ydata(), model.history_["train_accuracy"])
    assert "right" in accuracy.ax_.get_ylabel()


def test_learning_curve_errors(model):
    with pytest.raises(ParameterError, match="metric='loss': expected 'score' or 'accuracy'"):
        LearningCurveDisplay.from_estimator(model, metric="loss")

    class Unhurried(seqboost.TreeCRF):
        history_ = {}

        def __sklearn_is_fitted__(self):
            return True

    with pytest.raises(InputError, match="Unhurried has no learning curve: it is not trained in rounds"):
        LearningCurveDisplay.from_estimator(Unhurried())


def test_confusion_shows_shares_of_true_labels():
    shown = ConfusionDisplay.from_predictions([["a", "b", "a"], ["a", "a"]], [["a", "a", "b"], ["a", "a"]])
    np.testing.assert_allclose(shown.im_.get_array(), [[75, 25], [100, 0]])
    assert {place: text.get_text() for place, text in shown.text_.items()} == {
        (0, 0): "75",
        (0, 1): "25",
        (1, 0): "100",
    }
    assert [label.get_text() for label in shown.ax_.get_yticklabels()] == ["a", "b"]
    counts = ConfusionDisplay.from_predictions([["a", "b"]], [["a", "a"]], normalize=None)
    np.testing.assert_allclose(counts.im_.get_array(), [[1, 0], [1, 0]])
    with pytest.raises(ParameterError, match="normalize='all': expected 'true' or None"):
        ConfusionDisplay.from_predictions([["a"]], [["a"]], normalize="all")


def test_confusion_of_a_model(model):
    shown = ConfusionDisplay.from_estimator(model, X, Y, normalize=None)
    expected = confusion(Y, model.predict(X))
    assert shown.labels_ == expected.labels
    np.testing.assert_allclose(shown.im_.get_array(), expected.counts)


def test_confusion_of_many_labels_keeps_the_commonest():
    rng = np.random.default_rng(0)
    y = np.append(rng.integers(50, size=4000), [50])
    shown = ConfusionDisplay.from_predictions([y], [y])
    assert len(shown.labels_) == 40
    assert 50 not in shown.labels_
    assert shown.text_ == {}


def test_importance_shows_shares(model):
    gains = feature_importances(model)
    shown = ImportanceDisplay.from_estimator(model, n_features=2)
    assert shown.names_ == [name for name, _ in gains.top(n=2)]
    widths = [bar.get_width() for bar in shown.bars_]
    np.testing.assert_allclose(widths, [100 * value / gains.values.sum() for _, value in gains.top(n=2)])
    of_one = ImportanceDisplay.from_estimator(model, label="1", by_column=True)
    assert sum(bar.get_width() for bar in of_one.bars_) == pytest.approx(100)
    assert "label 1" in of_one.ax_.get_title(loc="left")
    with pytest.raises(ParameterError, match="n_features=0: expected a whole number"):
        ImportanceDisplay.from_estimator(model, n_features=0)


def test_importance_of_a_model_without_splits():
    shown = ImportanceDisplay(FeatureImportances(("a",), (), np.zeros((1, 0)), "gain")).plot()
    assert shown.names_ == []


def test_strips_show_labels_and_probabilities(model):
    shown = LabelStripDisplay.from_estimator(model, X, Y, sequence=2)
    numbers = {label: k for k, label in enumerate(model.classes_.tolist())}
    assert shown.images_["true"].get_array().tolist() == [[numbers[label] for label in Y[2]]]
    assert shown.images_["predicted"].get_array().tolist() == [[numbers[label] for label in model.predict(X)[2]]]
    proba = model.predict_proba(X)[2]
    edge = [area.get_paths()[0].vertices[:, 1].max() for area in shown.areas_]
    assert edge[0] == pytest.approx(2 * proba[:, 0].max(), abs=1e-6)
    assert edge[1] == pytest.approx(2)


def test_strips_leave_unobserved_labels_white():
    shown = LabelStripDisplay.from_predictions(["a", None, float("nan")], ["a", "b", "b"])
    assert shown.images_["true"].get_array().mask.tolist() == [[False, True, True]]
    assert shown.classes_ == ("a", "b")
    assert shown.areas_ == []
    assert list(LabelStripDisplay.from_predictions(None, "ab").images_) == ["predicted"]


def test_strips_errors(model):
    with pytest.raises(InputError, match="there is no sequence 99: X has 32, numbered from 0"):
        LabelStripDisplay.from_estimator(model, X, sequence=99)
    with pytest.raises(InputError, match="truth has 2 labels but predicted has 1"):
        LabelStripDisplay.from_predictions("ab", "a")
    with pytest.raises(InputError, match=re.escape("proba has the shape (2, 1); expected (1, number of labels)")):
        LabelStripDisplay.from_predictions(None, "a", proba=[[1.0], [1.0]])


def test_displays_draw_on_given_axes(model):
    figure, axes = plt.subplots(2, 2)
    draw = [
        lambda ax: LearningCurveDisplay.from_estimator(model, ax=ax),
        lambda ax: ConfusionDisplay.from_estimator(model, X, Y, ax=ax),
        lambda ax: ImportanceDisplay.from_estimator(model, ax=ax),
        lambda ax: LabelStripDisplay.from_estimator(model, X, Y, ax=ax),
    ]
    for ax, of in zip(axes.flat, draw, strict=True):
        shown = of(ax)
        assert shown.ax_ is ax
        assert shown.figure_ is figure
        assert shown.plot().ax_ is not ax


def test_plots_name_the_extra(monkeypatch, model):
    for name in [name for name in sys.modules if name.startswith("matplotlib")] + ["matplotlib.pyplot"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=re.escape('pip install "seqboost[plot]"')):
        LearningCurveDisplay.from_estimator(model)


def test_colours_differ_and_are_seen_on_white_and_black():
    colours = label_colours([*range(100), "O"])
    assert len(set(colours)) == 101
    for colour in colours:
        assert 1.05 / (luminance(colour) + 0.05) > 3
        assert (luminance(colour) + 0.05) / 0.059 > 3
    assert luminance("#ffffff") == pytest.approx(1)
    assert luminance("#000000") == 0


def test_tables_come_back_by_sequence(model):
    pd = pytest.importorskip("pandas")
    rows = [(s, letter, label) for t in range(6) for s in (0, 1) for letter, label in [(X[s][t], Y[s][t])]]
    frame = pd.DataFrame(rows, columns=["word", "letter", "label"])
    table_model = seqboost.TreeCRF(sequence="word", max_iter=2, min_samples_leaf=1).fit(
        frame[["word", "letter"]], frame.label
    )
    found = label_sequences(table_model, frame[["word", "letter"]], frame.label)
    assert ["".join(labels) for labels in found.truth] == Y[:2]
    flat = table_model.predict(frame[["word", "letter"]])
    assert found.predicted[1] == flat[(frame.word == 1).to_numpy()].tolist()
    assert found.proba[0].shape == (6, 2)
    log_prob = table_model.log_prob(frame[["word", "letter"]], frame.label)
    np.testing.assert_allclose(found.log_prob, log_prob)
    with pytest.raises(InputError, match="y has 3 labels but the table has 12 rows"):
        label_sequences(table_model, frame[["word", "letter"]], frame.label[:3])


def test_labels_that_the_model_does_not_know(model):
    found = label_sequences(model, ["banana", "melon"], ["0?0101", [None] * 5])
    known = label_sequences(model, ["banana", "melon"], [["0", None, "0", "1", "0", "1"], [None] * 5])
    np.testing.assert_allclose(found.log_prob, known.log_prob)
    assert found.evaluate().accuracy <= 5 / 6
    assert found.has_truth
    assert not label_sequences(model, ["melon"], [[None] * 5]).has_truth
    with pytest.raises(InputError, match=re.escape("y[0] has 2 labels but X[0] has 6 positions")):
        label_sequences(model, ["banana"], ["00"])
    with pytest.raises(InputError, match="y has 2 label sequences but X has 1 sequences"):
        label_sequences(model, ["banana"], ["00", "11"])
    with pytest.raises(InputError, match="there are no true labels to compare with"):
        label_sequences(model, ["banana"]).evaluate()


def test_labellers_without_probabilities(model):
    class Plain:
        classes_ = model.classes_
        predict = staticmethod(model.predict)

    found = label_sequences(Plain(), X, Y)
    assert found.proba is None
    assert set(found.lacking) == {"proba", "log_prob"}
    assert found.evaluate().calibration is None
    assert LabelStripDisplay.from_estimator(Plain(), X, Y).areas_ == []


def test_page_of_plots_has_them_all():
    text = (Path(__file__).parents[1] / "docs" / "plots.md").read_text(encoding="utf-8")
    for display in ("LearningCurveDisplay", "ConfusionDisplay", "ImportanceDisplay", "LabelStripDisplay"):
        assert display in text
