"""The sequences themselves, as data for the page's script."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost import SequenceBatch
from seqboost.evaluation import LabelledSequences
from seqboost.reporting.markup import Markup, element, json_block, paragraph, section

__all__ = ["browser_section", "chosen_sequences", "sequence_document"]

MOST_POSITIONS = 20_000  # in the page, all sequences together
LONGEST = 2_000  # positions of a sequence that are shown
LIKELIEST = 5  # labels with their probabilities
SHOWN_COLUMNS = 6
SHOWN_INDICATORS = 12


def chosen_sequences(lengths: NDArray[np.int64], max_sequences: int) -> list[int]:
    """Choose sequences evenly from all, as many as the page may hold."""
    n = min(len(lengths), max_sequences)
    while n > 0:
        chosen: NDArray[np.int64] = np.linspace(0, len(lengths) - 1, n).round().astype(np.int64)
        total = int(np.minimum(lengths[chosen], LONGEST).sum())
        if total <= MOST_POSITIONS:
            return [int(s) for s in chosen]
        n = max(min(n - 1, n * MOST_POSITIONS // total), 1) if n > 1 else 0
    return []


def browser_section(found: LabelledSequences, colour_of: dict[Any, str], max_sequences: int) -> Markup:
    """Return the section that the page's script fills, with its data."""
    batch = found.batch
    chosen = chosen_sequences(batch.lengths, max_sequences)
    labels = list(colour_of)
    document = {
        "labels": [str(label) for label in labels],
        "colours": list(colour_of.values()),
        "hasTruth": found.has_truth,
        "sequences": sequence_document(found, chosen, {label: k for k, label in enumerate(labels)}),
    }
    n_left = batch.n_sequences - len(chosen)
    spread = " Those shown are spread evenly over the data." if chosen and n_left else ""
    held = f"{len(chosen):,} of {batch.n_sequences:,} sequences are on this page; {n_left:,} were left out."
    lead = (
        "Each position has two bars: the true label above, the predicted one below; where they differ, the position is "
        "marked. Point at a position, tap it, or walk with the arrow keys to see how sure the model was (n goes to the "
        "next mistake)."
        if found.has_truth
        else "Each position has a bar with its predicted label. Point at a position, tap it, or walk with the arrow "
        "keys to see how sure the model was."
    )
    parts: list[Any] = [paragraph(lead)]
    if n_left:
        parts.append(paragraph(held + spread, note=True))
    parts += [
        element("noscript", paragraph("The browser of sequences needs JavaScript, which is switched off.")),
        element("div", id="browser"),
        json_block("sequences-data", document),
    ]
    return section("sequences", "The sequences", *parts)


def sequence_document(found: LabelledSequences, chosen: list[int], index: dict[Any, int]) -> list[dict[str, Any]]:
    """Return what the script is told about sequences: numbers of labels, likeliest labels, words and values."""
    batch, bounds = found.batch, found.batch.offsets.tolist()
    token = _token_column(batch)
    documents = []
    for s in chosen:
        start, n = bounds[s], min(bounds[s + 1] - bounds[s], LONGEST)
        document: dict[str, Any] = {
            "number": s,
            "length": bounds[s + 1] - start,
            "predicted": [index[label] for label in found.predicted[s][:n]],
        }
        if found.has_truth and found.truth is not None:
            document["truth"] = [index.get(label, -1) for label in found.truth[s][:n]]
        if found.proba is not None:
            columns = np.array([index[label] for label in found.classes], dtype=np.int64)
            document["proba"] = [_likeliest(row, columns) for row in found.proba[s][:n]]
        rows = range(start, start + n)
        if token is not None:
            document["words"] = [_category(batch, row, token) for row in rows]
        values = [_values(batch, row, token) for row in rows]
        if any(values):
            document["values"] = values
        documents.append(document)
    return documents


def _likeliest(proba: NDArray[np.float64], columns: NDArray[np.int64]) -> list[int]:
    """Return the likeliest labels and their probabilities in tenths of a per cent: label, number, label, number ..."""
    order = np.argsort(-proba, kind="stable")[:LIKELIEST]
    found = [(int(columns[k]), round(1000 * float(proba[k]))) for k in order if np.isfinite(proba[k])]
    return [number for pair in found if pair[1] > 0 for number in pair]


def _token_column(batch: SequenceBatch) -> int | None:
    """Return the categorical column that reads like text: the first one, if the columns begin with it."""
    columns = batch.schema.columns
    return 0 if columns and columns[0].kind == "categorical" else None


def _category(batch: SequenceBatch, row: int, column: int) -> str:
    code = int(batch.categorical[row, column])
    return "" if code < 0 else str(batch.categories[column][code])


def _values(batch: SequenceBatch, row: int, token: int | None) -> list[str]:
    """Write the first few columns of a position, and the indicators that are on."""
    written: list[str] = []
    n_numeric = n_categorical = 0
    for column in batch.schema.columns:
        if len(written) == SHOWN_COLUMNS:
            written.append("…")
            break
        if column.kind == "numeric":
            value = float(batch.numeric[row, n_numeric])
            n_numeric += 1
            written.append(f"{column.name} = {'missing' if value != value else f'{value:.4g}'}")
        else:
            if n_categorical != token:
                written.append(f"{column.name} = {_category(batch, row, n_categorical) or 'missing'}")
            n_categorical += 1
    if batch.sparse is not None:
        first, end = int(batch.sparse.indptr[row]), int(batch.sparse.indptr[row + 1])
        for place in range(first, min(end, first + SHOWN_INDICATORS)):
            name, value = batch.schema.sparse_names[batch.sparse.indices[place]], float(batch.sparse.data[place])
            written.append(str(name) if value == 1 else f"{name} = {value:.4g}")
        if end - first > SHOWN_INDICATORS:
            written.append("…")
    return written
