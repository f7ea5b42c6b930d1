"""Ctrl-C during a fit: training ends after the round that is being grown, and keeps the best model so far."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any, Self

from seqboost.boosting import Progress

__all__ = ["StopOnInterrupt"]

AGAIN_WITHIN = 3.0  # seconds after which another Ctrl-C is a request of its own


class StopOnInterrupt:
    """A callback and context manager that ends a fit at Ctrl-C; a second Ctrl-C raises KeyboardInterrupt at once.

    It does nothing outside the main thread, or if the program handles SIGINT itself.
    """

    may_stop = runs_in_refit = True
    sees_model = False

    last = -AGAIN_WITHIN  # when the signal came last, in any fit: one after another, as in a grid search

    def __init__(self) -> None:
        self.is_asked = False
        self._installed = False

    def __enter__(self) -> Self:
        """Listen for the signal."""
        is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if is_default and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._ask)
            self._installed = True
        return self

    def __exit__(self, *raised: Any) -> None:
        """Restore what the signal did before."""
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        is_again = self.is_asked or now - StopOnInterrupt.last < AGAIN_WITHIN
        StopOnInterrupt.last = now
        if is_again:
            raise KeyboardInterrupt
        self.is_asked = True

    def __call__(self, progress: Progress, /) -> bool:
        """Return whether to stop after a round."""
        return self.is_asked
