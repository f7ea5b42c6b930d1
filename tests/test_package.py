"""The package as a whole: import law, exports, version, what importing loads, and the README's examples."""

import ast
import importlib.metadata
import inspect
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import seqboost

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "seqboost"

# What each package may import from seqboost, besides itself and `core`, which is open to all.
INNER = {
    "core": set(),
    "sequences": set(),
    "files": {"sequences"},
    "features": {"sequences"},
    "chain": set(),
    "trees": set(),
    "objectives": {"chain"},
    "linear": {"sequences", "features", "chain", "objectives"},
    "boosting": {"features", "trees", "objectives"},
    "model": {"features", "chain", "trees", "linear"},
    "training": {"sequences", "features", "chain", "trees", "objectives", "linear", "boosting", "model"},
    "estimators": {"sequences", "features", "chain", "trees", "objectives", "linear", "boosting", "model", "training"},
    "inspection": {"sequences", "features", "chain", "trees", "linear", "model", "estimators"},
}
OUTER = {"evaluation", "datasets", "plotting", "reporting", "cli"}
OPTIONAL = ("pandas", "polars", "pyarrow", "matplotlib", "lightgbm", "pycrfsuite", "dask", "ray", "statsmodels")
HEAVY = (*OPTIONAL, "typer", "rich")
# Packages and modules whose names are public as they stand, as the outer ring may use them.
PUBLIC = {"", "callbacks", "datasets", "evaluation", "exceptions", "files", "inspection", "plotting", "reporting",
          "sampling"}  # fmt: skip


def package_of(path: Path) -> str:
    """First folder below the package, or the module's own name at its top."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Packages of seqboost that a module imports anywhere, also inside functions ("" = the package's public names)."""
    package = ["seqboost", *path.relative_to(SOURCE).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module or "").split(".")]).rstrip(".")
            # "from seqboost import chain" names a package, "from seqboost import TreeCRF" a public name
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "seqboost" else [module]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "seqboost":
                is_package = len(parts) > 1 and ((SOURCE / parts[1]).is_dir() or (SOURCE / f"{parts[1]}.py").exists())
                found.add(parts[1] if is_package else "")
    return found


MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_packages_import_only_downwards(path):
    package = package_of(path)
    allowed = {package, "core"} | INNER.get(package, set())
    if package in OUTER:
        allowed |= PUBLIC
    assert imports_of(path) <= allowed, f"{package} may import {sorted(allowed)}"


def test_every_folder_is_a_known_package():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= set(INNER) | OUTER


def test_core_loads_nothing_by_itself():
    assert imports_of(SOURCE / "core" / "__init__.py") == set()
    assert imports_of(SOURCE / "exceptions.py") == {"core"}


def test_exceptions_have_their_public_address():
    for name in seqboost.exceptions.__all__:
        error = getattr(seqboost.exceptions, name)
        assert error.__module__ == "seqboost.exceptions"
        assert pickle.loads(pickle.dumps(error("why"))).args == ("why",)


def test_import_reader_sees_every_form():
    module = SOURCE / "chain" / "imaginary.py"
    text = """
import seqboost.trees
from seqboost import model, TreeCRF
from ..sequences.batch import SequenceBatch
from . import paths
def late():
    from seqboost.boosting.loop import boost
"""

    class Reader(type(module)):
        def read_text(self, encoding=None):
            return text

    expected = {"trees", "model", "", "sequences", "chain", "boosting"}
    assert imports_of(Reader(module)) == expected


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_seqboost_loads_nothing_heavy():
    # scikit-learn loads pandas and rich by itself where they are installed: what it loads is not ours to answer for.
    code = f"""
import sys, numba, narwhals, scipy.sparse, sklearn.base, sklearn.model_selection
before = set(sys.modules)
import seqboost
print([name for name in {HEAVY!r} if name in set(sys.modules) - before])
"""
    assert run_python(code) == "[]"


def test_importing_seqboost_needs_nothing_optional():
    code = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL!r})); import seqboost; print('imported')"
    assert run_python(code) == "imported"


def test_exported_names_exist_and_are_documented():
    assert {"TreeCRF", "load"} <= set(seqboost.__all__)
    assert len(set(seqboost.__all__)) == len(seqboost.__all__)
    for name in seqboost.__all__:
        value = getattr(seqboost, name)
        if inspect.isclass(value) or callable(value):
            assert (inspect.getdoc(value) or "").strip(), f"{name} has no docstring"


def test_public_methods_of_exported_classes_are_documented():
    for name in seqboost.__all__:
        value = getattr(seqboost, name)
        if inspect.isclass(value) and value.__module__.startswith("seqboost"):
            for method, member in inspect.getmembers(value, inspect.isfunction):
                if not method.startswith("_"):
                    assert (inspect.getdoc(member) or "").strip(), f"{name}.{method} has no docstring"


def test_version_is_the_same_everywhere():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert seqboost.__version__ == declared
    assert importlib.metadata.version("seqboost") == declared
    assert f"version: {declared}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_readme_says_first_what_the_trees_are():
    paragraphs = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")
    assert "the trees are the potentials, not the graph" in paragraphs[1].lower().replace("\n", " ")


def test_readme_examples_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    share = float(printed[0].split()[0])
    assert share > 0.8
    assert printed[-1] == "True"


def test_readme_commands_are_make_targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert commands == ["demo", "test"]
    assert all(re.search(rf"^{command}:", makefile, flags=re.MULTILINE) for command in commands)


def test_ci_runs_the_readme_test_command():
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
