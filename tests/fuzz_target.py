"""A target for the fuzzer that has one fault of each kind; ``prepare`` fails if a variable says so."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

from fuzz.outcome import Finding


def prepare(folder: Path) -> Path:
    if how := os.environ.get("FUZZ_TARGET_PREPARE"):
        if how == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        raise ValueError("no models today")
    return folder


def run(state: Path, seed: int) -> str:
    (state.parent.parent / f"{state.parent.name}-{seed}").touch()  # each case once: the test counts these
    match seed:
        case 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        case 10:
            time.sleep(60.0)
        case 20:
            np.ones(2**26).sum()  # 512 MiB
        case 22:
            os._exit(0)
        case 25:
            raise KeyError("surprise")
        case 26:
            np.log(np.zeros(1))
        case 30:
            raise Finding("0.7 instead of 1")
    return "refused" if seed % 2 else "accepted"


def label(seed: int) -> str:
    return "early" if seed < 20 else "late"
