"""The command line and the demo."""

import io
import sys

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from seqboost.cli import app, main
from seqboost.cli.demo import (
    MissingExtraError,
    fit_letter_windows,
    hyphenate,
    load_words,
    run_demo,
    scores,
)


def test_split_keeps_families_together_and_is_seeded():
    words = load_words(600, seed=3)
    assert not {word[:5] for word in words.train} & {word[:5] for word in words.test}
    assert len(words.train) + len(words.test) == 600
    assert len(words.train) > 3 * len(words.test) > 0
    assert load_words(600, seed=3).train == words.train
    assert load_words(600, seed=4).train != words.train


def test_labels_mark_the_letter_before_a_hyphen():
    words = load_words(600, seed=0)
    for word, breaks in zip(words.train, words.train_breaks, strict=True):
        assert len(word) == len(breaks)
        assert breaks[-1] == 0
    assert hyphenate("hamster", np.array([0, 0, 1, 0, 0, 0, 0])) == "ham-ster"


def test_baseline_backs_off_to_shorter_windows():
    predict = fit_letter_windows(["abab", "abab", "xy"], [np.array([0, 1, 0, 0])] * 2 + [np.array([1, 0])])
    np.testing.assert_array_equal(predict("abab"), [0, 1, 0, 0])
    np.testing.assert_array_equal(predict("qq"), [0, 0])  # nothing known of these letters: the commonest label


def test_scores_of_letters_words_and_breaks():
    truth = [np.array([0, 1, 0]), np.array([0, 0])]
    assert scores(truth, truth) == (1.0, 1.0, 1.0)
    letters, words, f1 = scores(truth, [np.array([0, 1, 1]), np.array([0, 0])])
    assert letters == pytest.approx(0.8)
    assert words == 0.5
    assert f1 == pytest.approx(2 / 3)


@pytest.mark.parametrize("package", ["pyphen", "wonderwords"])
def test_missing_extra_names_the_cure(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r'pip install "seqboost\[demo\]"'):
        load_words(100, seed=0)


def test_library_errors_end_the_command_with_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyphen", None)
    monkeypatch.setattr(sys, "argv", ["seqboost", "demo"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3  # a package is missing
    assert capsys.readouterr().err.startswith("seqboost: the demo needs the package")


def test_help_lists_the_subcommands():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "warmup" in result.output
    assert "demo" in result.output


def test_warmup_reports_its_time():
    result = CliRunner().invoke(app, ["warmup"])
    assert result.exit_code == 0, result.output
    assert "Kernels compiled and cached in" in result.output


def test_demo_beats_never_a_break():
    output = io.StringIO()
    letters_right = run_demo(n_words=400, seed=0, console=Console(file=output, width=120))
    assert letters_right > 0.85
    for title in ("On words never seen", "with the probability of a break", "TreeCRF"):
        assert title in output.getvalue()
