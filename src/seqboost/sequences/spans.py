"""Tags <-> spans: what chunks a sequence of tags stands for, by the rules of conlleval, and the way back.

conlleval (Tjong Kim Sang & Buchholz 2000) reads any of IOB1, IOB2, IOE and BIOES, and makes the best of tags that break
their scheme: a chunk begins where a tag cannot belong to the chunk before it, and ends before the next begins::

    tag       begins a chunk if                            ends a chunk if the next tag is
    B, S      always                                       B: another than I or E of its type;  S: always
    I         after O, E, S, or another type               another than I or E of its type
    E         after O, E, S, or another type               always
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from seqboost.core.exceptions import InputError, ParameterError

__all__ = ["SPAN_SCHEMES", "Span", "convert_tags", "spans_of"]

SPAN_SCHEMES = {"IOB1": "BIO", "IOB2": "BIO", "BIO": "BIO", "BIOES": "BIOES", "IOBES": "BIOES"}


class Span(NamedTuple):
    """A chunk: its type, its first position and the one after its last."""

    kind: str
    start: int
    stop: int


def spans_of(tags: Iterable[Any], scheme: str) -> list[Span]:
    """Return the chunks of a sequence of tags, by the rules of conlleval.

    Parameters
    ----------
    tags : iterable of str
        ``"O"``, or a letter, a hyphen and a type: ``"B-NP"``.
    scheme : {"IOB1", "IOB2", "BIO", "BIOES", "IOBES"}
        Which letters there are; tags of another scheme are refused.

    Returns
    -------
    list of Span

    Examples
    --------
    >>> spans_of(["I-NP", "I-NP", "B-NP", "O", "I-VP"], "IOB1")
    [Span(kind='NP', start=0, stop=2), Span(kind='NP', start=2, stop=3), Span(kind='VP', start=4, stop=5)]
    """
    letters = _letters(scheme)
    spans: list[Span] = []
    before, kind, start = "O", "", 0  # the tag before, its type, where its chunk began
    position = -1
    for position, tag in enumerate(tags):
        letter, new_kind = _divided(tag, position, letters, scheme)
        joins = letter in "IE" and before in "BI" and new_kind == kind
        if before != "O" and not joins:
            spans.append(Span(kind, start, position))
        if letter != "O" and not joins:
            start = position
        before, kind = letter, new_kind
    if before != "O":
        spans.append(Span(kind, start, position + 1))
    return spans


def convert_tags(tags: Sequence[Any], old: str, new: str) -> list[str]:
    """Return the tags that stand for the same chunks in another scheme.

    Parameters
    ----------
    tags : sequence of str
        Tags of the scheme ``old``.
    old, new : {"IOB1", "IOB2", "BIO", "BIOES", "IOBES"}
        Schemes.

    Examples
    --------
    >>> convert_tags(["I-NP", "I-NP", "B-NP", "O"], "IOB1", "BIOES")
    ['B-NP', 'E-NP', 'S-NP', 'O']
    """
    _letters(new)
    spans = spans_of(tags, old)
    written = ["O"] * len(tags)
    for number, (kind, start, stop) in enumerate(spans):
        written[start:stop] = [f"I-{kind}"] * (stop - start)
        touches = number > 0 and spans[number - 1].stop == start and spans[number - 1].kind == kind
        if new != "IOB1" or touches:
            written[start] = f"B-{kind}"
        if SPAN_SCHEMES[new] == "BIOES":
            written[stop - 1] = f"E-{kind}" if stop - start > 1 else f"S-{kind}"
    return written


def _letters(scheme: Any) -> str:
    if not isinstance(scheme, str) or scheme not in SPAN_SCHEMES:
        raise ParameterError(f"unknown scheme {scheme!r} for spans; known schemes are {', '.join(SPAN_SCHEMES)}")
    return SPAN_SCHEMES[scheme]


def _divided(tag: Any, position: int, letters: str, scheme: str) -> tuple[str, str]:
    """Return letter and type of a tag."""
    if isinstance(tag, str):
        letter, _, kind = tag.partition("-")
        if letter == "O" and not kind:
            return "O", ""
        if len(letter) == 1 and letter in letters and letter != "O":
            return letter, kind
    raise InputError(
        f"position {position} has the label {tag!r}, which is no tag of the scheme {scheme}; expected 'O' or one of "
        f"{', '.join(f'{letter}-...' for letter in letters if letter != 'O')}"
    )
