"""Compiling in a second process: it does its share, and whatever becomes of it, the first process goes on alone."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.typed_passes import NopythonTypeInference
from treecrf_data import all_equal, chains, small

from seqboost._jit import is_cached
from seqboost.trees import ahead

SLEEP = "import time; time.sleep(60)"


def process(code):
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)


@pytest.fixture
def cold(monkeypatch):
    """Make the tree kernels look as if they had to be compiled; a helper that is started is in ``started``."""
    started = []

    def start(kind):
        started.append(process(SLEEP))
        return started[-1]

    monkeypatch.setattr(ahead, "grow_tree", SimpleNamespace(signatures=[]))
    monkeypatch.setattr(ahead, "search", SimpleNamespace(signatures=[]))
    monkeypatch.setattr(ahead, "best_split", SimpleNamespace(compile=lambda types: None))
    monkeypatch.setattr(ahead, "shared_types", dict)
    monkeypatch.setattr(ahead, "is_cached", lambda kernel: False)
    monkeypatch.setattr(ahead, "thread_count", lambda n_jobs: 2)
    monkeypatch.setattr(ahead, "_start", start)
    yield started
    ahead._stop()
    assert ahead._helper is None
    for helper in started:
        assert helper.returncode is not None


def test_a_cold_fit_has_a_helper(cold):
    assert ahead.compile_beside(2)
    assert len(cold) == 1


def test_a_helper_for_the_kind_of_trees_at_hand(cold, monkeypatch):
    kinds = []
    monkeypatch.setattr(ahead, "_start", lambda kind: kinds.append(kind) or process(SLEEP))
    for shared in (False, True):
        assert ahead.compile_beside(2, shared=shared)
        ahead._stop()
    assert kinds == ["per_label", "shared"]


def test_a_helper_of_the_other_kind_is_not_waited_for(cold):
    for shared in (True, False):
        assert ahead.compile_beside(2, shared=shared)
    assert len(cold) == 2
    assert cold[0].returncode is not None
    assert ahead._helper is cold[1]


def test_one_helper_for_all_fits(cold):
    assert ahead.compile_beside(2)
    assert ahead.compile_beside(2)
    assert len(cold) == 1


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (sys, "frozen", True),
        (sys, "executable", None),
        (sys, "executable", ""),
        (sys, "executable", "/usr/sbin/uwsgi"),
        (numba.config, "DISABLE_JIT", 1),
        (ahead, "thread_count", lambda n_jobs: 1),
        (multiprocessing, "current_process", lambda: SimpleNamespace(daemon=True)),
        (ahead, "grow_tree", SimpleNamespace(signatures=["compiled in this process"])),
        (ahead, "is_cached", lambda kernel: True),
        (ahead, "is_cached", lambda kernel: None),
    ],
    ids=["frozen", "no Python", "empty", "embedded", "no jit", "one core", "daemon", "compiled", "cached", "no cache"],
)
def test_no_helper_where_it_cannot_be_or_is_of_no_use(cold, monkeypatch, owner, name, value):
    monkeypatch.setattr(owner, name, value, raising=False)
    assert not ahead.compile_beside(2)
    assert not cold


def test_one_job_is_one_process(cold):
    assert not ahead.compile_beside(1)
    assert not cold


@pytest.mark.parametrize("error", [OSError("no processes left"), PermissionError, NotImplementedError, ValueError])
def test_a_helper_that_cannot_be_started_is_done_without(cold, monkeypatch, error):
    def refuse(kind):
        raise error

    monkeypatch.setattr(ahead, "_start", refuse)
    assert not ahead.compile_beside(2)
    ahead.wait()


def test_a_kernel_that_does_not_compile_does_not_keep_the_next_from_it(monkeypatch):
    def refuse(types):
        raise numba.TypingError("no")

    seen = []
    poor, good = SimpleNamespace(compile=refuse), SimpleNamespace(compile=seen.append)
    monkeypatch.setattr(ahead, "shared_types", lambda: {id(poor): 1})
    ahead._compile_ours(shared=True)  # not even a kernel
    monkeypatch.setattr(ahead, "shared_types", lambda: _Pairs([(poor, "types"), (good, "of good")]))
    ahead._compile_ours(shared=True)
    assert seen == ["of good"]


class _Pairs(list):
    """Kernels that cannot be keys of a dict, and their types."""

    def items(self):
        return self


def test_types_that_numba_refuses_are_left_to_the_helper(cold, monkeypatch):
    def refuse(types):
        raise numba.TypingError("no")

    monkeypatch.setattr(ahead, "best_split", SimpleNamespace(compile=refuse))
    assert ahead.compile_beside(2)


def test_a_failed_helper_is_forgotten(cold, monkeypatch):
    monkeypatch.setattr(ahead, "_start", lambda kind: process("raise SystemExit(3)"))
    assert ahead.compile_beside(2)
    ahead.wait()
    assert ahead._helper is None


def test_a_helper_that_hangs_is_ended(cold, monkeypatch):
    monkeypatch.setattr(ahead, "LONGEST_WAIT", 0.2)
    assert ahead.compile_beside(2)
    began = time.perf_counter()
    ahead.wait()
    assert time.perf_counter() - began < 30
    assert cold[0].returncode not in (0, None)


def test_an_interrupted_wait_ends_the_helper(cold, monkeypatch):
    assert ahead.compile_beside(2)

    def interrupt(patience=None, wait=cold[0].wait):
        monkeypatch.setattr(cold[0], "wait", wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(cold[0], "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ahead.wait()
    assert ahead._helper is None
    assert cold[0].returncode is not None


def test_every_thread_waits(cold, monkeypatch):
    monkeypatch.setattr(ahead, "_start", lambda kind: process("import time; time.sleep(1)"))
    assert ahead.compile_beside(2)
    helper, codes = ahead._helper, []

    def fit():
        ahead.wait()
        codes.append(helper.returncode)

    threads = [threading.Thread(target=fit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0, 0]


def test_a_forked_process_leaves_the_helper_alone(cold):
    assert ahead.compile_beside(2)
    helper = cold[0]
    ahead._lock.acquire()  # by a thread that is not there after the fork
    ahead._forget()
    assert ahead._helper is None
    ahead.wait()
    assert helper.returncode == 0  # nobody has waited for it ...
    os.kill(helper.pid, 0)  # ... and it lives
    helper.returncode = None
    helper.kill()
    helper.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="asks for a process by its number")
def test_a_helper_does_not_outlive_its_process(tmp_path):
    code = "from seqboost.trees import ahead; import os; print(ahead._start('per_label').pid, flush=True); os._exit(0)"
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


TINY = """
from seqboost._jit import jit

