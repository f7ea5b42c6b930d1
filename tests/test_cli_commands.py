"""The commands from files to results, as a user types them."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import typer
from cli_run import run
from damaged_files import good_table

import seqboost
from seqboost.cli.console import EXIT_CODES, guarded
from seqboost.cli.train import StopOnInterrupt
from seqboost.files import written

FAST = ["--max-iter", "5", "--set", "min_samples_leaf=2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, a model trained from it, and a column file."""
    folder = tmp_path_factory.mktemp("data")
    text = "\n".join(map(",".join, good_table(n_sequences=30, length=10))) + "\n"
    (folder / "d.csv").write_text(text, encoding="utf-8")
    train = ["train", folder / "d.csv", "--sequence", "id", "--label", "state", "--model", folder / "m.seqboost"]
    done = run(*train, *FAST, "--json")
    result = json.loads(done.stdout)
    assert result["sequences"] == 30
    assert result["positions"] == 300
    assert result["labels"] == ["go", "stop"]
    assert not result["interrupted"]
    assert done.stderr == ""
    return folder


def test_model_remembers_how_its_file_was_read(folder):
    model = seqboost.load(folder / "m.seqboost")
    assert model.reading_["sequence"] == "id"
    assert model.reading_["inputs"] == ["speed", "room"]
    assert model.feature_names_in_.tolist() == ["speed", "room"]


def test_predictions_are_those_of_the_library(folder):
    run("predict", folder / "m.seqboost", folder / "d.csv", "--output", folder / "p.csv", "--proba", "--kbest", 2)
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(folder / "p.csv", dtype={"state": str})
    model = seqboost.load(folder / "m.seqboost")
    assert frame.predicted.tolist() == model.predict(frame).tolist()
    np.testing.assert_allclose(frame[["p(go)", "p(stop)"]], model.predict_proba(frame), atol=1e-5)
    best = model.predict_kbest(frame, 2)
    assert frame.path2[:10].tolist() == best[0][1][0].tolist()
    assert frame.path2_logp[0] == pytest.approx(best[0][1][1], abs=1e-4)


def test_predictions_go_to_standard_output(folder):
    done = run("predict", folder / "m.seqboost", folder / "d.csv")
    lines = done.stdout.splitlines()
    assert lines[0] == "id,speed,room,state,predicted"
    assert len(lines) == 301


def test_other_formats_of_the_same_data(folder):
    pytest.importorskip("pyarrow")
    source = ["convert", folder / "d.csv", "--sequence", "id", "--label", "state", "--output"]
    for suffix in ("parquet", "tsv", "csv.gz"):
        run(*source, folder / f"e.{suffix}")
        out = folder / f"o.{suffix}"
        run("predict", folder / "m.seqboost", folder / f"e.{suffix}", "--output", out)
        first = json.loads(run("evaluate", folder / "m.seqboost", folder / "d.csv", "--json").stdout)
        again = json.loads(run("evaluate", folder / "m.seqboost", folder / f"e.{suffix}", "--json").stdout)
        assert again["accuracy"] == first["accuracy"]


def test_formats_that_name_labels_otherwise(folder):
    lines = {}
    for trial, speed, room, state in good_table(n_sequences=3, length=10)[1:]:
        record = lines.setdefault(trial, {"x": [], "y": []})
        record["x"].append({"speed": float(speed), "room": room})
        record["y"].append(state)
    (folder / "j.jsonl").write_text("\n".join(map(json.dumps, lines.values())), encoding="utf-8")
    found = json.loads(run("evaluate", folder / "m.seqboost", folder / "j.jsonl", "--json").stdout)
    assert found["n_positions"] == 30
    rows = [json.loads(line) for line in run("predict", folder / "m.seqboost", folder / "j.jsonl").stdout.splitlines()]
    expected = seqboost.load(folder / "m.seqboost").predict([record["x"] for record in lines.values()])
    assert [row["predicted"] for row in rows] == [y.tolist() for y in expected]


def test_evaluation_is_that_of_the_library(folder):
    found = json.loads(run("evaluate", folder / "m.seqboost", folder / "d.csv", "--json").stdout)
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(folder / "d.csv")
    model = seqboost.load(folder / "m.seqboost")
    assert found["accuracy"] == pytest.approx(model.score(frame, frame.state))
    assert found["log_likelihood"] == pytest.approx(model.log_prob(frame, frame.state).sum() / len(frame))
    assert found["n_positions"] == 300
    assert 0 <= found["calibration"]["error"] <= 1


def test_evaluation_for_people(folder):
    run("predict", folder / "m.seqboost", folder / "d.csv", "--output", folder / "p.csv")
    done = run("evaluate", folder / "m.seqboost", folder / "d.csv", "--against", folder / "p.csv")
    said = done.stdout.replace("\n", " ")
    for words in ("positions right", "sequences wholly right", "calibration error", "Which label", "test: p = 1"):
        assert words in said


