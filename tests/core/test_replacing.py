"""Files appear whole or not at all; what a killed process left behind is removed by the next writer."""

import contextlib
import os
import re
import socket
import subprocess
import sys

import pytest

from seqboost.files import written
from seqboost.model import write_model

NAME = re.compile(r"(?P<target>.+)\.(?P<host>[\w-]+)\.(?P<process>\d+)\.(?P<random>[0-9a-f]{16})\.tmp", re.ASCII)

posix = pytest.mark.skipif(sys.platform == "win32", reason="nothing is removed there")


def write(path, text="new"):
    with written(path) as file:
        file.write(text)


@pytest.fixture
def parts(tmp_path):
    """The parts of a temporary file's name, seen while it is written."""
    with written(tmp_path / "seen.csv") as file:
        (name,) = os.listdir(tmp_path)
        file.write("x")
    found = NAME.fullmatch(name)
    assert found, name
    assert os.listdir(tmp_path) == ["seen.csv"]
    return found.groupdict()


@pytest.fixture(scope="module")
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def litter(tmp_path, parts, **changes):
    """Leave a temporary file behind."""
    name = "{target}.{host}.{process}.{random}.tmp".format(**{**parts, "random": "0" * 16, **changes})
    (tmp_path / name).write_text("half")
    return name


def test_temporary_files_carry_host_and_process(parts):
    assert parts["target"] == "seen.csv"
    assert parts["host"][:20] == re.sub(r"[^\w-]", "_", socket.gethostname(), flags=re.ASCII)[:20]
    assert int(parts["process"]) == os.getpid()


def test_long_names_of_hosts_differ_and_long_names_of_files_fit(tmp_path, monkeypatch):
    hosts = set()
    for host in ("x" * 60 + "1", "x" * 60 + "2"):
        monkeypatch.setattr(socket, "gethostname", lambda host=host: host)
        with written(tmp_path / ("ü" * 125)) as file:
            file.write("new")
            (name,) = [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
            hosts.add(NAME.fullmatch(name)["host"])
    assert len(hosts) == 2
    assert max(map(len, hosts)) <= 40
    assert os.listdir(tmp_path) == ["ü" * 125]


@posix
@pytest.mark.parametrize("writer", ["file", "model"])
def test_files_of_dead_processes_are_removed_by_the_next_writer(tmp_path, parts, dead, writer):
    litter(tmp_path, parts, process=dead)
    litter(tmp_path, parts, process=dead, target="another.seqboost")
    litter(tmp_path, parts, process=os.getpid())  # of an earlier process with our number, as in containers
    if writer == "file":
        write(tmp_path / "out.csv")
    else:
        write_model(tmp_path / "out.csv", {}, {})
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "seen.csv"]


@posix
def test_files_of_live_processes_and_other_hosts_are_kept(tmp_path, parts, dead):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        kept = [
            litter(tmp_path, parts, process=process.pid),
            litter(tmp_path, parts, process=dead, host="elsewhere"),
            litter(tmp_path, parts, process=dead, random="0" * 8),  # not one of ours
        ]
        write(tmp_path / "out.csv")
        assert sorted(os.listdir(tmp_path)) == sorted([*kept, "out.csv", "seen.csv"])
    finally:
        process.communicate(b"\n")


@posix
def test_a_file_that_is_being_written_is_kept(tmp_path):
    with written(tmp_path / "a.csv") as file:
        file.write("a")
        write(tmp_path / "b.csv")
        write(tmp_path / "a.csv", "other")
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "b.csv"]
    assert (tmp_path / "a.csv").read_text() == "a"


@posix
def test_a_locked_file_is_kept(tmp_path, parts, dead):
    """A process in another container may have the same host name, and a number that means nothing here."""
    import fcntl

    name = litter(tmp_path, parts, process=dead)
    with open(tmp_path / name) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write(tmp_path / "out.csv")
        assert name in os.listdir(tmp_path)
    write(tmp_path / "out.csv")
    assert name not in os.listdir(tmp_path)


def test_after_an_error_nothing_is_left(tmp_path):
    (tmp_path / "out.csv").write_text("old")
    with contextlib.suppress(KeyboardInterrupt), written(tmp_path / "out.csv") as file:
        file.write("new")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "old"
