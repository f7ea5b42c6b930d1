"""Tasks on threads."""

import os
import threading

import pytest

from seqboost.core import threads
from seqboost.core.threads import run_tasks, thread_count


def test_the_number_of_threads_is_scikit_learns(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)), raising=False)
    assert [thread_count(n_jobs) for n_jobs in (None, -1, -2, -6, -100, 1, 3, 99)] == [6, 6, 5, 1, 1, 1, 3, 99]
    assert thread_count(10**9) == threads.MAX_THREADS


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_are_in_the_order_of_the_tasks(n_threads):
    found = run_tasks(lambda a, b: 10 * a + b, [(a, a + 1) for a in range(20)], n_threads)
    assert found == [11 * a + 1 for a in range(20)]
    assert run_tasks(lambda: 1, [], n_threads) == []


def test_one_thread_or_one_task_needs_no_pool():
    caller = threading.get_ident()
    assert set(run_tasks(threading.get_ident, [()] * 3, 1)) == {caller}
    assert run_tasks(threading.get_ident, [()], 4) == [caller]
    assert caller not in run_tasks(threading.get_ident, [()] * 3, 2)


def test_an_error_of_a_task_is_raised():
    with pytest.raises(ZeroDivisionError):
        run_tasks(lambda a: 1 // a, [(1,), (0,), (2,)], 2)


def test_one_pool_for_each_number_of_threads():
    assert threads._pool(2) is threads._pool(2)
    assert threads._pool(2) is not threads._pool(3)
