"""The tiny problems compile what fits need, in a second process and here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.typed_passes import NopythonTypeInference
from treecrf_data import all_equal, chains, small

from seqboost.core import compiler
from seqboost.trees import warmup

SLEEP = "import time; time.sleep(60)"


def process(code):
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)


@pytest.fixture
def cold(monkeypatch):
    """Make the tree kernels look as if they had to be compiled; helpers that are started are in ``cold``."""
    started = []

    def start(module, kind):
        started.append(process(SLEEP))
        return started[-1]

    monkeypatch.setattr(warmup, "grow_tree", SimpleNamespace(signatures=[]))
    monkeypatch.setattr(warmup, "search", SimpleNamespace(signatures=[]))
    monkeypatch.setattr(warmup, "best_split", SimpleNamespace(compile=lambda types: None))
    monkeypatch.setattr(warmup, "shared_types", dict)
    monkeypatch.setattr(compiler, "is_cached", lambda kernel: False)
    monkeypatch.setattr(compiler, "thread_count", lambda n_jobs: 2)
    monkeypatch.setattr(compiler, "_start", start)
    yield started
    compiler._stop()
    assert compiler._helper is None
    for helper in started:
        assert helper.returncode is not None


def test_a_cold_fit_has_a_helper(cold):
    assert warmup.compile_beside(2)
    assert len(cold) == 1


def test_a_helper_for_the_kind_of_trees_at_hand(cold, monkeypatch):
    kinds = []
    monkeypatch.setattr(compiler, "_start", lambda module, kind: kinds.append((module, kind)) or process(SLEEP))
    for shared in (False, True):
        assert warmup.compile_beside(2, shared=shared)
        compiler._stop()
    assert kinds == [("seqboost.trees.warmup", "per_label"), ("seqboost.trees.warmup", "shared")]


def test_a_helper_of_the_other_kind_is_not_waited_for(cold):
    for shared in (True, False):
        assert warmup.compile_beside(2, shared=shared)
    assert len(cold) == 2
    assert cold[0].returncode is not None
    assert compiler._helper is cold[1]


@pytest.mark.skipif(sys.platform == "win32", reason="asks for a process by its number")
def test_a_helper_does_not_outlive_its_process(tmp_path):
    start = "compiler._start('seqboost.trees.warmup', 'per_label')"
    code = f"from seqboost.core import compiler; import os; print({start}.pid, flush=True); os._exit(0)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}  # an empty one: the helper has long to do
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    pid, deadline = int(done.stdout), time.monotonic() + 60
    while _lives(pid):
        assert time.monotonic() < deadline, "the helper still runs"
        time.sleep(0.1)
    assert not list(tmp_path.rglob("*grow_tree*.nbc"))


def _lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:  # an orphan that nobody has asked about its end is no longer alive
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return sys.platform != "linux"


@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_models_are_the_same_with_and_without_a_helper(cold, monkeypatch, trees):
    X, y = chains()
    alone = small(n_jobs=1, trees=trees).fit(X, y)
    assert not cold
    monkeypatch.setattr(compiler, "LONGEST_WAIT", 0.2)  # even one that hangs
    helped = small(n_jobs=2, trees=trees).fit(X, y)
    assert len(cold) == 1
    assert compiler._helper is None
    assert all_equal(alone.predict_proba(X), helped.predict_proba(X))


@pytest.mark.parametrize("kind", ["per_label", "shared"])
def test_the_module_compiles_and_ends(kind):
    helper = compiler._start("seqboost.trees.warmup", kind)
    try:
        assert helper.wait(300) == 0
    finally:
        helper.kill()
        helper.communicate()


def test_the_tiny_tree_has_the_types_of_every_fit():
    """What a fit gives to `grow_tree` is what `tiny_grower` gives: change them together."""
    code = """
import numpy as np
from seqboost import TreeCRF
from seqboost.trees import warmup

warmup.grow_tiny()
rng = np.random.default_rng(0)
y = [[0, 1, 1, 0, 1], [1, 0, 1], [0, 1]] * 3
numeric = [rng.normal(size=(len(labels), 2)) for labels in y]
dicts = [[{"w": f"w{i}", "n": 0.5 * i} for i in range(len(labels))] for labels in y]
for potentials in ("joint", "factored"):
    for X in (numeric, dicts):
        TreeCRF(max_iter=2, min_samples_leaf=1, window=1, potentials=potentials).fit(X, y)
print(len(warmup.grow_tree.signatures))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_the_tiny_shared_tree_compiles_what_every_fit_needs():
    """What a fit calls is compiled by `grow_tiny_shared`, with the same types: change them together."""
    code = """
import sys
import numpy as np
from seqboost import TreeCRF
from seqboost.trees import warmup

warmup.grow_tiny_shared()
modules = [module for name, module in sys.modules.items() if name.startswith("seqboost.trees.shared")]
kernels = {kernel for module in modules for kernel in vars(module).values() if hasattr(kernel, "signatures")}
before = {kernel: len(kernel.signatures) for kernel in kernels}
rng = np.random.default_rng(0)
y = [[0, 1, 2, 0, 1], [1, 0, 1], [0, 2]] * 9
numeric = [rng.normal(size=(len(labels), 2)) for labels in y]
dicts = [[{"w": f"w{i}", "n": 0.5 * i} for i in range(len(labels))] for labels in y]
for potentials in ("joint", "factored"):
    for X in (numeric, dicts):
        TreeCRF(max_iter=3, min_samples_leaf=1, window=1, potentials=potentials, l2_regularization=1.0).fit(X, y)
print(sorted(kernel.__name__ for kernel in kernels if len(kernel.signatures) != before[kernel]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class TypesAlone(CompilerBase):
    """Numba's way as far as the types of all calls are known."""

    def define_pipelines(self):
        passes = DefaultPassBuilder.define_untyped_pipeline(self.state)
        passes.add_pass(NopythonTypeInference, "types")
        passes.finalize()
        return [passes]


def asked_types(callee, caller, types):
    """Return the types with which one kernel calls another, if it is given ``types`` itself."""
    typed = numba.njit(pipeline_class=TypesAlone, error_model="numpy")(caller.py_func)
    asked, original = [], type(callee).compile

    def note(kernel, types):
        asked.append(tuple(types)) if kernel is callee else None
        return original(kernel, types)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(callee), "compile", note)
        with pytest.raises(AttributeError):  # there is no code at the end
            typed.compile(types)
    return asked


def test_this_process_compiles_what_the_helper_asks_for():
    """What `grow_tree` gives to `best_split` is what `split_types` says: change them together."""
    warmup.grow_tiny()
    # one signature, unless other tests have called it in their own way
    caller, callee = warmup.grow_tree, warmup.best_split
    asked = [t for types in caller.signatures for t in asked_types(callee, caller, types)]
    assert warmup.split_types() in asked


def test_this_process_compiles_what_the_helper_of_shared_trees_asks_for():
    """What the search for shared splits gives to these kernels is what `shared_types` says: change them together."""
    warmup.grow_tiny_shared()
    for kernel, ours in warmup.shared_types().items():
        asked = [t for types in warmup.search.signatures for t in asked_types(kernel, warmup.search, types)]
        assert ours in asked


def test_the_tiny_tree_is_a_tree():
    grower, ones = warmup.tiny_grower(), np.ones((4, 2), dtype=np.float32)
    tree, _ = grower.grow(ones, ones, np.arange(4, dtype=np.int32), 4, lambda g, h: g / h)
    assert np.isfinite(tree.value).all()
