"""How kernels are compiled and cached."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

import seqboost
from seqboost.core import jit, pipeline

SOURCE = """
import numpy as np

def double(x):
    for i in range(x.size):
        x[i] *= 2

def double_again(x):
    for i in range(x.size):
        x[i] *= 2

def allocate(n):
    return np.empty(n).size

def allocate_again(n):
    return np.empty(n).size
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """Functions of a module of their own, with a cache of their own."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "functions.py"
    file.write_text(SOURCE, encoding="utf-8")
    names: dict[str, object] = {}
    exec(compile(SOURCE, str(file), "exec"), names)
    return SimpleNamespace(**names)


def test_kernels_that_count_no_references_compute_the_same(functions):
    plain, allocating = jit.jit(functions.double), jit.allocating(functions.double_again)
    a, b = np.arange(3.0), np.arange(3.0)
    plain(a)
    allocating(b)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, [0.0, 2.0, 4.0])


def test_only_some_kernels_may_allocate(functions):
    assert jit.allocating(functions.allocate)(3) == 3
    with pytest.raises(numba.TypingError, match="Only accept returning of array passed into the function"):
        jit.jit(functions.allocate_again)(3)


def test_kernels_are_cached_once_compiled(functions):
    kernel = jit.jit(functions.double)
    assert jit.is_cached(kernel) is False
    kernel(np.ones(1))
    assert jit.is_cached(kernel)
    again = jit.jit(functions.double)
    again(np.ones(1))
    assert sum(again.stats.cache_hits.values()) == 1
    again(np.ones(1, dtype=np.float32))  # a second entry of the index
    third = jit.jit(functions.double)
    for dtype in (np.float32, np.float64):
        x = np.ones(1, dtype=dtype)
        third(x)
        assert x[0] == 2
    assert sum(third.stats.cache_hits.values()) == 2


def test_without_a_folder_to_write_to_kernels_are_compiled_all_the_same(functions, monkeypatch):
    def refuse(self):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(Dispatcher, "enable_caching", refuse)
    kernel = jit.jit(functions.double)
    x = np.ones(2)
    kernel(x)
    np.testing.assert_array_equal(x, [2.0, 2.0])
    assert jit.is_cached(kernel) is None


def test_a_disk_that_fills_up_is_no_error(functions, monkeypatch):
    kernel = jit.jit(functions.double)

    def refuse(name, data):
        raise OSError("No space left on device")

    monkeypatch.setattr(kernel._cache._cache_file, "_save_data", refuse)
    x = np.ones(2)
    kernel(x)
    np.testing.assert_array_equal(x, [2.0, 2.0])
    assert jit.is_cached(kernel) is False


def test_an_index_of_types_that_are_gone_is_no_error(functions, monkeypatch):
    jit.jit(functions.double)(np.ones(1))

    def refuse(self):
        raise AttributeError("Can't get attribute 'Space' on <module 'seqboost.trees.space'>")

    monkeypatch.setattr(IndexDataCacheFile, "_load_index", refuse)
    kernel = jit.jit(functions.double)
    x = np.ones(2)
    kernel(x)
    np.testing.assert_array_equal(x, [2.0, 2.0])
    assert sum(kernel.stats.cache_misses.values()) == 1
    monkeypatch.undo()


def test_code_is_written_before_the_index_names_it(functions, monkeypatch):
    kernel = jit.jit(functions.double)
    file, order = kernel._cache._cache_file, []

    def noting(name, call):
        return lambda *arguments: (order.append(name), call(*arguments))

    for name in ("_save_index", "_save_data"):
        monkeypatch.setattr(file, name, noting(name, getattr(file, name)))
    kernel(np.ones(2))
    assert order == ["_save_data", "_save_index"]


def test_two_processes_that_write_at_once_never_take_each_others_code(functions):
    """The second reads the index before the first has written its entry, and writes it afterwards: one is lost."""
    kernels = [jit.jit(functions.double), jit.jit(functions.double)]
    files = [kernel._cache._cache_file for kernel in kernels]
    early = files[1]._load_index()
    kernels[0](np.ones(1))
    files[1]._load_index = lambda: early
    kernels[1](np.ones(1, dtype=np.float32))
    assert files[0]._load_index() == early
    for dtype in (np.float64, np.float32):
        x, fresh = np.ones(2, dtype=dtype), jit.jit(functions.double)
        fresh(x)
        np.testing.assert_array_equal(x, [2.0, 2.0])
    names = list(files[0]._load_index().values())
    assert len(set(names)) == len(names) == 2


SUM = """
from seqboost.core.jit import jit
from {place} import one

@jit
def kernel(x):
    return x + one()
"""
ONE = """
from seqboost.core.jit import inner

@inner
def one():
    return {value}