def test_labels_that_the_model_does_not_know_are_errors(folder):
    text = (folder / "d.csv").read_text(encoding="utf-8").replace("s1,", "s1,", 1)
    (folder / "u.csv").write_text(text + "s99,1.0,A,fly\ns99,2.0,A,go\n", encoding="utf-8")
    done = run("evaluate", folder / "m.seqboost", folder / "u.csv")
    assert "the model does not know 1 label(s) ('fly')" in done.stderr
    found = json.loads(run("evaluate", folder / "m.seqboost", folder / "u.csv", "--json").stdout)
    assert found["n_positions"] == 302
    assert "fly" in found["confusion"]["labels"]


def test_inspect(folder):
    done = run("inspect", folder / "m.seqboost")
    for words in ("speed", "share of gain", "Strongest transitions", "joint potentials"):
        assert words in done.stdout
    found = json.loads(run("inspect", folder / "m.seqboost", "--json").stdout)
    assert set(found["importance"]) == {"go", "stop"}
    assert found["read_as"]["label"] == "state"
    assert len(found["transitions"]) == 4


def test_inspect_a_sequence(folder):
    found = json.loads(run("inspect", folder / "m.seqboost", folder / "d.csv", "--sequence", 7, "--json").stdout)
    assert len(found["positions"]) == 10
    for position in found["positions"]:
        said = sum(c["log_odds"] for c in position["contributions"])
        assert position["base"] + position["around"] + said == pytest.approx(position["log_odds"])
        assert position["true"] in ("go", "stop")
    done = run("inspect", folder / "m.seqboost", folder / "d.csv", "--sequence", 7)
    assert "spoke for" in done.stdout
    run("inspect", folder / "m.seqboost", "--sequence", 7, code=2)


