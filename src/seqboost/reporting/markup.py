"""HTML that is escaped by construction: text becomes markup only through :func:`element`."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

__all__ = ["Markup", "bars", "card", "element", "json_block", "joined", "paragraph", "percent", "section", "table"]

VOID = ("br", "link", "meta")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(child: Any) -> str:
    """Return markup as it is, everything else as text that a browser shows and never obeys."""
    return child if isinstance(child, Markup) else html.escape(str(child), quote=True)


def joined(children: Iterable[Any]) -> Markup:
    """Put pieces side by side."""
    return Markup("".join(escaped(child) for child in children))


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element; ``class_`` is ``class``, ``data_x`` is ``data-x``, True is an attribute without a value.

    Examples
    --------
    >>> element("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    words = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(key)
        elif value is not None and value is not False:
            words.append(f'{key}="{html.escape(str(value), quote=True)}"')
    start = f"<{' '.join(words)}>"
    return Markup(start if name in VOID else f"{start}{joined(children)}</{name}>")


def paragraph(*children: Any, note: bool = False) -> Markup:
    """Return a paragraph; a note is set smaller."""
    return element("p", *children, class_="note" if note else None)


def section(name: str, title: str, *children: Any) -> Markup:
    """Return a section of the page with its heading."""
    return element(
        "section", element("h2", title, id=f"{name}-title"), *children, id=name, aria_labelledby=f"{name}-title"
    )


def card(value: str, name: str, meaning: Any) -> Markup:
    """Return a figure, its name, and what it means in plain words."""
    return element(
        "div", element("div", value, class_="figure"), element("div", name, class_="name"), paragraph(meaning),
        class_="card",
    )  # fmt: skip


def table(heads: Iterable[Any], rows: Iterable[Iterable[Any]], *, caption: str | None = None) -> Markup:
    """Return a table in a box that scrolls by itself; first cells are heads of rows, the others numbers."""
    head = element("tr", *(element("th", cell, scope="col") for cell in heads))
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in rest))
        for first, *rest in rows
    ]
    name = None if caption is None else element("caption", caption)
    inner = element("table", name or Markup(""), element("thead", head), element("tbody", *body))
    return element("div", inner, class_="scroll", tabindex=0, role="region", aria_label=caption or "Table")


def bars(rows: Iterable[tuple[Any, float, str]], *, colours: Iterable[str] | None = None) -> Markup:
    """Return bars: name, length as a share of the longest, and what is written after it."""
    rows = list(rows)
    longest = max((abs(value) for _, value, _ in rows), default=0.0) or 1.0
    tints = iter(colours or ())
    return element("ul", *(_bar(row, longest, next(tints, None)) for row in rows), class_="bars")


def _bar(row: tuple[Any, float, str], longest: float, colour: str | None) -> Markup:
    name, value, written = row
    style = f"width:{100 * abs(value) / longest:.2f}%" + (f";background:{colour}" if colour else "")
    track = element("span", element("span", style=style), class_="track", aria_hidden="true")
    return element("li", element("span", name, class_="what"), track, element("span", written, class_="value"))


def percent(share: float, digits: int = 1) -> str:
    """Write a share in per cent."""
    return f"{100 * share:.{digits}f} %"


def json_block(name: str, document: Any) -> Markup:
    """Return data for the page's script; no text in them can end the block or begin another."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{html.escape(name)}">{text}</script>')
