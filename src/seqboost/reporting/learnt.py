"""How training went, what matters to the model, and what follows what."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqboost.core.exceptions import SeqboostError
from seqboost.inspection import feature_importances, linear_weights
from seqboost.reporting.charts import chart
from seqboost.reporting.markup import Markup, bars, element, joined, paragraph, percent, section

__all__ = ["curve_section", "importance_section", "transition_section"]

# Other labellers lack what trees or chains have: attributes of fitted models, or an order of 1.
LACKING = (SeqboostError, AttributeError, NotImplementedError, TypeError)
TOP = 12
LABEL_VIEWS = 40
SMALL_TABLE = 12  # labels up to which all transitions are shown
TOP_TRANSITIONS = 15

METRICS = {"accuracy": "share of positions right", "score": "log-likelihood per position"}


def curve_section(model: Any) -> Markup:
    """Draw the scores of training and held-out sequences round by round."""
    title, history = "How training went", getattr(model, "history_", None) or {}
    charts = []
    best = getattr(model, "best_iteration_", None)
    for metric, name in METRICS.items():
        curves = {
            text: np.asarray(history[f"{part}_{metric}"], dtype=np.float64)
            for part, text in (("train", "training"), ("validation", "held out"))
            if f"{part}_{metric}" in history
        }
        if curves and max(map(len, curves.values())) > 1:
            charts.append(chart(metric, name, curves, None if best is None else int(best)))
    if not charts:
        return section("curve", title, paragraph("This labeller was not trained in rounds: it has no learning curve."))
    held = "validation_score" in history
    lead = (
        "In each round the model learns a little more. Sequences that were held out from training show when that stops "
        "helping with new data: "
        if held
        else "In each round the model learns a little more. No sequences were held out, so these scores are of the "
        "data it learnt from: "
    )
    kept = "" if best is None else f"{int(best):,} rounds were kept."
    return section("curve", title, paragraph(lead, kept), element("div", *charts, class_="charts"))


def importance_section(model: Any) -> Markup:
    """Show the features that the trees use most, for all labels and for each."""
    title = "What matters"
    try:
        gains = feature_importances(model)
    except LACKING:
        return section("importance", title, paragraph("This labeller has no trees whose splits could be counted."))
    parts = []
    if gains.values.sum() > 0:
        views: list[tuple[str, Any]] = [("All labels, by column", _gains(gains.by_column(), None))]
        views.append(("All labels, by column and place", _gains(gains, None)))
        views += [(f"Label {label}", _gains(gains, label)) for label in gains.labels[:LABEL_VIEWS]]
        options = (element("option", name, value=k) for k, (name, _) in enumerate(views))
        parts += [
            paragraph(
                "The share of all improvement that came from questions about each column. ", element("code", "x[-1]"),
                " is column x one position before, ", element("code", "label[-1]"), " the label before.",
            ),
            element("label", "Show ", element("select", *options, data_views="importance"), class_="control script"),
            *(element("div", view, data_view=f"importance-{k}", hidden=k > 0) for k, (_, view) in enumerate(views)),
        ]  # fmt: skip
        if len(gains.labels) > LABEL_VIEWS:
            parts.append(paragraph(f"The first {LABEL_VIEWS} of {len(gains.labels)} labels can be chosen.", note=True))
    else:
        parts.append(paragraph("The model's trees ask about nothing: it goes by the labels around alone."))
    weights = linear_weights(model)[:TOP]
    if weights:
        rows = [(joined([w.name, " → ", w.label]), w.weight, f"{w.weight:+.2f}") for w in weights]
        parts += [
            element("h3", "Strongest weights of the linear start"),
            paragraph("Before its trees, the model adds up these: + speaks for the label, − against it."),
            bars(rows, colours=[f"rgb(var(--{'accent' if w.weight > 0 else 'error'}))" for w in weights]),
        ]
    return section("importance", title, *parts)


def _gains(gains: Any, label: Any) -> Markup:
    values = gains.values if label is None else gains.values[gains.labels.index(label)]
    total = float(values.sum())
    found = gains.top(label, TOP)
    if not found:
        return paragraph("No tree asks about anything for this label.")
    return bars([(name, value, percent(value / total)) for name, value in found])


def transition_section(model: Any) -> Markup:
    """Show which label tends to follow which."""
    title, labels = "What follows what", np.asarray(model.classes_).tolist()
    scores = _transition_scores(model, len(labels))
    if scores is None:
        return section(
            "transitions", title,
            paragraph("This labeller has no table of single transitions: pairs of labels have no scores of their own."),
        )  # fmt: skip
    shares = _row_shares(scores)
    order = np.argsort(-np.where(np.isfinite(scores), shares, -1.0), axis=None, kind="stable")
    places = [divmod(int(i), len(labels)) for i in order]
    strongest = [(i, j) for i, j in places if np.isfinite(scores[i, j])][:TOP_TRANSITIONS]
    rows = [
        (joined([labels[i], " → ", labels[j]]), float(shares[i, j]), f"{percent(float(shares[i, j]), 0)}")
        for i, j in strongest
    ]
    parts = [
        paragraph(
            "How likely the model holds each label after another before it looks at the input, relative to the other "
            "labels that may follow. What the input says is added to this."
        ),
        _transition_table(labels, shares, scores) if len(labels) <= SMALL_TABLE else bars(rows),
    ]
    if len(labels) > SMALL_TABLE:
        parts.append(paragraph(f"The {len(rows)} strongest of {scores.size:,} transitions.", note=True))
    n_forbidden = int(np.isneginf(scores).sum())
    if n_forbidden:
        parts.append(paragraph(f"{n_forbidden:,} transitions are forbidden.", note=True))
    return section("transitions", title, *parts)


def _transition_scores(model: Any, n_labels: int) -> np.ndarray | None:
    """Return the scores of pairs of labels, row = before; None if there are none, or longer histories."""
    try:
        scores = np.asarray(model.transition_scores_, dtype=np.float64)
    except LACKING:
        return None
    if scores.shape == (n_labels + 1, n_labels):  # the first row is of the start
        scores = scores[1:]
    return scores if scores.shape == (n_labels, n_labels) else None


def _row_shares(scores: np.ndarray) -> np.ndarray:
    """exp(score) of a transition by the sum over all labels that may follow."""
    best = np.max(scores, axis=1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(best), best, 0.0))
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300))


def _transition_table(labels: list[Any], shares: np.ndarray, scores: np.ndarray) -> Markup:
    head = element(
        "tr", element("th", "after ↓  comes →", scope="col", class_="corner"),
        *(element("th", element("span", label), scope="col") for label in labels),
    )  # fmt: skip
    rows = []
    for i, before in enumerate(labels):
        cells = []
        for j in range(len(labels)):
            if not np.isfinite(scores[i, j]):
                cells.append(element("td", "–", class_="none", title="forbidden"))
                continue
            share = float(shares[i, j])
            written = f"{100 * share:.0f}" if share >= 0.01 else "<1"
            style = f"--s:{share**0.5:.3f}"
            cells.append(element("td", written, class_="right", style=style, title=f"score {scores[i, j]:+.2f}"))
        rows.append(element("tr", element("th", before, scope="row"), *cells))
    inner = element("table", element("thead", head), element("tbody", *rows), class_="heat")
    return element(
        "div", inner, class_="scroll", tabindex=0, role="region", aria_label="Transitions, per cent of the row"
    )
