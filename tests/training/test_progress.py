"""What a fit logs, and what ``verbose`` shows of it."""

from __future__ import annotations

import logging
import re
import subprocess
import sys

import pytest
from sklearn.base import clone
from treecrf_data import chains

from seqboost import MEMM, FutureFeatureMEMM, TreeCRF
from seqboost.boosting import Progress
from seqboost.core.logs import shown
from seqboost.training import progress
from seqboost.training.progress import NOTICE, SECONDS_BETWEEN, FitProgress

X, Y = chains(24)
SCORES = r"(train|validation) log-likelihood -\d\.\d{4} accuracy \d\.\d{4}"


@pytest.fixture
def without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.progress", None)


def small(**parameters):
    return TreeCRF(**{"max_iter": 4, "min_samples_leaf": 1, "early_stopping": True, "random_state": 0} | parameters)


def named(model):
    """Leave nothing to tuning."""
    return clone(model).set_params(potentials="joint", window=1)


def told(caplog):
    """Return what was logged, but for the notice that kernels are compiled, which depends on what ran before."""
    return [line for line in caplog.messages if line != NOTICE]


def test_quiet_fits_log_their_course(caplog, capfd):
    caplog.set_level(logging.INFO, "seqboost")
    model = named(small()).fit(X, Y)
    assert {record.name for record in caplog.records} == {"seqboost.training"}
    started, boosting, ended, refit, refitted, fitted = told(caplog)
    n_positions = sum(map(len, X))
    assert boosting == "boosting"
    assert started == f"training on 24 sequences with {n_positions} positions and 3 labels"
    assert re.fullmatch(rf"boosting ended after \d+\.\d s: \[4/4\] {SCORES}", ended)
    assert refit == "refit"
    assert re.fullmatch(
        rf"refit ended after .*: \[{model.best_iteration_}/{model.best_iteration_}\] {SCORES}", refitted
    )
    assert re.fullmatch(
        rf"fitted in \d+\.\d s, {model.best_iteration_} rounds, log-likelihood {model.best_score_:.4f}, "
        rf"potentials='joint', window=1, l2_regularization={model.l2_regularization_!r}",
        fitted,
    )
    assert capfd.readouterr() == ("", "")


def test_rounds_are_details(caplog):
    caplog.set_level(logging.DEBUG, "seqboost")
    named(small()).fit(X, Y)
    details = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert [line.split()[0] for line in details[:4]] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]


def test_nothing_is_logged_by_default(caplog):
    named(small()).fit(X, Y)
    assert caplog.messages == []


def test_candidates_are_logged_with_scores(caplog):
    caplog.set_level(logging.INFO, "seqboost")
    X, y = chains(400, lengths=(6, 12), seed=2)
    small(validation_fraction=0.3).fit(X, y)
    tuned = [line for line in caplog.messages if "held-out" in line]
    assert any(line.startswith("factored: ") for line in tuned)
    shape = r"(factored|λ = 100+|window \d+): held-out log-likelihood -\d\.\d{4} against -\d\.\d{4}, (not )?taken"
    assert all(re.fullmatch(shape, line) for line in tuned)


@pytest.mark.usefixtures("without_rich")
@pytest.mark.parametrize("verbose", [1, True])
def test_lines_take_the_place_of_a_bar(caplog, monkeypatch, verbose):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN", 3600.0)
    named(small(verbose=verbose, refit=False)).fit(X, Y)
    assert [line.split()[0] for line in told(caplog)] == ["training", "boosting", "[1/4]", "boosting", "fitted"]


@pytest.mark.usefixtures("without_rich")
def test_lines_come_every_few_seconds(caplog, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    with shown(1), FitProgress(1).training("boosting", 40) as (tell,):
        for iteration in range(1, 41):
            now[0] += SECONDS_BETWEEN / 10
            tell(Progress(iteration, 40, {"train_score": -1.0, "train_accuracy": 0.5}, {}))
    rounds = [re.search(r"\[(\d+)/40\]", line)[1] for line in told(caplog)[1:]]
    assert rounds == ["1", "11", "21", "31", "40"]


def test_a_training_without_rounds(caplog):
    with shown(2), FitProgress(2).training("refit", 9):
        pass
    assert caplog.messages == ["refit", "refit ended after 0.0 s: no round"]


def test_errors_end_without_a_last_line(caplog):
    with pytest.raises(RuntimeError), shown(2), FitProgress(2).training("boosting", 9):
        raise RuntimeError
    assert caplog.messages == ["boosting"]


@pytest.mark.parametrize("kind", [MEMM, FutureFeatureMEMM])
@pytest.mark.filterwarnings("ignore:.*keeps no round")
def test_other_labelers_log_too(caplog, kind):
    caplog.set_level(logging.INFO, "seqboost")
    kind(max_iter=3, random_state=0).fit(X, Y)
    assert caplog.messages[0].startswith("training on ")
    assert any(line.startswith("boosting ended after ") for line in caplog.messages)


CODE = """
import sys
{before}
from seqboost import TreeCRF
TreeCRF(max_iter=3, min_samples_leaf=1, verbose={verbose}).fit(["abab", "ba"], ["0101", "10"])
"""


def shown_by(verbose, before=""):
    """Return the lines on standard error of a process that fits, but for that kernels are compiled."""
    code = CODE.format(verbose=verbose, before=before)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return [line for line in done.stderr.splitlines() if "compiling" not in line]


def test_verbose_is_seen_without_configuration():
    assert shown_by(0) == []
    lines = shown_by(2)
    assert lines[0] == "training on 2 sequences with 6 positions and 2 labels"
    assert [line.split()[0] for line in lines[2:5]] == ["[1/3]", "[2/3]", "[3/3]"]


def test_verbose_is_seen_without_rich():
    lines = shown_by(1, "sys.modules['rich'] = None")
    assert [line.split()[0] for line in lines] == ["training", "boosting", "[1/3]", "boosting", "fitted"]


def test_verbose_uses_the_format_of_the_program():
    lines = shown_by(2, "import logging; logging.basicConfig(format='%(levelname)s | %(message)s')")
    assert lines[2].startswith("INFO | [1/3]")
    assert len(lines) == 7


def test_verbose_can_be_silenced():
    assert shown_by(2, "import logging; logging.getLogger('seqboost').setLevel('WARNING')") == []


def test_quiet_fits_are_seen_by_basic_config():
    lines = shown_by(0, "import logging; logging.basicConfig(level='INFO', format='%(name)s %(message)s')")
    assert [line.split()[1] for line in lines] == ["training", "boosting", "boosting", "fitted"]


def test_one_bar_shows_the_whole_fit_and_what_is_left():
    seen = []
    fit = FitProgress(0, lambda *told: seen.append(told))
    fit.expect(2)
    for title, n_rounds in (("boosting", 10), ("trying factored", 20)):
        with fit.training(title, 40) as callbacks:
            for iteration in range(1, n_rounds + 1):
                progress_of = Progress(iteration, 40, {"train_score": -1.0, "train_accuracy": 0.5}, {})
                for callback in callbacks:
                    callback(progress_of)
        fit.expect(1)
    assert [done for _, done, _ in seen] == list(range(1, 31))
    assert [expected for _, _, expected in seen[:10]] == [40 + 2 * 40] * 10  # nothing is known yet
    assert seen[10][2] == 10 + 10 + 10  # trainings end after 10 rounds, and one more comes
    assert seen[-1][2] == 10 + 20 + 10
    assert seen[-1][0].startswith("trying factored: train log-likelihood")
