"""``seqboost reproduce``: the registry, resuming, what is written, and one experiment from end to end."""

import csv
import importlib
import json
import shutil
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from reproduction import (
    EXPERIMENTS,
    Experiment,
    Figure,
    Outcome,
    Store,
    as_markdown,
    chosen,
    coding,
    command,
    page,
    run,
    tasks,
    write,
    writing,
)
from reproduction.holes import damaged
from reproduction.tasks import best_of, bits, groups_of, pvalue, rounds_of, share
from seqboost import datasets
from seqboost.cli import app
from seqboost.datasets import Split
from seqboost.datasets.dataset import published
from seqboost.exceptions import DataFileError, MissingExtraError, ParameterError


def invoke(*args, code=0):
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    assert done.exit_code == code, (done.output, done.exception)
    return done


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("SEQBOOST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SEQBOOST_DATA", raising=False)
    return tmp_path / "cache"


class Counting:
    """An experiment of four cells that counts its runs, and can be made to fail."""

    def __init__(self):
        self.ran, self.error_at = [], {}
        self.experiment = Experiment(
            name="toy-table1", title="squares", source="Nobody (1999)", place="Table 1", says="They grow.",
            protocol="counted.", quick="two of them.",
            cells=lambda quick: [{"n": n, "kind": "a|b*"} for n in range(2 if quick else 4)],
            run=self.run, agrees=lambda rows: f"{len(rows)} squares.", figure=Figure("kind", "kind", "n", "square"),
        )  # fmt: skip

    def run(self, cell, quick):
        if cell["n"] in self.error_at:
            raise self.error_at[cell["n"]]
        self.ran.append(cell["n"])
        row = {**cell, "square": float(cell["n"] ** 2), "source": None}
        return Outcome([row], [row])


@pytest.fixture
def toy():
    return Counting()


def test_names_are_told_apart_and_cells_too():
    names = [one.name for one in EXPERIMENTS]
    assert len(set(names)) == len(names) >= 13
    for one in EXPERIMENTS:
        for quick in (False, True):
            cells = one.cells(quick)
            paths = {Store().path(one, cell, quick) for cell in cells}
            assert len(paths) == len(cells) > 0
            json.dumps([dict(cell) for cell in cells])
        assert len(one.cells(True)) <= len(one.cells(False))


def test_chosen_by_name_beginning_or_all():
    assert [one.name for one in chosen(["coding-figure5.6"], EXPERIMENTS)] == ["coding-figure5.6"]
    assert {one.name[:6] for one in chosen(["coding"], EXPERIMENTS)} == {"coding"}
    assert chosen(["all", "coding"], EXPERIMENTS) == list(EXPERIMENTS)
    with pytest.raises(ParameterError, match="there is no experiment 'table9'; expected 'all', a name .* treeboosting"):
        chosen(["table9"], EXPERIMENTS)
    with pytest.raises(ParameterError, match="no experiment is named"):
        chosen([], EXPERIMENTS)