@jit
def kernel(x):
    return x + 1

if __name__ == "__main__":
    from tiny_kernel import kernel
    assert kernel(1) == 2
"""


def test_what_the_helper_compiles_is_taken_from_the_cache(monkeypatch, tmp_path):
    start = ahead._start
    (tmp_path / "tiny_kernel.py").write_text(TINY, encoding="utf-8")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    import tiny_kernel

    monkeypatch.setattr(ahead, "grow_tree", tiny_kernel.kernel)
    monkeypatch.setattr(ahead, "best_split", SimpleNamespace(compile=lambda types: None))
    monkeypatch.setattr(ahead, "_start", lambda kind: start(kind, "tiny_kernel"))
    monkeypatch.setattr(ahead, "thread_count", lambda n_jobs: 2)
    assert is_cached(tiny_kernel.kernel) is False
    assert ahead.compile_beside(2)
    ahead.wait()
    assert is_cached(tiny_kernel.kernel)
    assert not ahead.compile_beside(2)
    assert tiny_kernel.kernel(1) == 2
    assert sum(tiny_kernel.kernel.stats.cache_hits.values()) == 1
    assert not tiny_kernel.kernel.stats.cache_misses


@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_models_are_the_same_with_and_without_a_helper(cold, monkeypatch, trees):
    X, y = chains()
    alone = small(n_jobs=1, trees=trees).fit(X, y)
    assert not cold
    monkeypatch.setattr(ahead, "LONGEST_WAIT", 0.2)  # even one that hangs
    helped = small(n_jobs=2, trees=trees).fit(X, y)
    assert len(cold) == 1
    assert ahead._helper is None
    assert all_equal(alone.predict_proba(X), helped.predict_proba(X))


@pytest.mark.parametrize("kind", ["per_label", "shared"])
def test_the_module_compiles_and_ends(kind):
    helper = ahead._start(kind)
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
from seqboost.trees import ahead

ahead.grow_tiny()
rng = np.random.default_rng(0)
y = [[0, 1, 1, 0, 1], [1, 0, 1], [0, 1]] * 3
numeric = [rng.normal(size=(len(labels), 2)) for labels in y]
dicts = [[{"w": f"w{i}", "n": 0.5 * i} for i in range(len(labels))] for labels in y]
for potentials in ("joint", "factored"):
    for X in (numeric, dicts):
        TreeCRF(max_iter=2, min_samples_leaf=1, window=1, potentials=potentials).fit(X, y)
print(len(ahead.grow_tree.signatures))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_the_tiny_shared_tree_compiles_what_every_fit_needs():
    """What a fit calls is compiled by `grow_tiny_shared`, with the same types: change them together."""
    code = """
import sys
import numpy as np
from seqboost import TreeCRF
from seqboost.trees import ahead

ahead.grow_tiny_shared()
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
    ahead.grow_tiny()
    # one signature, unless other tests have called it in their own way
    asked = [t for types in ahead.grow_tree.signatures for t in asked_types(ahead.best_split, ahead.grow_tree, types)]
    assert ahead.split_types() in asked


def test_this_process_compiles_what_the_helper_of_shared_trees_asks_for():
    """What the search for shared splits gives to these kernels is what `shared_types` says: change them together."""
    ahead.grow_tiny_shared()
    for kernel, ours in ahead.shared_types().items():
        asked = [t for types in ahead.search.signatures for t in asked_types(kernel, ahead.search, types)]
        assert ours in asked


def test_the_tiny_tree_is_a_tree():
    grower, ones = ahead.tiny_grower(), np.ones((4, 2), dtype=np.float32)
    tree, _ = grower.grow(ones, ones, np.arange(4, dtype=np.int32), 4, lambda g, h: g / h)
    assert np.isfinite(tree.value).all()
