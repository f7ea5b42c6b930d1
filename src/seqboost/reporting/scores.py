"""What the data are, how good the labels, and which label is taken for which."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from seqboost.evaluation import Evaluation, LabelledSequences
from seqboost.reporting.markup import Markup, bars, card, element, joined, paragraph, percent, section, table

__all__ = ["confusion_section", "data_section", "score_section"]

LISTED_LABELS = 40  # in tables and bars
LARGEST_CONFUSION = 25  # labels that get a row
MISTAKES = 10


def data_section(found: LabelledSequences, colour_of: dict[Any, str]) -> Markup:
    """Say how many sequences, positions, columns and labels there are."""
    batch, lengths = found.batch, found.batch.lengths
    kinds = [
        (batch.numeric.shape[1], "of numbers"),
        (batch.categorical.shape[1], "of categories"),
        (0 if batch.sparse is None else batch.sparse.shape[1], "of sparse indicators"),
    ]
    columns = ", ".join(f"{n:,} {kind}" for n, kind in kinds if n)
    n_cells = batch.numeric.size + batch.categorical.size
    n_missing = int(np.isnan(batch.numeric).sum() + (batch.categorical < 0).sum())
    span = f"{lengths.min():,}" if lengths.min() == lengths.max() else f"{lengths.min():,} to {lengths.max():,}"
    typical = "" if lengths.min() == lengths.max() else f" (typically {np.median(lengths):,.0f})"
    facts = [
        ("Sequences", f"{batch.n_sequences:,}"),
        ("Positions", f"{batch.n_rows:,}, in sequences of {span}{typical}"),
        ("Columns", columns or "none"),
    ]
    if n_cells and n_missing:
        facts.append(("Missing values", f"{percent(n_missing / n_cells)} of the cells"))
    rows = joined(joined([element("dt", name), element("dd", text)]) for name, text in facts)
    return section("data", "The data", element("dl", rows), _label_bars(found, colour_of))


def _label_bars(found: LabelledSequences, colour_of: dict[Any, str]) -> Markup:
    labels = found.truth if found.has_truth and found.truth is not None else found.predicted
    counts = Counter(label for sequence in labels for label in sequence if label in colour_of)
    total = sum(counts.values())
    n_unobserved = sum(map(len, labels)) - total
    shown = counts.most_common(LISTED_LABELS)
    whose = "Labels" if labels is found.truth else "Labels that the model gives"
    parts = [
        element("h3", f"{whose}, and how common they are"),
        bars(
            [(label, n, f"{percent(n / total)} ({n:,})") for label, n in shown],
            colours=[colour_of[label] for label, _ in shown],
        ),
    ]
    if len(counts) > len(shown):
        parts.append(paragraph(f"The {len(shown)} commonest of {len(counts)} labels.", note=True))
    if n_unobserved:
        parts.append(paragraph(f"{n_unobserved:,} positions have no label; they are not scored.", note=True))
    return joined(parts)


def score_section(found: LabelledSequences, score: Evaluation | None) -> Markup:
    """Say how good the labels are, in figures and in plain words."""
    if score is None:
        return section(
            "score", "How good it is",
            paragraph("The data have no labels to compare with, so there is no score; labels shown are predictions."),
        )  # fmt: skip
    counts = score.confusion.counts.sum(axis=1)
    commonest, share = score.confusion.labels[int(np.argmax(counts))], float(counts.max() / counts.sum())
    lead = paragraph(
        "Of every 100 positions, the model labels ", element("strong", f"{100 * score.accuracy:.1f}"),
        " as the data do. Always giving the commonest label (", element("em", commonest),
        f") would get {100 * share:.1f} right.",
    )  # fmt: skip
    parts = [lead, element("div", *_cards(score), class_="cards")]
    parts += [paragraph(sentence, note=True) for sentence in _lacking(found)]
    parts.append(
        paragraph(
            "If the model was trained on these very data, these figures flatter it: judge it by others.", note=True
        )
    )
    parts += [element("h3", "Label by label"), _label_table(score)]
    if score.spans is not None:
        heads = ("Span", "Right of those marked", "Found of those there", "F1", "There", "Marked")
        rows = [_score_row(s) for s in (*score.spans.by_type, score.spans.overall)]
        parts += [element("h3", "Whole spans, both ends and type right"), table(heads, rows, caption="Scores of spans")]
    if score.calibration is not None:
        parts += _calibration(score)
    return section("score", "How good it is", *parts)


def _cards(score: Evaluation) -> list[Markup]:
    cards = [
        card(percent(score.accuracy), "positions right", "The share of single positions with the right label."),
        card(percent(score.sequence_accuracy), "sequences wholly right", "Not one wrong label from start to end."),
        card(
            percent(score.macro_f1), "mean F1 of labels",
            "Each label counts the same, however rare: low if rare labels are missed.",
        ),
    ]  # fmt: skip
    if score.spans is not None:
        cards.append(
            card(percent(score.spans.overall.f1), "F1 of spans", "Spans with the right type and both ends right.")
        )
    if score.log_likelihood is not None and np.isfinite(score.log_likelihood):
        cards.append(
            card(
                percent(float(np.exp(score.log_likelihood))),
                "probability of the truth",
                f"What the model gives the true label of a position, as a geometric mean (log-likelihood "
                f"{score.log_likelihood:.3f}).",
            )  # fmt: skip
        )
    if score.calibration is not None:
        cards.append(
            card(
                f"{100 * score.calibration.error:.1f} points",
                "off in its own certainty",
                "How far its probabilities are from how often it is right, on average.",
            )  # fmt: skip
        )
    return cards


def _lacking(found: LabelledSequences) -> list[str]:
    sentences = {
        "proba": "This labeller gives no probabilities, so nothing is said about how sure it is",
        "log_prob": "This labeller gives no probability of whole labellings, so there is no log-likelihood",
    }
    return [f"{sentences[name]}{f' ({why})' if why else ''}." for name, why in found.lacking.items()]


def _score_row(score: Any) -> list[Any]:
    shares = [percent(share) for share in (score.precision, score.recall, score.f1)]
    return [score.name, *shares, f"{score.n_true:,}", f"{score.n_predicted:,}"]


def _label_table(score: Evaluation) -> Markup:
    commonest = sorted(score.labels, key=lambda s: -max(s.n_true, s.n_predicted))[:LISTED_LABELS]
    heads = ("Label", "Right of those given", "Found of those there", "F1", "There", "Given")
    shown = table(heads, [_score_row(s) for s in score.labels if s in commonest], caption="Scores of labels")
    if len(score.labels) <= LISTED_LABELS:
        return shown
    return joined([shown, paragraph(f"The {LISTED_LABELS} commonest of {len(score.labels)} labels.", note=True)])


def _calibration(score: Evaluation) -> list[Markup]:
    assert score.calibration is not None
    rows = [
        [f"{100 * b.low:.0f}–{100 * b.high:.0f} %", percent(b.confidence), percent(b.accuracy), f"{b.n:,}"]
        for b in score.calibration.bins
    ]
    return [
        element("h3", "Is it as sure as it should be?"),
        paragraph("Positions by the probability of the likeliest label. The second and third column should be alike."),
        table(("Probability", "On average", "Really right", "Positions"), rows, caption="Certainty and truth"),
    ]


def confusion_section(score: Evaluation | None) -> Markup:
    """Show which label is taken for which."""
    title = "Which label is taken for which"
    if score is None:
        return section("confusion", title, paragraph("Without true labels there is nothing to compare."))
    counts, labels = score.confusion.counts, score.confusion.labels
    kept = np.sort(np.argsort(-(counts.sum(axis=0) + counts.sum(axis=1)), kind="stable")[:LARGEST_CONFUSION])
    head = element(
        "tr", element("th", "true ↓  given →", scope="col", class_="corner"),
        *(element("th", element("span", labels[j]), scope="col") for j in kept),
    )  # fmt: skip
    rows = []
    for i in kept.tolist():
        total = max(int(counts[i].sum()), 1)
        cells = (_heat_cell(int(counts[i, j]), counts[i, j] / total, i == j) for j in kept.tolist())
        rows.append(element("tr", element("th", labels[i], scope="row"), *cells))
    matrix = element("table", element("thead", head), element("tbody", *rows), class_="heat")
    box = element("div", matrix, class_="scroll", tabindex=0, role="region", aria_label=title)
    parts = [
        paragraph(
            "A row for each true label: how often it was given which label, in per cent of the row. Right answers "
            "stand on the diagonal (blue), mistakes beside it (orange)."
        ),
        box,
    ]
    if len(labels) > len(kept):
        parts.append(paragraph(f"The {len(kept)} commonest of {len(labels)} labels.", note=True))
    worst = score.confusion.worst(MISTAKES)
    if worst:
        mistakes = [(joined([true, " taken for ", given]), n, f"{n:,} ×") for true, given, n in worst]
        parts += [element("h3", "Commonest mistakes"), bars(mistakes)]
    else:
        parts.append(paragraph("There is not a single mistake."))
    return section("confusion", title, *parts)


def _heat_cell(n: int, share: float, is_right: bool) -> Markup:
    if n == 0:
        return element("td", "·", class_="none")
    written = f"{100 * share:.0f}" if share >= 0.01 else "<1"
    kind = "right" if is_right else "wrong"
    return element("td", written, class_=kind, style=f"--s:{share**0.5:.3f}", title=f"{n:,} times")
