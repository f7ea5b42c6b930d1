"""What commands print: data are shown as they are, whatever they hold, and are never obeyed by the terminal."""

import contextlib
import json
import os
import re
import sys
import warnings

import numpy as np
import pytest
from cli_run import run
from typer.testing import CliRunner

import seqboost
from seqboost.cli import app
from seqboost.cli.console import Console, guarded, visible, visible_output

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LABELS = ("[red]", "[/x]", r":$\no$:", "\x1b[31mred", "two\x9b2J", "turn\u202eed")
SHOWN = ("[red]", "[/x]", r":$\no$:", r"\x1b[31mred", r"two\x9b2J", r"turn\u202eed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table whose labels, columns and words are hostile, and a model of it."""
    folder = tmp_path_factory.mktemp("odd")
    lines = ["id,[b]sp\x1b]0;eed,room,state"]
    for i in range(120):
        lines.append(f"s{i // 12},{i % 6}.5,{'[/a]' if i % 2 else chr(0x9B) + 'b'},{LABELS[i % 6]}")
    (folder / "[bold]\x1b.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ["--sequence", "id", "--label", "state", "--max-iter", 3]
    with contextlib.chdir(folder):
        done = run("train", "[bold]\x1b.csv", *options, "--model", "[m]\x1b.seqboost")
    assert not OBEYED.search(done.output)
    assert r"\x1b[31mred" in done.stderr
    assert r"Model: [m]\x1b.seqboost" in done.stderr
    return folder


COMMANDS = {
    "evaluate": ["evaluate", "[m]\x1b.seqboost", "[bold]\x1b.csv", "--against", "p.csv"],
    "inspect": ["inspect", "[m]\x1b.seqboost"],
    "explain": ["inspect", "[m]\x1b.seqboost", "[bold]\x1b.csv", "--sequence", "1"],
    "convert": ["convert", "[bold]\x1b.csv", "--sequence", "id", "--label", "state", "--output", "[c]\x1b.csv"],
    "report": ["report", "[m]\x1b.seqboost", "[bold]\x1b.csv", "--output", "[r]\x1b.html"],
    "predict": ["predict", "[m]\x1b.seqboost", "[bold]\x1b.csv", "--output", "p.csv"],
}


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
@pytest.mark.parametrize("name", COMMANDS)
def test_data_are_shown_and_not_obeyed(folder, monkeypatch, name, as_json):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "400")
    run(*COMMANDS["predict"])
    done = run(*COMMANDS[name], *(["--json"] if as_json else []))
    assert not OBEYED.search(done.stdout + done.stderr)
    if as_json:
        json.loads(done.stdout)
    elif name in ("evaluate", "inspect"):
        for label in SHOWN:
            assert label in done.stdout


def test_names_of_features_are_shown_as_they_are(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "400")
    done = run(*COMMANDS["explain"])
    assert r"[b]sp\x1b]0;eed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["convert", "no\x1b[31m[x].csv", "--output", "o.csv"], 1, r"there is no file 'no\x1b[31m[x].csv'"),
        (["convert", "no\x1b\n.csv", "--output", "\x1b.csv"], 1, r"there is no file 'no\x1b\n.csv'"),
        (["train", "--\x1b[31m"], 2, r"No such option: --\x1b[31m"),
        (["\x9b2J"], 2, r"No such command '\x9b2J'"),
        (["compare", "d.csv", "--test", "d.csv", "--models", "\x1b]0;x"], 2, r"\x1b]0;x"),
        (["train", "d.csv", "--model", "m", "--set", "\x1b=3"], 2, r"--set \x1b=3"),
    ],
)
def test_errors_show_what_was_typed(tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code
    assert message in done.stderr
    assert not OBEYED.search(done.output)


def test_names_of_files_that_are_no_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["convert", "a\udcff.csv", "--output", "o.csv", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["error"] == "there is no file 'a\\udcff.csv'; check the path"


@pytest.mark.filterwarnings("always")
def test_warnings_are_shown_as_they_are(capsys):
    guarded(lambda: warnings.warn("the label \x1b[31m", stacklevel=1))()
    assert capsys.readouterr().err == "seqboost: warning: the label \\x1b[31m\n"


def test_a_console_knows_no_markup(capsys):
    Console().print("[red]a[/] :smile: \x1b[31m")
    assert capsys.readouterr().out == "[red]a[/] :smile: \\x1b[31m\n"


def test_visible_leaves_text_alone():
    assert visible("Größe [x] 日本 a\u200db") == "Größe [x] 日本 a\u200db"
    assert visible("a\nb\tc\r\u2028") == r"a\nb\tc\r\u2028"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_labelled_data_are_made_visible_on_a_terminal_only(capsys, monkeypatch, is_terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    with visible_output():
        sys.stdout.write("a\t\x1b[31m\n")
    assert capsys.readouterr().out == ("a\t\\x1b[31m\n" if is_terminal else "a\t\x1b[31m\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "d.csv", "--model", "m", "--seed", "-1"],
        ["train", "d.csv", "--model", "m", "--seed", "4294967296"],
        ["compare", "d.csv", "--test", "d.csv", "--seed", "-1"],
        ["demo", "--seed", "-1"],
        ["demo", "--words", "-5"],
        ["predict", "m", "d.csv", "--kbest", "-1"],
        ["report", "m", "d.csv", "--max-sequences", "-1"],
        ["inspect", "m", "--top", "0"],
        ["inspect", "m", "d.csv", "--sequence", "-1"],
        ["train", "d.csv", "--model", "m", "--order", "-1"],
        ["train", "d.csv", "--model", "m", "--max-iter", "0"],
        ["train", "d.csv", "--model", "m", "--learning-rate", "nan"],
        ["train", "d.csv", "--model", "m", "--n-jobs", "0"],
        ["train", "d.csv", "--model", "m", "--window", "-3"],
        ["train", "d.csv", "--model", "m", "--set", "max_leaf_nodes=1"],
    ],
)
def test_numbers_out_of_range_are_told_in_one_line(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("x,label\n" + "1,a\n2,b\n" * 10, encoding="utf-8")
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 2, done.output
    complaints = [line for line in done.stderr.splitlines() if line.startswith(("Error: ", "seqboost: "))]
    assert len(complaints) == 1, done.stderr
    assert os.listdir(tmp_path) == ["d.csv"]


@pytest.mark.filterwarnings("ignore:Glyph .* missing")
def test_pictures_of_odd_labels_and_very_many_features(folder, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(folder)
    run("inspect", "[m]\x1b.seqboost", "--top", "9" * 25, "--plot", "p.png")
    run(*COMMANDS["evaluate"][:3], "--plot", "p.svg")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "crfsuite"])
def test_labels_beyond_64_bits(tmp_path, monkeypatch, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"s{i // 6},{i % 3},{[2**70, 5][i % 3 > 0]}\n" for i in range(60))
    (tmp_path / "d.csv").write_text("id,speed,state\n" + rows, encoding="utf-8")
    options = ["--sequence", "id", "--label", "state"]
    run("train", "d.csv", *options, "--model", "m.seqboost", "--max-iter", 2, "--set", "min_samples_leaf=2", "-q")
    assert seqboost.load("m.seqboost").classes_.tolist() == [5, 2**70]
    run("convert", "d.csv", *options, "--output", f"c.{suffix}")
    expected = json.loads(run("evaluate", "m.seqboost", "d.csv", "--json").stdout)["accuracy"]
    assert json.loads(run("evaluate", "m.seqboost", f"c.{suffix}", "--json").stdout)["accuracy"] == expected > 0.6
    run("predict", "m.seqboost", f"c.{suffix}", "--output", f"p.{suffix}", "--proba", "--kbest", 2)
    run("inspect", "m.seqboost", "d.csv", "--sequence", 0, "--against", 2**70)
    run("report", "m.seqboost", "d.csv")


def test_tuples_as_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = [[{"speed": float(i % 3)} for i in range(6)] for _ in range(10)]
    y = [[(1, 2) if i % 3 else np.int64(7) for i in range(6)] for _ in range(10)]
    model = seqboost.TreeCRF(max_iter=3, min_samples_leaf=2).fit(X, y)
    model.save("m.seqboost")
    (tmp_path / "d.jsonl").write_text("".join(json.dumps({"x": x}) + "\n" for x in X), encoding="utf-8")
    lines = run("predict", "m.seqboost", "d.jsonl", "--proba").stdout.splitlines()
    expected = [[list(label) if isinstance(label, tuple) else label for label in part] for part in model.predict(X)]
    assert [json.loads(line)["predicted"] for line in lines] == expected
    run("inspect", "m.seqboost", "d.jsonl")


@pytest.mark.parametrize(("labels", "key"), [(("0", "1"), "1"), (("False", "True"), "True")])
def test_settings_by_label_name_numbers_and_booleans_by_their_text(tmp_path, labels, key):
    rows = [f"{s},{t},{labels[t % 2]}" for s in range(6) for t in range(6)]
    (tmp_path / "data.csv").write_text("\n".join(["seq,x,y", *rows]), encoding="utf-8")
    command = ["train", tmp_path / "data.csv", "-s", "seq", "-l", "y", "-m", tmp_path / "m", "--max-iter", "2"]
    moves = {labels[0]: [labels[1]], labels[1]: [labels[0]]}
    run(*command, "--set", f'class_weight={{"{key}": 5}}', "--set", f"transitions={json.dumps(moves)}")
    model = seqboost.load(tmp_path / "m")
    assert list(model.class_weight.values()) == [5]
    assert set(model.class_weight) <= set(model.classes_.tolist())