def test_an_interrupted_run_goes_on(toy, tmp_path):
    store, told = Store(tmp_path), []
    toy.error_at = {2: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        run([toy.experiment], quick=False, store=store)
    assert toy.ran == [0, 1]
    assert store.complete(toy.experiment, quick=False) is None
    toy.error_at = {}
    found = run([toy.experiment], quick=False, store=store, tell=told.append)
    assert toy.ran == [0, 1, 2, 3]
    assert [row["square"] for outcome in found["toy-table1"] for row in outcome.rows] == [0, 1, 4, 9]
    assert [(step.done, step.total) for step in told] == [(1, 2), (2, 2)]
    assert told[0].left > 0
    assert told[1].left == 0
    run([toy.experiment], quick=False, store=store)
    assert len(toy.ran) == 4
    run([toy.experiment], quick=False, store=store, again=True)
    assert len(toy.ran) == 8


def test_another_run_may_write_the_same_files(toy, tmp_path):
    store = Store(tmp_path)
    run([toy.experiment], quick=True, store=store)
    paths = [store.path(toy.experiment, cell, quick=False) for cell in toy.experiment.cells(False)]

    def damage(step):
        for path in paths:
            if path.exists():
                path.write_text("{}", encoding="utf-8")

    found = run([toy.experiment], quick=False, store=store, tell=damage)
    assert [row["square"] for outcome in found["toy-table1"] for row in outcome.rows] == [0, 1, 4, 9]


def test_cells_of_another_protocol_version_or_damaged_do_not_count(toy, tmp_path):
    store = Store(tmp_path)
    run([toy.experiment], quick=True, store=store)
    assert store.complete(toy.experiment, quick=False) is None  # the quick version is another
    path = store.path(toy.experiment, {"n": 0, "kind": "a|b*"}, quick=True)
    whole = path.read_text(encoding="utf-8")
    for text in (whole[:30], "[]", whole.replace("counted.", "guessed."), whole.replace('"rows"', '"lines"')):
        path.write_text(text, encoding="utf-8")
        assert store.complete(toy.experiment, quick=True) is None
    path.write_text(whole, encoding="utf-8")
    assert len(store.complete(toy.experiment, quick=True)) == 2
    assert not list(tmp_path.rglob("*.new"))


def test_files_written(toy, tmp_path):
    pytest.importorskip("matplotlib")
    outcomes = run([toy.experiment], quick=True, store=Store(tmp_path))["toy-table1"]
    files = write(toy.experiment, outcomes, tmp_path / "out", quick=True)
    assert [path.name for path in files] == ["toy-table1-quick.md", "toy-table1-quick.csv", "toy-table1-quick.png"]
    text = files[0].read_text(encoding="utf-8")
    assert text.startswith("# toy-table1: squares (quick version)")
    assert "| 1 | a\\|b\\* | 1 |  |" in text
    assert "**What agrees:** 2 squares." in text
    with files[1].open(encoding="utf-8") as file:
        assert [row["square"] for row in csv.DictReader(file)] == ["0.0", "1.0"]
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_are_tables_all_the_same(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcomes = run([toy.experiment], quick=True, store=Store(tmp_path))["toy-table1"]
    assert [path.suffix for path in write(toy.experiment, outcomes, tmp_path, quick=True)] == [".md", ".csv"]
    with pytest.raises(MissingExtraError, match=r"seqboost\[plot\]"):
        writing.draw(toy.experiment.figure, outcomes[0].points, tmp_path / "x.png")


def test_page_has_the_full_version_if_there_is_one(toy, tmp_path):
    store, target = Store(tmp_path / "cells"), tmp_path / "docs" / "results.md"
    assert page([toy.experiment], store, target, tmp_path / "docs" / "results") == ["toy-table1"]
    assert "Not run yet: toy-table1." in target.read_text(encoding="utf-8")
    run([toy.experiment], quick=True, store=store)
    assert page([toy.experiment], store, target, tmp_path / "docs" / "results") == []
    assert "## toy-table1: squares (quick version)" in target.read_text(encoding="utf-8")
    run([toy.experiment], quick=False, store=store)
    page([toy.experiment], store, target, tmp_path / "docs" / "results")
    text = target.read_text(encoding="utf-8")
    assert "## toy-table1: squares\n" in text
    if "![" in text:
        assert "](results/toy-table1.png)" in text


def test_cells_are_short_in_markdown():
    table = as_markdown([{"a": 0.123456, "b": 98.76}, {"a": None, "c": "x"}]).splitlines()
    assert table == ["| a | b | c |", "| --- | --- | --- |", "| 0.1235 | 98.76 |  |", "|  |  | x |"]


# ------------------------------------------------------------------------------------------------ the command line


def test_an_installation_without_the_repository_says_so(monkeypatch, tmp_path):
    loader = importlib.import_module("seqboost.cli.reproduce")  # the package has a function of this name
    monkeypatch.setattr(loader, "CHECKOUT", tmp_path)
    told = invoke("reproduce", "list", code=1).stderr
    assert "part of seqboost's repository, not of the installed package; clone it" in told
    assert "pip install --editable '.[cli]'" in told


def test_the_wheel_holds_the_package_alone():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/seqboost"]}


def test_list():
    done = invoke("reproduce", "list")
    assert all(one.name in done.stdout for one in EXPERIMENTS)
    found = json.loads(invoke("reproduce", "list", "--json").stdout)["experiments"]
    assert [row["name"] for row in found] == [one.name for one in EXPERIMENTS]
    assert {row["run"] for row in found} == {""}


def test_interrupted_on_the_command_line(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "EXPERIMENTS", (toy.experiment,))
    toy.error_at = {1: KeyboardInterrupt()}
    done = invoke("reproduce", "toy", "--output", tmp_path, code=130)
    assert "the same command goes on from there" in done.stderr
    assert "[1/4] toy-table1: 0, a|b*" in done.stderr
    assert "left" in done.stderr
    toy.error_at = {}
    done = invoke("reproduce", "toy", "--output", tmp_path)
    assert toy.ran == [0, 1, 2, 3]
    assert "1 of 4 parts were run before and are kept" in done.stderr
    assert "What agrees: 4 squares." in done.stdout
    assert (tmp_path / "results.md").exists()
    assert json.loads(invoke("reproduce", "list", "--json").stdout)["experiments"][0]["run"] == "full"


def test_mistakes_on_the_command_line(tmp_path):
    assert "there is no experiment 'table9'" in invoke("reproduce", "table9", code=2).stderr
    assert "page runs nothing and stands alone" in invoke("reproduce", "page", "coding", code=2).stderr
    found = json.loads(invoke("reproduce", "table9", "--json", code=2).stdout)
    assert found["exit_code"] == 2


def test_without_data_the_message_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    done = invoke("reproduce", "windows-nettalk", "--quick", "--output", tmp_path, code=1)
    assert "SEQBOOST_DATA" in done.stderr
    assert "nettalk" in done.stderr


def test_what_needs_no_data_runs_all_the_same(toy, tmp_path, monkeypatch):
    lacking = Counting()
    lacking.error_at = {0: DataFileError("put it into $SEQBOOST_DATA/x")}
    other = Experiment(**{**vars(lacking.experiment), "name": "lacking"})
    monkeypatch.setattr(command, "EXPERIMENTS", (other, toy.experiment))
    done = invoke("reproduce", "all", "--quick", "--output", tmp_path, code=1)
    assert toy.ran == [0, 1]
    assert "lacking was left out: put it into $SEQBOOST_DATA/x" in done.stderr
    assert "1 of 2 experiments were left out" in done.stderr


def small_nettalk(target):
    """Words whose letters are stressed where they are vowels."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abdeimnst"), rng.integers(3, 8))) for _ in range(60)]
    labels = [np.array(["v1" if c in "aei" else "c0" for c in word]) for word in words]
    return published("nettalk", (words[:40], labels[:40]), (words[40:], labels[40:]))


def test_one_experiment_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "load_nettalk", small_nettalk)
    done = invoke("reproduce", "windows-nettalk", "--quick", "--output", tmp_path / "out", "--json")
    (found,) = json.loads(done.stdout)["experiments"]
    assert found["quick"]
    assert [row["method"] for row in found["rows"]][0] == "sliding window"
    assert found["rows"][0]["letters %"] == 100.0  # the letter tells the label
    assert found["rows"][0]["letters %, source"] == 69.6
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "results.md", "windows-nettalk-quick.csv", "windows-nettalk-quick.md",
    ]  # fmt: skip
    first = (tmp_path / "out" / "windows-nettalk-quick.csv").read_bytes()
    shutil.rmtree(tmp_path / "out")
    invoke("reproduce", "windows-nettalk", "--quick", "--output", tmp_path / "out", "--again", "--quiet")
    assert (tmp_path / "out" / "windows-nettalk-quick.csv").read_bytes() == first  # seeds are fixed


# ------------------------------------------------------------------------------------------------------- protocols


def test_right_labels_as_bits():
    right = bits([["a", "b"], ["c"]], [np.array(["a", "x"]), np.array(["c"])])
    assert right == "101"
    assert share(right) == 66.67
    assert pvalue("1" * 40, "0" * 20 + "1" * 20) < 1e-4
    assert pvalue("10", "01") == 1.0


def test_similar_proteins_are_one_group():
    X = ["ACDEFGHIKLMN", "MNPQRSTVWYAC", "ACDEFGHIKLMW"]
    assert groups_of("protein", X) == [0, 1, 0]
    assert groups_of("stress", X) == [0, 1, 2]


def test_letters_of_hyphen_are_missing_in_all_gaps_that_see_them():
    word = "abcd"
    padded = "  abcd  "
    gaps = [dict(zip(("left3", "left2", "left1", "right1", "right2", "right3"), padded[t : t + 6], strict=True))
            for t in range(3)]  # fmt: skip
    assert damaged("hyphen", [gaps], 0, seed=0) == [gaps]
    found = damaged("hyphen", [gaps], 50, seed=2)[0]
    lost = [found[0]["left1"], *(gap["right1"] for gap in found)]
    assert None in lost
    assert lost != [None] * 4
    for gap, whole in zip(found, gaps, strict=True):
        for slot, letter in whole.items():
            assert gap[slot] == (letter if letter == " " else lost[word.index(letter)])


def test_choices_by_held_out_sequences():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdef"), 6)) for _ in range(24)]
    labels = [np.array([int(c in "abc") for c in word]) for word in words]
    common = {"window": 0, "random_state": 0, "min_samples_leaf": 2}
    options = [{**common, "learning_rate": 1e-6}, {**common, "learning_rate": 0.5}]
    found = rounds_of(options, words, labels, list(range(24)), max_iter=5, n_folds=3, n_used=2)
    assert found["learning_rate"] == 0.5
    assert 1 <= found["max_iter"] <= 5
    from seqboost import HMM, TreeCRF

    models = [TreeCRF(**common, max_iter=1, learning_rate=1e-6, early_stopping=False), HMM()]
    assert best_of(models, words, labels, list(range(24)), n_folds=3) is models[1]


def by_name(name):
    (found,) = chosen([name], EXPERIMENTS)
    return found


def test_table_of_missing_values():
    pytest.importorskip("statsmodels")
    one = by_name("dissertation-table4.1")
    right = {"instance_weighting": 620, "surrogate": 600, "impute": 500, "indicator": 630}
    rows = [
        {**cell, "test set": 0, "right": right[cell["policy"]] + 5 * cell["training set"], "n": 1000}
        for cell in one.cells(True)
    ]
    table = one.table(rows)
    found = {row["policy"]: row for row in table if row["set"] == "protein"}
    assert found["impute"]["accuracy %"] == 50.25
    assert found["impute"]["log odds"].endswith("*")
    assert float(found["impute"]["log odds"].rstrip("*")) == pytest.approx(np.log(1.0101 / (0.6225 / 0.3775)), abs=2e-3)
    assert [row["log odds, source"] for row in found.values()] == [None, "-0.041*", "-0.072*", "-0.020*"]
    assert not found["indicator"]["log odds"].startswith("-")
    assert "protein: of 3 comparisons, 1 clearly for it and 0 clearly against it" in one.agrees(table)
    assert "The sign of 6 of 9 coefficients is that of the source" in one.agrees(table)


def test_table_of_shrinkage_has_stars_on_the_better():
    one = by_name("dissertation-table3.4")
    good, poor = "1" * 90 + "0" * 10, "1" * 60 + "0" * 40
    rows = [
        {
            **cell,
            "right": dict.fromkeys(("posterior", "viterbi"), good if cell["route"] == better else poor),
            "chosen": "",
        }
        for cell in one.cells(True)
        for better in ["shrinkage" if cell["set"] == "protein" else "original"]
    ]
    table = one.table(rows)
    assert (table[0]["shrinkage %"], table[0]["original %"]) == ("90.00***", "60.00")
    assert (table[0]["source"], table[0]["original, source"]) == ("64.52**", "62.70")
    assert (table[2]["shrinkage %"], table[2]["original %"]) == ("60.00", "90.00***")
    assert "ahead in 2 of 6 pairs, clearly (stars) in 2, and clearly behind in 4" in one.agrees(table)


def test_verdicts_follow_the_numbers():
    one = by_name("coding-figure5.6")
    share_of = {"iid": 30.0, "i-SECOC": 40.0, "c-SECOC(1)": 45.0, "c-SECOC(5)": 50.0, "exact TreeCRF": 60.0}
    rows = [
        {**cell, "bits": cell["bits"] or None, "labels right %": share_of[cell["method"]]} for cell in one.cells(True)
    ]
    told = one.agrees(rows)
    assert "best cascade c-SECOC(5) 50.0, exact chain 60.0; the source's order iid < i-SECOC < c-SECOC holds" in told
    assert "codes are not alike (20.0 points apart; alike in the source)" in told
    phrases = by_name("coding-figure5.4")
    rows = [
        {**cell, "bits": cell["bits"] or None, "labels right %": share_of.get(cell["method"], 60.0)}
        for cell in phrases.cells(True)
    ]
    first, second = phrases.agrees(rows).split("; noun phrases, window 3")
    assert "< c-SECOC holds" in first
    assert "iid is behind the others (as good in the source)" in second
    share_of["iid"] = 49.6
    rows = [{**row, "labels right %": share_of.get(row["method"], 60.0)} for row in rows]
    assert "iid is as good as the others" in phrases.agrees(rows)
    made_up = by_name("dissertation-table5.4")
    rows = [{**cell, "right": 100.0 if cell["method"] == "FF-MEMM-0" else 60.0, "source": 61.0}
            for cell in made_up.cells(True)]  # fmt: skip
    table = made_up.table(rows)
    assert table[0] == {"method": "SW", "xor %": 60.0, "xor %, source": 61.0, "or %": 60.0, "or %, source": 61.0,
                        "extra %": 60.0, "extra %, source": 61.0}  # fmt: skip
    told = made_up.agrees(table)
    assert "future features are best on all three sets; chains of higher order do not always gain" in told


def race_rows(name, quick=True, **right):
    """Rows of a race, with shares of right labels by base and kind of method; codes take longer one after another."""
    rows = []
    for number, cell in enumerate(by_name(name).cells(quick)):
        kind = cell["method"].split()[0] if cell["bits"] == 0 else "codes"
        seconds = 12.3 + number if kind == "codes" else right.get("beam_seconds", 1.0)
        rows.append({**cell, "labels right %": right[f"{cell['base']}_{kind}"], "CPU s": seconds})
    return rows


@pytest.mark.parametrize(
    ("codes", "beam", "pruned", "told"),
    [
        (70.0, 60.0, 50.0, "codes of trees are ahead of the perceptron's beam search, and that is ahead of the beam"),
        (50.0, 60.0, 70.0, "are not ahead of the perceptron's beam search, and that is not ahead of the beam"),
    ],
)
def test_codes_race_against_beams(codes, beam, pruned, told):
    one = by_name("coding-figure5.3")
    rows = race_rows(
        one.name, TreeCRF_codes=codes, TreeCRF_beam=pruned, TreeCRF_exact=80.0,
        perceptron_codes=40.0, perceptron_beam=beam, perceptron_exact=75.0,
    )  # fmt: skip
    said = one.agrees(rows)
    assert said.count(told) == 2  # windows
    assert f"TreeCRF {codes} by i-SECOC in 12 s" in said  # of equally good ones the faster
    assert "exactly TreeCRF 80.0, perceptron 75.0" in said


def test_codes_of_a_perceptron_race_against_its_beams():
    one = by_name("coding-figure5.5")
    shares = {"perceptron_codes": 70.0, "perceptron_exact": 71.0}
    better, equal = ({"perceptron_beam": right, **shares} for right in (72.0, 70.0))
    assert "beam search is ahead of codes, in less time (" in one.agrees(race_rows(one.name, **better))
    assert "is ahead of codes, in more time" in one.agrees(race_rows(one.name, beam_seconds=99.0, **better))
    assert "beam search is not ahead of codes" in one.agrees(race_rows(one.name, **equal))
    points = [cell for cell in one.cells(False) if cell["window"] == 1]
    assert [cell["method"] for cell in points] == [
        "i-SECOC", "c-SECOC(1)", "c-SECOC(5)", "beam 1", "beam 5", "beam 20", "exact perceptron"
    ]  # fmt: skip


def test_noun_phrases_have_the_labels_of_the_source(monkeypatch):
    X = [[("The", "DT"), ("cat", "NN"), ("sat", "VBD")], [("It", "PRP")]]
    y = [np.array(["B-NP", "I-NP", "B-VP"]), np.array(["B-NP"])]
    whole = SimpleNamespace(split=lambda: Split(X, y, X[1:], y[1:]))
    monkeypatch.setattr(tasks.datasets, "load_conll2000", lambda: whole)
    split = tasks.load("noun phrases")
    assert split.X_train[0] == [{"word": "The"}, {"word": "cat"}, {"word": "sat"}]
    assert [list(labels) for labels in split.y_train] == [["DT+B-NP", "NN+I-NP", "VBD+O"], ["PRP+B-NP"]]
    assert split.X_test == [[{"word": "It"}]]


@pytest.fixture
def letters(monkeypatch):
    """A set of a few letters that label themselves, in place of the sets of the source."""
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abcdefgh"), size=12)) for _ in range(40)]
    y = [np.array([letter.upper() for letter in word]) for word in X]
    monkeypatch.setattr(coding, "_split", lambda name, quick: Split(X[:30], y[:30], X[30:], y[30:]))


@pytest.mark.parametrize("name", ["coding-figure5.3", "coding-figure5.4", "coding-figure5.5"])
def test_a_cell_of_each_method_runs(name, letters):
    one = by_name(name)
    cells = {(cell["base"], cell["method"]): {**cell, "bits": min(cell["bits"], 6)} for cell in one.cells(True)}
    for (base, method), cell in cells.items():
        outcome = one.run(cell, True)
        (row,) = outcome.rows
        assert row["method"] == method
        assert row["labels right %"] > (30 if cell["bits"] else 90)
        assert row["CPU s"] > 0
        assert outcome.points
        if "5.4" not in name:
            assert row["base"] == base
            assert [point["line"].startswith(base) for point in outcome.points] == [True]