def test_words_need_no_script(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(150):
        for _ in range(rng.integers(3, 8)):
            kind = rng.integers(3)
            plain, name = ("".join(rng.choice(list("abcdefgh"), n)) for n in (5, 3))
            word = [plain, f"{rng.integers(10, 9999)}", "X" + name][kind]
            lines.append(f"{word} {['O', 'B-NUM', 'B-NAME'][kind]}")
        lines.append("")
    (tmp_path / "t.conll").write_text("\n".join(lines[:700] + [""]), encoding="utf-8")
    (tmp_path / "e.conll").write_text("\n".join(lines[700:] + [""]), encoding="utf-8")
    model = tmp_path / "m.seqboost"
    train = ["train", tmp_path / "t.conll", "--features", "words", "--transitions", "IOB2", "--model", model]
    run(*train, "-q", "--max-iter", 20, "--set", "init=labels")
    found = json.loads(run("evaluate", model, tmp_path / "e.conll", "--scheme", "IOB2", "--json").stdout)
    assert found["spans"]["overall"]["f1"] > 0.95
    done = run("predict", model, tmp_path / "e.conll")
    assert all(len(line.split()) == 3 for line in done.stdout.splitlines() if line)
    assert seqboost.load(model).window_ == {"*": 1, "lower": 2, "shape": 2, "suffix3": 2}


def test_schemes_are_converted(tmp_path):
    (tmp_path / "d.conll").write_text("a I-NP\nb I-NP\nc B-NP\n\nd O\n", encoding="utf-8")
    args = ["convert", tmp_path / "d.conll", "--from-scheme", "IOB1", "--to-scheme", "BIOES"]
    run(*args, "--output", tmp_path / "o.conll")
    assert (tmp_path / "o.conll").read_text(encoding="utf-8") == "a\tB-NP\nb\tE-NP\nc\tS-NP\n\nd\tO\n\n"


def test_validation_files_and_settings(folder):
    args = ["train", folder / "d.csv", "--sequence", "id", "--label", "state", "--model", folder / "v.seqboost"]
    found = json.loads(run(*args, *FAST, "--validation", folder / "d.csv", "--window", "2,0", "--json").stdout)
    assert found["scored_on"] == "validation"
    assert seqboost.load(folder / "v.seqboost").window == (2, 0)


def test_tables_without_a_header_one_to_a_sequence(folder):
    rows = good_table(n_sequences=4, length=10)[1:]
    for s in range(4):
        lines = [f"{speed},{state}" for trial, speed, _, state in rows if trial == f"s{s}"]
        (folder / f"trial{s}").write_text("\n".join(lines), encoding="utf-8")
    trials = [folder / f"trial{s}" for s in range(4)]
    args = ["train", *trials[:3], "--format", "csv", "--no-header", "--label", "x1", "--model", folder / "t.seqboost"]
    assert json.loads(run(*args, *FAST, "--json").stdout)["sequences"] == 3
    found = json.loads(run("evaluate", folder / "t.seqboost", trials[3], "--json").stdout)
    assert found["n_positions"] == 10
    labelled = run("predict", folder / "t.seqboost", trials[3]).stdout.splitlines()
    assert len(labelled) == 10
    assert labelled[0].count(",") == 2


def test_help_teaches_with_examples_and_exit_codes():
    top = run("--help").stdout
    for code in EXIT_CODES:
        assert str(code) in top
    for command in ("train", "predict", "evaluate", "inspect", "convert"):
        text = run(command, "--help").stdout
        assert "Examples:" in text
        assert f"seqboost {command} " in text


@pytest.fixture
def _listening():
    """Have Ctrl-C do what it does at a terminal; processes in the background are born deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_listening")
def test_interrupt_asks_the_loop_to_stop():
    words, labels = ["banana", "tomato"] * 15, ["010101", "010101"] * 15
    model = seqboost.TreeCRF(max_iter=50, window=1, refit=True)
    with StopOnInterrupt() as stop:

        def press(progress):
            if progress.iteration == 3:
                signal.raise_signal(signal.SIGINT)

        model.fit(words, labels, callbacks=[press, stop])
    assert stop.is_asked
    assert model.n_iter_ == 3
    assert not model._result.refitted  # no second training after Ctrl-C
    assert model.refit is True
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert model.predict(["banana"])[0].tolist() == list("010101")


def test_interrupt_in_the_second_training_keeps_the_first_model():
    words, labels = ["banana", "tomato"] * 15, ["010101", "010101"] * 15

    class Ask:
        may_stop = runs_in_refit = True
        sees_model = False
        n_calls = 0
        stops = False

        def __call__(self, progress):
            self.n_calls += 1
            return self.stops and progress.max_iter != 6 and progress.iteration == 1

    ask = Ask()
    settings = {"max_iter": 6, "window": 1, "refit": True, "method": seqboost.Method(tol=0), "random_state": 0}
    model = seqboost.TreeCRF(**settings).fit(words, labels, callbacks=[ask])
    assert ask.n_calls > 6  # asked in both trainings
    assert model._result.refitted
    ask = Ask()
    ask.stops = True
    stopped = seqboost.TreeCRF(**settings)
    stopped.fit(words, labels, callbacks=[ask])
    if model.best_iteration_ not in (1, 6):  # otherwise nothing tells the trainings apart
        assert not stopped._result.refitted
    assert stopped.best_iteration_ == model.best_iteration_


def test_pressing_twice_gives_up():
    stop = StopOnInterrupt()
    stop._ask(2, None)
    with pytest.raises(KeyboardInterrupt):
        stop._ask(2, None)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of processes are another matter there")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_leave_the_best_model_so_far(folder, name, code):
    target = folder / f"{name}.seqboost"
    args = ["train", folder / "d.csv", "--sequence", "id", "--label", "state", "--model", target, "--max-iter", 10**6]
    script = "from seqboost.cli import main; main()"
    command = [sys.executable, "-c", script, *map(str, args), "--set", "early_stopping=false"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        seen = process.stderr.readline()  # what was read; the handler is in place before the first round
        time.sleep(4)
        process.send_signal(getattr(signal, name))
        seen += process.communicate(timeout=120)[1]
    finally:
        process.kill()
    assert process.returncode == code, seen
    assert "the best model so far" in seen
    assert str(target) in seen
    assert seqboost.load(target).best_iteration_ >= 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_end_any_command_without_half_a_file(tmp_path, capsys, name, code):
    def command():
        with written(tmp_path / "out.csv") as file:
            file.write("half")
            signal.raise_signal(getattr(signal, name))

    before = signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        with pytest.raises(typer.Exit) as ended:
            guarded(command)()
        assert signal.getsignal(getattr(signal, name)) == signal.SIG_DFL
    finally:
        signal.signal(getattr(signal, name), before)
    assert ended.value.exit_code == code
    assert code in EXIT_CODES
    assert capsys.readouterr().err == "seqboost: interrupted; nothing was written\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
def test_nohup_is_respected(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        guarded(lambda: signal.raise_signal(signal.SIGHUP))()
        with StopOnInterrupt() as stop:
            signal.raise_signal(signal.SIGHUP)
        assert not stop.is_asked
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "seqboost", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: seqboost" in done.stdout


@pytest.mark.parametrize(("given", "expected"), [(None, "system"), ("default", "default")])
def test_arrow_reserves_no_addresses_beyond_need(given, expected):
    """What it reserves counts where memory is limited by ``ulimit -v``; who has chosen otherwise keeps it."""
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    if given is not None:
        environment["ARROW_DEFAULT_MEMORY_POOL"] = given
    code = "import os, seqboost.cli; print(os.environ['ARROW_DEFAULT_MEMORY_POOL'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
