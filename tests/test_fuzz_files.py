"""A small sample of the fuzzer's data files, command lines and kills; ``make fuzz`` runs many more."""

import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest

from fuzz import arguments, data_files

ROOT = Path(__file__).parents[1]


def ran(target, folder, n_cases):
    """Run the first cases of a target in this process; whatever is found is raised."""
    state = target.prepare(folder)
    found = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        for seed in range(n_cases):
            found[target.run(state, seed)] += 1
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("target", "n_cases"), [(data_files, 1400), (arguments, 110)], ids=["data_files", "arguments"])
def test_nothing_is_found(target, n_cases, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for package in ("pyarrow", "matplotlib"):
        pytest.importorskip(package)
    found = ran(target, tmp_path, n_cases)
    assert found.total() == n_cases
    assert min(found["accepted"], found["refused"]) > n_cases / 20


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_kills_leave_whole_files_and_no_litter():
    pytest.importorskip("pyarrow")
    command = [sys.executable, "-m", "fuzz.kills", "--kills", "10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].split()[:2] == ["total", "10"]
