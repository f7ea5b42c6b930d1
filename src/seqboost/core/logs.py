"""What seqboost reports through the standard :mod:`logging` module.

There is one logger, "seqboost", with a child for each package ("seqboost.estimators"). It has a ``NullHandler`` and no
level, as is usual for libraries: what is seen, and where, is up to the program. Only who asks for it by ``verbose``
sees lines without configuring anything.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

__all__ = ["get_logger", "shown"]

LOGGER = logging.getLogger("seqboost")
LOGGER.addHandler(logging.NullHandler())


def get_logger(module: str) -> logging.Logger:
    """Return the logger of a module's package.

    Parameters
    ----------
    module : str
        The module's ``__name__``.

    Examples
    --------
    >>> from seqboost.core.logs import get_logger
    >>> get_logger("seqboost.estimators.family.memm").name
    'seqboost.estimators'
    """
    return logging.getLogger(".".join(module.split(".")[:2]))


class _Display:
    """What makes lines visible, shared by all fits that ask for it: the last one to end takes it away."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_users = 0
        self._undo = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._n_users += 1
            if self._n_users > 1:
                return
            if not _reaches_handler():
                handler = logging.StreamHandler()
                handler.setFormatter(logging.Formatter("%(message)s"))
                LOGGER.addHandler(handler)
                self._undo.callback(LOGGER.removeHandler, handler)
            if LOGGER.level == logging.NOTSET and LOGGER.getEffectiveLevel() > logging.INFO:
                LOGGER.setLevel(logging.INFO)
                self._undo.callback(LOGGER.setLevel, logging.NOTSET)

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._n_users -= 1
            if self._n_users == 0:
                self._undo.close()


_DISPLAY = _Display()


@contextmanager
def shown(verbose: int) -> Iterator[None]:
    """Make lines of level INFO visible while a fit with ``verbose`` of 1 or more runs.

    They go to the handlers of "seqboost" and of the root logger. If none of these takes INFO, they go to standard
    error. A level that was set for "seqboost" itself stays: it silences ``verbose``.

    Examples
    --------
    >>> from seqboost.core.logs import get_logger, shown
    >>> with shown(verbose=1):
    ...     get_logger("seqboost.estimators").info("seen")
    """
    if verbose < 1:
        yield
    else:
        with _DISPLAY:
            yield


def _reaches_handler() -> bool:
    """Check whether a handler of "seqboost", or of a logger above it, takes records of level INFO."""
    logger: logging.Logger | None = LOGGER
    while logger is not None:
        if any(h.level <= logging.INFO and not isinstance(h, logging.NullHandler) for h in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
