"""Files that appear whole or not at all: written under a temporary name, then renamed.

A temporary file is called ``<name>.<host>.<process>.<random>.tmp``, so that what a killed process left behind can be
recognised and removed by the next one that writes to the folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["replacing"]

LONGEST = 40  # characters of the parts of a name, since file names end at 255 bytes
TEMPORARY = re.compile(r".+\.(?P<host>[\w-]+)\.(?P<process>\d+)\.[0-9a-f]{16}\.tmp", re.ASCII | re.DOTALL)


@contextmanager
def replacing(target: str) -> Iterator[str]:
    """Yield the path of an empty temporary file that replaces ``target`` at the end; after an error it is removed.

    Temporary files of dead processes of this host, in the same folder, are removed first.

    Parameters
    ----------
    target : str
        An existing file is replaced in one step.

    Raises
    ------
    OSError
        If the file cannot be written; an existing one is left as it was.
    """
    target = os.path.realpath(target)
    folder, name = os.path.split(target)
    _remove_dead(folder)
    temporary = os.path.join(folder, f"{name[:LONGEST]}.{_host()}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with suppress(OSError):  # not every file system has locks
            _lock(descriptor)
        if fcntl is None:
            os.close(descriptor)  # Windows does not rename open files
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    finally:
        if fcntl is not None:
            os.close(descriptor)


def _host() -> str:
    """Return the name of this host as it stands in file names; the end of a long one as a checksum."""
    name = re.sub(r"[^\w-]", "_", socket.gethostname(), flags=re.ASCII) or "_"
    if len(name) > LONGEST:
        name = f"{name[: LONGEST - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return name


def _remove_dead(folder: str) -> None:
    """Remove temporary files of dead processes of this host; what cannot be removed is left."""
    if fcntl is None:
        return
    host = _host()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = TEMPORARY.fullmatch(entry.name)
            if found and found["host"] == host and not _is_alive(int(found["process"])):
                with suppress(OSError):
                    _unlink_unlocked(entry.path)


def _is_alive(process: int) -> bool:
    """Check whether another process of this host is running."""
    if process == os.getpid():  # files of this process are locked; others are those of an earlier one with its number
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user, or the number is none of a process
        return True
    return True


def _unlink_unlocked(path: str) -> None:
    """Remove a file unless a process has locked it: one of another container may have the same host name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        _lock(descriptor)
        os.unlink(path)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock a file for as long as it is open; OSError if it is locked, or cannot be."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
