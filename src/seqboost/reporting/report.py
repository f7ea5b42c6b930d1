"""All sections on one page."""

from __future__ import annotations

import base64
import hashlib
import os
from importlib.resources import files
from typing import Any

import seqboost
from seqboost.core.exceptions import ParameterError, SeqboostError
from seqboost.evaluation import label_sequences
from seqboost.files import written
from seqboost.inspection import summary
from seqboost.plotting import label_colours
from seqboost.reporting.browser import browser_section
from seqboost.reporting.learnt import curve_section, importance_section, transition_section
from seqboost.reporting.markup import Markup, element, joined, paragraph
from seqboost.reporting.scores import confusion_section, data_section, score_section

__all__ = ["render_report", "write_report"]

CONTENTS = {
    "score": "Score", "data": "Data", "curve": "Training", "confusion": "Mix-ups", "importance": "What matters",
    "transitions": "Transitions", "sequences": "Sequences",
}  # fmt: skip


def write_report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    scheme: str | None = None,
    max_sequences: int = 200,
    allow_missing_columns: bool = False,
) -> None:
    """Write one HTML page that shows a model and how it labels sequences.

    The page needs nothing but a browser: no network, no other file. It appears whole or not at all.

    Parameters
    ----------
    model : labeller
        Any fitted estimator of seqboost; what it does not have (a learning curve, probabilities, ...) is left out with
        a sentence.
    X : as in ``fit``
        Sequences.
    y : as in ``fit``, or None
        Their labels; without any there are no scores.
    path : str or path
        The file to write.
    title : str, optional
        Heading of the page.
    scheme : {"IOB1", "IOB2", "BIOES"}, optional
        Scheme of the labels, for scores of spans.
    max_sequences : int, default=200
        How many sequences the page shows at most, spread evenly; the scores are of all.
    allow_missing_columns : bool, default=False
        As in ``predict``.

    Examples
    --------
    >>> import os, tempfile
    >>> from seqboost import TreeCRF
    >>> from seqboost.reporting import write_report
    >>> X, y = ["banana", "tomato"] * 15, ["010101", "010101"] * 15
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(TreeCRF(max_iter=5).fit(X, y), X, y, os.path.join(folder, "report.html"))
    ...     os.listdir(folder)
    ['report.html']
    """
    page = render_report(
        model, X, y, title=title, scheme=scheme, max_sequences=max_sequences,
        allow_missing_columns=allow_missing_columns,
    )  # fmt: skip
    with written(path) as file:
        file.write(page)


def render_report(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    title: str | None = None,
    scheme: str | None = None,
    max_sequences: int = 200,
    allow_missing_columns: bool = False,
) -> str:
    """Return the page that :func:`write_report` writes; parameters as there.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.reporting import render_report
    >>> X, y = ["banana", "tomato"] * 15, ["010101", "010101"] * 15
    >>> render_report(TreeCRF(max_iter=5).fit(X, y), X, y, title="Vowels").count("<h1>Vowels</h1>")
    1
    """
    if not isinstance(max_sequences, int) or max_sequences < 0:
        raise ParameterError(f"max_sequences={max_sequences!r}: expected a whole number of 0 or more")
    found = label_sequences(model, X, y, allow_missing_columns=allow_missing_columns)
    score = found.evaluate(scheme) if found.has_truth else None
    others = {label: None for labels in found.truth or [] for label in labels if label is not None and label == label}
    labels = list(dict.fromkeys([*found.classes, *others]))
    colour_of = dict(zip(labels, label_colours(labels), strict=True))
    sections = [
        score_section(found, score),
        data_section(found, colour_of),
        curve_section(model),
        confusion_section(score),
        importance_section(model),
        transition_section(model),
        browser_section(found, colour_of, max_sequences),
    ]
    heading = title or "How the model labels the data"
    return _page(heading, _about(model, len(found.classes)), sections)


def _about(model: Any, n_labels: int) -> str:
    """Say in a line what the model is."""
    try:
        about = summary(model)
    except (SeqboostError, AttributeError, NotImplementedError, TypeError):
        return f"{type(model).__name__} with {n_labels} labels."
    return (
        f"{about['estimator']} with {n_labels} labels: {about['n_trees']:,} trees in {about['rounds']:,} rounds, order "
        f"{about['order']}, {about['potentials']} potentials."
    )


def _page(title: str, about: str, sections: list[Markup]) -> str:
    folder = files("seqboost.reporting")
    style = folder.joinpath("report.css").read_text(encoding="utf-8")
    script = folder.joinpath("report.js").read_text(encoding="utf-8")
    # Nothing is fetched, and no script runs but this one, whatever labels and words may hold.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="generator", content=f"seqboost {seqboost.__version__}"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        Markup(f"<style>\n{style}</style>"),
    )
    links = joined(element("a", text, href=f"#{name}") for name, text in CONTENTS.items())
    body = element(
        "body",
        element("header", element("h1", title), paragraph(about), element("nav", links, aria_label="Contents")),
        element("main", *sections),
        element("footer", paragraph(f"Written by seqboost {seqboost.__version__}. This page works without a network.")),
        element("div", id="tip", role="status", hidden=True),
        Markup(f"<script>{script}</script>"),
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"
