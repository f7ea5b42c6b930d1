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
import pytest

from seqboost.core import compiler
from seqboost.core.jit import is_cached

SLEEP = "import time; time.sleep(60)"
KERNEL = SimpleNamespace(signatures=[])


def idle():
    pass


def process(code):
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)


def beside(module="module", argument="argument", n_threads=2):
    return compiler.compile_beside(KERNEL, module, argument, n_threads)


@pytest.fixture
def cold(monkeypatch):
    """Make all kernels look as if they had to be compiled; helpers that are started are in ``cold``."""
    started = []

    def start(module, argument):
        started.append(process(SLEEP))
        return started[-1]

    monkeypatch.setattr(compiler, "is_cached", lambda kernel: False)
    monkeypatch.setattr(compiler, "thread_count", lambda n_jobs: 2)
    monkeypatch.setattr(compiler, "_start", start)
    yield started
    compiler._stop()
    assert compiler._helper is None
    for helper in started:
        assert helper.returncode is not None


def test_the_rest_is_compiled_while_a_helper_is_at_work(cold, monkeypatch):
    seen = []
    compiler.wait(lambda: seen.append("no helper"))
    monkeypatch.setattr(compiler, "LONGEST_WAIT", 0.1)
    assert beside()
    compiler.wait(lambda: seen.append(cold[0].poll()))
    compiler.wait(lambda: seen.append("done"))
    assert seen == [None]


@pytest.mark.parametrize("other", [{"module": "another"}, {"argument": "another"}], ids=str)
def test_a_helper_at_work_on_another_task_is_stopped(cold, other):
    assert beside()
    assert beside(**other)
    assert len(cold) == 2
    assert cold[0].returncode is not None
    assert compiler._helper is cold[1]


def test_one_helper_for_all_fits(cold):
    assert beside()
    assert beside()
    assert len(cold) == 1


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (sys, "frozen", True),
        (sys, "executable", None),
        (sys, "executable", ""),
        (sys, "executable", "/usr/sbin/uwsgi"),
        (numba.config, "DISABLE_JIT", 1),
        (compiler, "thread_count", lambda n_jobs: 1),
        (multiprocessing, "current_process", lambda: SimpleNamespace(daemon=True)),
        (KERNEL, "signatures", ["compiled in this process"]),
        (compiler, "is_cached", lambda kernel: True),
        (compiler, "is_cached", lambda kernel: None),
    ],
    ids=["frozen", "no Python", "empty", "embedded", "no jit", "one core", "daemon", "compiled", "cached", "no cache"],
)
def test_no_helper_where_it_cannot_be_or_is_of_no_use(cold, monkeypatch, owner, name, value):
    monkeypatch.setattr(owner, name, value, raising=False)
    assert not beside()
    assert not cold


def test_one_job_is_one_process(cold):
    assert not beside(n_threads=1)
    assert not cold


@pytest.mark.parametrize("error", [OSError("no processes left"), PermissionError, NotImplementedError, ValueError])
def test_a_helper_that_cannot_be_started_is_done_without(cold, monkeypatch, error):
    def refuse(module, argument):
        raise error

    monkeypatch.setattr(compiler, "_start", refuse)
    assert not beside()
    compiler.wait(idle)


def test_a_failed_helper_is_forgotten(cold, monkeypatch):
    monkeypatch.setattr(compiler, "_start", lambda module, argument: process("raise SystemExit(3)"))
    assert beside()
    compiler.wait(idle)
    assert compiler._helper is None


def test_a_helper_that_hangs_is_ended(cold, monkeypatch):
    monkeypatch.setattr(compiler, "LONGEST_WAIT", 0.2)
    assert beside()
    began = time.perf_counter()
    compiler.wait(idle)
    assert time.perf_counter() - began < 30
    assert cold[0].returncode not in (0, None)


def test_an_interrupted_wait_ends_the_helper(cold, monkeypatch):
    assert beside()

    def interrupt(patience=None, wait=cold[0].wait):
        monkeypatch.setattr(cold[0], "wait", wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(cold[0], "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        compiler.wait(idle)
    assert compiler._helper is None
    assert cold[0].returncode is not None


def test_every_thread_waits(cold, monkeypatch):
    monkeypatch.setattr(compiler, "_start", lambda module, argument: process("import time; time.sleep(1)"))
    assert beside()
    helper, codes = compiler._helper, []

    def fit():
        compiler.wait(idle)
        codes.append(helper.returncode)

    threads = [threading.Thread(target=fit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0, 0]


def test_a_forked_process_leaves_the_helper_alone(cold):
    assert beside()
    helper = cold[0]
    compiler._lock.acquire()  # by a thread that is not there after the fork
    compiler._forget()
    assert compiler._helper is None
    compiler.wait(idle)
    assert helper.returncode == 0  # nobody has waited for it ...
    os.kill(helper.pid, 0)  # ... and it lives
    helper.returncode = None
    helper.kill()
    helper.wait()


TINY = """
import sys
from seqboost.core.compiler import compile_and_exit
from seqboost.core.jit import jit

@jit
def kernel(x):
    return x + 1

def work():
    from tiny_kernel import kernel
    assert sys.argv[1:] == ["argument"]
    assert kernel(1) == 2

if __name__ == "__main__":
    compile_and_exit(work)
"""


def test_what_the_helper_compiles_is_taken_from_the_cache(monkeypatch, tmp_path):
    (tmp_path / "tiny_kernel.py").write_text(TINY, encoding="utf-8")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    import tiny_kernel

    monkeypatch.setattr(compiler, "thread_count", lambda n_jobs: 2)
    arguments = tiny_kernel.kernel, "tiny_kernel", "argument", 2
    assert is_cached(tiny_kernel.kernel) is False
    assert compiler.compile_beside(*arguments)
    compiler.wait(idle)
    assert is_cached(tiny_kernel.kernel)
    assert not compiler.compile_beside(*arguments)
    assert tiny_kernel.kernel(1) == 2
    assert sum(tiny_kernel.kernel.stats.cache_hits.values()) == 1
    assert not tiny_kernel.kernel.stats.cache_misses
