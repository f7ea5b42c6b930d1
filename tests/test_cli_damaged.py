"""Every kind of damaged file gets one clear message and the right exit code, and leaves nothing behind."""

import os
import re

import pytest
from damaged_files import DAMAGES, good_table, write_damage
from typer.testing import CliRunner

import seqboost
from seqboost.cli import app


@pytest.fixture(scope="module")
def good_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "good.csv").write_text("\n".join(",".join(row) for row in good_table()) + "\n", encoding="utf-8")
    target = folder / "good.seqboost"
    args = ["train", str(folder / "good.csv"), "--sequence", "id", "--label", "state", "--model", str(target)]
    done = CliRunner().invoke(app, [*args, "--max-iter", "2", "--quiet", "--set", "early_stopping=false"])
    assert done.exit_code == 0, done.output
    return target.read_bytes()


def test_there_are_at_least_fifty_kinds():
    assert len(DAMAGES) >= 50
    assert len({damage.name for damage in DAMAGES}) == len(DAMAGES)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_damage_is_told_in_one_message(damage, tmp_path, monkeypatch, good_model):
    monkeypatch.chdir(tmp_path)
    write_damage(damage, tmp_path)
    if "good.seqboost" in damage.args:
        (tmp_path / "good.seqboost").write_bytes(good_model)
    before = sorted(os.listdir(tmp_path))
    done = CliRunner().invoke(app, list(damage.args))
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == damage.code, done.output
    message = done.stderr
    assert re.search(damage.message, message), message
    assert "Traceback" not in message
    if damage.name != "option that does not exist":  # Typer's own message
        lines = [line for line in message.splitlines() if line.startswith("seqboost: ")]
        assert len([line for line in lines if "warning" not in line and "compiling" not in line]) == 1, message
        assert len(lines[-1]) > 20
    assert done.stdout == ""
    assert sorted(os.listdir(tmp_path)) == before


def test_errors_for_machines_are_objects(tmp_path, monkeypatch):
    import json

    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["train", "none.csv", "--model", "m", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout) == {"error": "there is no file 'none.csv'; check the path", "exit_code": 1}
    assert done.stderr == ""


def test_missing_packages_have_a_code_of_their_own(tmp_path, monkeypatch):
    import sys

    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = CliRunner().invoke(app, ["train", str(tmp_path / "d.parquet"), "--model", "m"])
    assert done.exit_code == 3
    assert 'pip install "seqboost[tables]"' in done.stderr


def test_skipping_counts_and_lists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = good_table()
    rows[3][1], rows[7] = "fast", rows[7][:2]
    (tmp_path / "d.csv").write_text("\n".join(map(",".join, rows)), encoding="utf-8")
    args = ["convert", "d.csv", "--sequence", "id", "--label", "state", "--skip-bad", "--output", "o.csv"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    assert "left out 2 bad lines" in done.stderr
    assert "d.csv, line 4: column 'speed' holds numbers, but here 'fast'" in done.stderr
    assert "d.csv, line 8: expected 4 cells" in done.stderr
    assert len((tmp_path / "o.csv").read_text(encoding="utf-8").splitlines()) == len(rows) - 2


def test_model_written_before_is_kept_when_training_fails(tmp_path, monkeypatch, good_model):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.seqboost").write_bytes(good_model)
    (tmp_path / "d.csv").write_text("id,speed,state\n1,2\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["train", "d.csv", "--label", "state", "--model", "m.seqboost"])
    assert done.exit_code == 1
    assert (tmp_path / "m.seqboost").read_bytes() == good_model
    assert seqboost.load(tmp_path / "m.seqboost").classes_.tolist() == ["go", "stop"]
