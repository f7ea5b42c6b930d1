"""The fuzzer's driver, and a small sample of each target."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count, islice
from pathlib import Path

import pytest

from fuzz.__main__ import main
from fuzz.driver import FINDINGS, PrepareError, attack
from fuzz.outcome import Finding, check_probabilities


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_each_fault_is_counted_once_and_every_case_runs_once(folder):
    tally = attack("tests.fuzz_target", iter(range(40)), jobs=2, hang_seconds=4.0, memory_bytes=2**28)
    expected = {"crashes": 2, "hangs": 1, "exceptions": 2, "wrong answers": 1, "memory": 1}
    assert {kind: tally.counts[kind] for kind in FINDINGS} == expected
    assert tally.cases == 40
    assert tally.counts["accepted"] + tally.counts["refused"] == 33
    assert tally.labels["early"] == {"accepted": 9, "refused": 9, "crashes": 1, "hangs": 1}
    assert Counter(int(path.name.rpartition("-")[2]) for path in folder.iterdir()) == Counter(range(40))
    groups = {(kind, label): (group, first) for (kind, label, group), first in tally.groups.items()}
    group, first = groups["crashes", "early"]
    assert group.startswith("SIGSEGV at tests/fuzz_target.py:")
    assert first["replay"] == "python -m fuzz tests.fuzz_target --case 3"
    assert groups["crashes", "late"][0].startswith("exit code 0")
    assert "fuzz_target.py" in groups["hangs", "early"][0]
    assert any(group.startswith("RuntimeWarning at ") for _, _, group in tally.groups)
    assert "surprise" in next(first["detail"] for (_, _, group), first in tally.groups.items() if "KeyError" in group)
    assert tally.peak > 2**28


def test_time_is_limited(folder):
    tally = attack("tests.fuzz_target", islice(count(100), 10**9), seconds=0.5)
    assert 0 < tally.cases < 10**6
    assert tally.findings == 0


@pytest.mark.parametrize(("how", "match"), [("raises", "no models today"), ("dies", "SIGSEGV at tests/fuzz_target.py")])
def test_a_target_that_cannot_prepare_is_reported(folder, monkeypatch, how, match):
    monkeypatch.setenv("FUZZ_TARGET_PREPARE", how)
    with pytest.raises(PrepareError, match=match):
        attack("tests.fuzz_target", iter(range(40)), jobs=2)


def test_command_line(folder, capsys):
    arguments = ["tests.fuzz_target", "--jobs", "1", "--seed"]
    assert main([*arguments, "1", "--cases", "20"]) == 0
    assert main([*arguments, "0", "--cases", "4", "--output", str(folder / "report.json")]) == 1
    printed = capsys.readouterr().out
    assert "python -m fuzz tests.fuzz_target --case 3" in printed
    report = json.loads((folder / "report.json").read_text())
    assert report["versions"]["numba"]
    assert [report["targets"][0][name] for name in ("cases", "accepted", "refused", "crashes")] == [4, 2, 1, 1]
    with pytest.raises(Finding):
        main(["tests.fuzz_target", "--case", "30"])


@pytest.mark.parametrize("rows", [[[0.5, 0.4]], [[float("nan"), 1.0]], [[1.5, -0.5]], [0.5, 0.5]])
def test_wrong_probabilities_are_findings(rows):
    check_probabilities([[[0.5, 0.5]], [[1.0, 0.0], [0.25, 0.75]]])
    with pytest.raises(Finding, match="sequence 1"):
        check_probabilities([[[0.5, 0.5]], rows])