"""


def run_kernel(root, name):
    """Run a kernel of a copy of seqboost; return what it gives and how often it was taken from the cache."""
    code = f"from {name} import kernel; print(kernel(1), sum(kernel.stats.cache_hits.values()))"
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(map(int, done.stdout.split()))


@pytest.fixture
def copy(tmp_path):
    """A package called seqboost, with the modules of core that kernels need and a package of two levels."""
    root = tmp_path / "first" / "seqboost"
    for folder in ("core", "chain/exact", "trees"):
        (root / folder).mkdir(parents=True)
    for folder in (root, root / "core", root / "chain", root / "chain" / "exact", root / "trees"):
        (folder / "__init__.py").write_text("", encoding="utf-8")
    for module in (jit, pipeline):
        shutil.copy(module.__file__, root / "core")
    (root / "core" / "one.py").write_text(ONE.format(value=1), encoding="utf-8")
    (root / "chain" / "one.py").write_text(ONE.format(value=1), encoding="utf-8")
    (root / "trees" / "other.py").write_text("", encoding="utf-8")
    for place in ("core", "chain"):
        text = SUM.format(place=f"seqboost.{place}.one")
        (root / "chain" / "exact" / f"of_{place}.py").write_text(text, encoding="utf-8")
    return root


def test_kernels_are_compiled_again_when_a_source_of_theirs_changes(copy):
    """Those of the package, in any sub-package, and those of core; not those of other packages."""
    names = [f"seqboost.chain.exact.of_{place}" for place in ("core", "chain")]
    for name in names:
        assert run_kernel(copy.parent, name) == (2, 0)
        assert run_kernel(copy.parent, name) == (2, 1)
    (copy / "trees" / "other.py").write_text("changed = True", encoding="utf-8")
    assert [run_kernel(copy.parent, name) for name in names] == [(2, 1), (2, 1)]
    (copy / "chain" / "one.py").write_text(ONE.format(value=5), encoding="utf-8")
    assert [run_kernel(copy.parent, name) for name in names] == [(2, 0), (6, 0)]
    (copy / "core" / "one.py").write_text(ONE.format(value=7), encoding="utf-8")
    assert [run_kernel(copy.parent, name) for name in names] == [(8, 0), (6, 0)]


def test_a_copy_with_its_cache_compiles_nothing(copy):
    """Times of modification play no part."""
    name = "seqboost.chain.exact.of_core"
    assert run_kernel(copy.parent, name) == (2, 0)
    second = copy.parents[1] / "second" / "seqboost"
    shutil.copytree(copy, second, copy_function=shutil.copyfile)
    for file in second.rglob("*.py"):
        os.utime(file, (1e9, 1e9))
    assert run_kernel(second.parent, name) == (2, 1)


def test_whether_a_cache_unlike_numbas_holds_a_kernel_is_unknown():
    assert jit.is_cached(lambda: None) is None
    assert jit.is_cached(SimpleNamespace(_cache=None)) is None


TREES = """
import hashlib
import numpy as np
from seqboost.trees import Grower, Problem
from tests.support.trees import LIMITS, POLICIES, leaf_value, policies_of, random_case, with_outputs

for n_outputs, policy in ((1, "direction"), (3, "direction"), (5, "mixed"), (7, "weighting"), (40, "direction")):
    case = with_outputs(random_case(n_outputs, n_riders=3), n_outputs=n_outputs)
    policies = policies_of(case.columns, POLICIES[policy])
    grower = Grower(Problem(case.columns, case.space, LIMITS), n_outputs, policies)
    tree, leaves = grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, leaf_value(0.5))
    new = np.zeros_like(case.gradient)
    leaves.add(tree.value, case.gradient, new)
    parts = tree.kind, tree.feature, tree.words, tree.left, tree.right, tree.gain, tree.value, new
    print(tree.n_leaves, hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
"""


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="signed and unsigned numbers made floats")
def test_kernels_of_trees_do_the_same_uncompiled():
    """With NUMBA_DISABLE_JIT, what is written in LLVM's language has twins in Python."""
    root, source = Path(__file__).parents[2], Path(seqboost.__file__).parents[1]
    printed = []
    for disabled in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled, "PYTHONPATH": f"{source}{os.pathsep}{root}"}
        done = subprocess.run([sys.executable, "-c", TREES], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert printed[0].count("\n") == 5


CHECKED = """
import numpy as np
from seqboost.core import jit

@jit.inner
def read(x, i):
    return x[i]

@jit.jit
def plain_sum(x, first, last):
    total = 0.0
    for i in range(first, last):
        total += read(x, i)
    return total

@jit.inner
def of_slice(x, i):
    return x[2:][i]

@jit.reassociating
def sliced_sum(x, first, last):
    total = 0.0
    for i in range(first, last):
        total += of_slice(x, i)
    return total
"""
CALLS = """
from checked import plain_sum, sliced_sum
from seqboost.core.jit import is_cached
from seqboost.core.threads import run_tasks

x = np.ones(4)
assert plain_sum(x, 0, 4) == 4 and sliced_sum(x, 0, 2) == 2
for kernel, last in ((plain_sum, 5), (sliced_sum, 3)):
    try:
        run_tasks(kernel, [(x, 0, last)] * 3, 2)
    except IndexError as error:
        print("refused", is_cached(kernel))
    else:
        print("read", is_cached(kernel))
"""


def test_kernels_with_and_without_bounds_checks_are_cached_apart(tmp_path):
    """A read beyond an array raises in kernels that kernels call, on other threads, and whatever was cached before."""
    (tmp_path / "checked.py").write_text(CHECKED, encoding="utf-8")
    said = {"0": "read True\nread True\n", "1": "refused True\nrefused True\n"}
    for flag in ("0", "1", "0", "1"):
        paths = os.pathsep.join([str(tmp_path), str(Path(jit.__file__).parents[2])])
        environment = {**os.environ, "NUMBA_BOUNDSCHECK": flag, "PYTHONPATH": paths}
        command = [sys.executable, "-c", "import numpy as np" + CALLS]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout == said[flag], flag
