"""Chunk schemes (IOB2, BIOES, ...): which label may start, follow and end a sequence.

A tag is a prefix and a chunk type, ``"B-NP"``; ``"O"`` (outside) has no type. Every scheme is two sets of prefixes:

* a prefix that *continues* may only follow an open chunk of its own type;
* a prefix that *leaves open* makes a chunk that (for strict schemes) must be continued.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError

__all__ = ["SCHEMES", "allowed_transitions"]


@dataclass(frozen=True)
class _Scheme:
    """Prefixes of a scheme, by role.

    ``follows``: prefixes that may come only after an ``open`` tag of the same type. ``open``: prefixes after which the
    chunk may go on. ``strict``: prefixes after which it *must* go on (with a ``follows`` or ``goes_on`` tag).
    """

    prefixes: str
    open: str
    follows: str
    strict: str = ""
    goes_on: str = ""


_BIOES = _Scheme("BIOES", open="BI", follows="IE", strict="BI", goes_on="IE")
_BILOU = _Scheme("BILOU", open="BI", follows="IL", strict="BI", goes_on="IL")
_BMEWO = _Scheme("BMEWO", open="BM", follows="ME", strict="BM", goes_on="ME")

SCHEMES: dict[str, _Scheme] = {
    "IOB1": _Scheme("IOB", open="IB", follows="B"),
    "IOB2": _Scheme("IOB", open="IB", follows="I"),
    "BIO": _Scheme("IOB", open="IB", follows="I"),
    "IOE1": _Scheme("IOE", open="IE", follows="", strict="E", goes_on="IE"),
    "IOE2": _Scheme("IOE", open="I", follows="", strict="I", goes_on="IE"),
    "BIOES": _BIOES,
    "IOBES": _BIOES,
    "BILOU": _BILOU,
    "BMEWO": _BMEWO,
}


def allowed_transitions(scheme: str, classes: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell which labels may start, follow one another, and end a sequence.

    Parameters
    ----------
    scheme : {"IOB1", "IOB2", "BIO", "IOE1", "IOE2", "BIOES", "IOBES", "BILOU", "BMEWO"}
        Name of the scheme ("BIO" is IOB2).
    classes : array-like of str, shape (n_labels,)
        The labels: ``"O"``, ``"B-NP"``, ...

    Returns
    -------
    start_allowed : ndarray of bool, shape (n_labels,)
        Labels that may stand first.
    allowed : ndarray of bool, shape (n_labels, n_labels)
        ``allowed[a, b]``: label b may follow label a (row = from, column = to).
    end_allowed : ndarray of bool, shape (n_labels,)
        Labels that may stand last.

    Examples
    --------
    >>> start, allowed, end = allowed_transitions("IOB2", ["B-NP", "I-NP", "O"])
    >>> allowed[2].tolist()  # after O: no I-NP
    [True, False, True]
    """
    rules = SCHEMES.get(scheme.upper()) if isinstance(scheme, str) else None
    if rules is None:
        raise ParameterError(f"Unknown chunk scheme {scheme!r}; known schemes are {', '.join(SCHEMES)}.")
    tags = [_split(label, scheme, rules) for label in np.asarray(classes).tolist()]
    n_labels = len(tags)
    allowed = np.ones((n_labels, n_labels), dtype=bool)
    for a, (prefix, chunk) in enumerate(tags):
        for b, (next_prefix, next_chunk) in enumerate(tags):
            same = chunk == next_chunk
            if next_prefix in rules.follows and not (same and prefix in rules.open):
                allowed[a, b] = False
            if prefix in rules.strict and not (same and next_prefix in rules.goes_on):
                allowed[a, b] = False
    start = np.array([prefix not in rules.follows for prefix, _ in tags], dtype=bool)
    end = np.array([prefix not in rules.strict for prefix, _ in tags], dtype=bool)
    return start, allowed, end


def _split(label: Any, scheme: str, rules: _Scheme) -> tuple[str, str]:
    """Split a tag into prefix and chunk type."""
    if isinstance(label, str):
        prefix, _, chunk = label.partition("-")
        if len(prefix) == 1 and prefix in rules.prefixes and not (prefix == "O" and chunk):
            return prefix, chunk
    expected = ", ".join(f"'{prefix}-...'" for prefix in rules.prefixes if prefix != "O")
    raise ParameterError(
        f"The label {label!r} does not fit the scheme {scheme!r}: expected 'O' or {expected}. "
        "Check the labels, or choose another scheme or transitions='any'."
    )
