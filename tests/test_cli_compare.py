"""``seqboost compare``."""

import json

import pytest
from cli_run import run
from damaged_files import good_table

import seqboost
from seqboost.cli.compare import LABELLERS, labellers_of
from seqboost.exceptions import ParameterError

READING = ["--sequence", "id", "--label", "state"]
FAST = ["--models", "treecrf,hmm", "--set", "treecrf.max_iter=4", "--set", "min_samples_leaf=2"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    head, *rows = good_table(n_sequences=36, length=8)
    for name, part in (("a", rows[:224]), ("b", rows[224:])):
        (folder / f"{name}.csv").write_text("\n".join(map(",".join, [head, *part])) + "\n", encoding="utf-8")
    return folder / "a.csv", folder / "b.csv"


def test_json_is_what_the_library_finds(files):
    pd = pytest.importorskip("pandas")
    from seqboost import HMM, TreeCRF

    done = run("compare", files[0], "--test", files[1], *READING, *FAST, "--json")
    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert (found["sequences"], found["positions"]) == (8, 64)
    train, test = (pd.read_csv(path) for path in files)
    tree = TreeCRF(sequence="id", max_iter=4, min_samples_leaf=2, random_state=0)
    for name, model in (("treecrf", tree), ("hmm", HMM(sequence="id"))):
        score = model.fit(train.drop(columns="state"), train.state).score(test.drop(columns="state"), test.state)
        (row,) = [row for row in found["rows"] if row["name"] == name]
        assert row["accuracy"] == pytest.approx(score)
    assert [row["pvalue"] for row in found["rows"]][0] == 1.0


@pytest.mark.parametrize("names", [{"go": "walk", "stop": "rest"}, {"go": "walking"}])
def test_labels_of_tables_are_whole_strings(files, names, tmp_path):
    pd = pytest.importorskip("pandas")
    train, test = (pd.read_csv(path).replace({"state": names}) for path in files)
    test.loc[::5, "state"] = "other"  # mistakes, of labels with letters in common
    paths = tmp_path / "a.csv", tmp_path / "b.csv"
    for table, path in zip((train, test), paths, strict=True):
        table.to_csv(path, index=False)
    done = run("compare", paths[0], "--test", paths[1], *READING, "--models", "hmm,perceptron", "--json")
    for row in json.loads(done.stdout)["rows"]:
        labeller = getattr(seqboost, LABELLERS[row["name"]])(sequence="id")
        if "random_state" in labeller.get_params():
            labeller.set_params(random_state=0)
        labeller.fit(train.drop(columns="state"), train.state).save(tmp_path / "model.seqboost")
        found = json.loads(run("evaluate", tmp_path / "model.seqboost", paths[1], *READING, "--json").stdout)
        assert row["accuracy"] == found["accuracy"] < 1
        assert row["sequence_accuracy"] == found["sequence_accuracy"]


def test_tables_for_people(files):
    done = run("compare", files[0], "--test", files[1], *READING, *FAST)
    head = "labeller accuracy sequence accuracy fit s predict s memory MB p (McNemar)"
    assert done.stdout.splitlines()[0].split() == head.split()
    assert "treecrf: " in done.stderr
    marked = run("compare", files[0], "--test", files[1], *READING, *FAST, "--table", "markdown", "--quiet")
    assert marked.stdout.splitlines()[1].startswith("| --- |")
    assert marked.stderr == ""


def test_mistakes_on_the_command_line(files):
    command = ["compare", files[0], "--test", files[1], *READING]
    for extra, words in (
        (["--models", "treecrf,oracle"], "--models: expected some of treecrf, memm, "),
        (["--models", "hmm", "--set", "windows=3"], "--set windows=3: expected name=value or model.name=value"),
        (["--models", "hmm", "--set", "memm.order=1"], "--set memm.order=1: expected name=value"),
        (["--table", "html"], "--table html: expected text or markdown"),
    ):
        assert words in run(*command, *extra, code=2).stderr
    assert "Missing option '--test'" in run("compare", files[0], code=2).stderr


def test_settings_reach_the_labellers_that_have_them():
    made = labellers_of(tuple(LABELLERS), {"window": 2, "random_state": 5, "n_jobs": None}, ["memm.order=2"])
    assert len(made) == len(LABELLERS)
    assert made["memm"].order == 2
    assert made["hmm"].order == 1
    assert made["treecrf"].window == made["sliding_window"].window == 2
    assert made["treecrf"].random_state == 5
    with pytest.raises(ParameterError, match="got no name"):
        labellers_of((), {}, [])


def test_a_missing_package_has_the_exit_code_of_its_own(files, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pycrfsuite", None)
    done = run("compare", files[0], "--test", files[1], *READING, "--models", "linear_crf", code=3)
    assert "pip install 'seqboost[crfsuite]'" in done.stderr
