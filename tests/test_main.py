"""The package without the extra ``cli``: everything but the command line works, and that says how to install it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from seqboost.__main__ import MISSING
from seqboost.cli import console

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""


def run(code, names=("rich", "typer")):
    """Run code in a process that lacks packages."""
    code = BLOCKED.format(names=names) + code
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize(
    "code",
    [
        "import runpy; runpy.run_module('seqboost', run_name='__main__', alter_sys=True)",
        "from seqboost.__main__ import main; sys.exit(main())",  # what the script `seqboost` does
    ],
)
@pytest.mark.parametrize("names", [("rich", "typer"), ("rich",), ("typer",)])
def test_the_command_line_says_how_to_install_it(code, names):
    done = run(code, names)
    assert done.returncode == MISSING == console.MISSING
    assert done.stdout == ""
    assert done.stderr == "seqboost: the command line needs typer and rich: pip install 'seqboost[cli]'\n"


def test_other_missing_packages_are_not_hidden():
    done = run("from seqboost.__main__ import main; main()", ("numpy",))
    assert "ModuleNotFoundError: No module named 'numpy'" in done.stderr


def test_everything_else_works():
    done = run("""
import pkgutil, importlib, seqboost
for module in pkgutil.walk_packages(seqboost.__path__, "seqboost."):
    if not module.name.startswith("seqboost.cli"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            assert error.name not in ("rich", "typer"), module.name
model = seqboost.TreeCRF(max_iter=2, min_samples_leaf=1, verbose=1).fit(["abab", "ba"], ["0101", "10"])
print("".join(model.predict(["abba"])[0]))
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0110\n"
    assert "[1/2] train log-likelihood" in done.stderr


def test_with_the_extra_the_command_line_runs():
    done = subprocess.run([sys.executable, "-m", "seqboost", "--help"], capture_output=True, text=True, check=True)
    assert "seqboost train readings.csv" in done.stdout


def names_of(requirements):
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


def test_dependencies_are_those_of_the_core():
    expected = {"numpy", "scipy", "scikit-learn", "threadpoolctl", "numba", "narwhals"}
    assert names_of(PROJECT["dependencies"]) == expected
    extras = PROJECT["optional-dependencies"]
    assert names_of(extras["cli"]) == {"rich", "typer"}
    assert "seqboost[cli]" in extras["demo"]  # what `make demo` installs
    assert any(re.match(r"seqboost\[.*\bcli\b.*\]", requirement) for requirement in extras["dev"])
    assert PROJECT["scripts"] == {"seqboost": "seqboost.__main__:main"}
