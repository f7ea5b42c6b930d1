"""The tiny problem compiles what fits need, in a second process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
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

    monkeypatch.setattr(warmup, "search", SimpleNamespace(signatures=[]))
    monkeypatch.setattr(compiler, "is_cached", lambda kernel: False)
    monkeypatch.setattr(compiler, "thread_count", lambda n_jobs: 2)
    monkeypatch.setattr(compiler, "_start", start)
    yield started
    compiler._stop()
    assert compiler._helper is None
    for helper in started:
        assert helper.returncode is not None


def test_a_cold_fit_has_a_helper(cold, monkeypatch):
    tasks, start = [], compiler._start
    monkeypatch.setattr(compiler, "_start", lambda *task: tasks.append(task) or start(*task))
    assert warmup.compile_beside(2)
    assert warmup.compile_beside(2)  # the same one
    assert len(cold) == 1
    assert tasks == [("seqboost.trees.warmup", "")]


def test_one_job_has_no_helper(cold):
    assert not warmup.compile_beside(1)
    assert not cold


@pytest.mark.skipif(sys.platform == "win32", reason="asks for a process by its number")
def test_a_helper_does_not_outlive_its_process(tmp_path):
    start = "compiler._start('seqboost.trees.warmup', '')"
    code = f"from seqboost.core import compiler; import os; print({start}.pid, flush=True); os._exit(0)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}  # an empty one: the helper has long to do
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    pid, deadline = int(done.stdout), time.monotonic() + 60
    while _lives(pid):
        assert time.monotonic() < deadline, "the helper still runs"
        time.sleep(0.1)
    assert not list(tmp_path.rglob("*search*.nbc"))


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


def test_the_module_compiles_and_ends():
    helper = compiler._start("seqboost.trees.warmup", "")
    try:
        assert helper.wait(300) == 0
    finally:
        helper.kill()
        helper.communicate()


@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_the_tiny_tree_compiles_what_every_fit_needs(trees):
    """What a fit calls is compiled by these two, with the same types: change them together."""
    code = f"""
import sys
import numpy as np
from seqboost import TreeCRF
from seqboost.trees import warmup

warmup.compile_growth()
warmup.compile_search()
modules = [module for name, module in sys.modules.items() if name.startswith("seqboost.trees")]
kernels = {{kernel for module in modules for kernel in vars(module).values() if hasattr(kernel, "signatures")}}
before = {{kernel: len(kernel.signatures) for kernel in kernels}}
assert before[warmup.search] == 1
assert before[sys.modules["seqboost.trees.grow"].advance] == 1
rng = np.random.default_rng(0)
y = [[0, 1, 2, 0, 1], [1, 0, 1], [0, 2]] * 9
numeric = [rng.normal(size=(len(labels), 2)) for labels in y]
dicts = [[{{"w": f"w{{i}}", "n": 0.5 * i}} for i in range(len(labels))] for labels in y]
settings = {{"max_iter": 3, "min_samples_leaf": 1, "window": 1, "l2_regularization": 1.0, "trees": "{trees}"}}
for potentials in ("joint", "factored"):
    for X in (numeric, dicts):
        TreeCRF(potentials=potentials, **settings).fit(X, y)
new = [kernel for kernel in kernels if len(kernel.signatures) != before[kernel]]
print(sorted(f"{{kernel.__module__}}.{{kernel.__name__}}" for kernel in new))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_tiny_tree_is_a_tree():
    grower, ones = warmup.tiny_grower(), np.ones((2, 4, 2), dtype=np.float32)
    tree, _ = grower.grow(ones, ones, np.arange(4, dtype=np.int32), 4, lambda g, h: g / h)
    assert tree.value.shape == (tree.n_leaves, 2)
    assert np.isfinite(tree.value).all()
