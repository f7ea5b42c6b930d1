"""``seqboost predict``, ``evaluate`` and ``convert``: a model or another format, applied to files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from seqboost.cli.console import Console, print_json, say, table_of, visible_output
from seqboost.cli.data import answers_of, file_order, load_data, open_model
from seqboost.cli.options import reading_from
from seqboost.cli.plots import check_plot, save_plot
from seqboost.core.exceptions import DataFileError, ParameterError
from seqboost.evaluation import Evaluation, McNemar, evaluate, mcnemar
from seqboost.files import (
    SPAN_SCHEMES,
    SequenceData,
    convert_tags,
    detect_format,
    read_labels,
    spans_of,
    write_answers,
    write_sequences,
)

__all__ = ["run_convert", "run_evaluate", "run_predict"]

LISTED_LABELS = 40  # labels in the printed table; --json has all
SMALL_CONFUSION = 12  # labels up to which the whole matrix is printed


def run_predict(
    model_path: Path,
    path: Path,
    target: Path | None,
    given: dict[str, Any],
    *,
    proba: bool,
    k: int,
    decoding: str | None,
    skip_bad: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Label a file and write it again with the labels."""
    model, reading = open_model(model_path, [path], given, decoding)
    if as_json and target is None:
        raise ParameterError("--json needs --output: standard output cannot hold both labels and the summary")
    data = load_data([path], reading, labels="ignore", skip_bad=skip_bad, quiet=quiet or as_json)
    answers = answers_of(model, data, proba=proba, k=k)
    with visible_output():
        write_answers(path, data, answers, target)
    if as_json:
        result = {"output": str(target), "sequences": data.batch.n_sequences, "positions": data.batch.n_rows}
        print_json({**result, "left_out": data.n_bad})
    elif target is not None and not quiet:
        say(f"{data.batch.n_sequences:,} sequences, {data.batch.n_rows:,} positions labelled: {target}")


def run_evaluate(
    model_path: Path,
    paths: list[Path],
    given: dict[str, Any],
    *,
    scheme: str | None,
    against: Path | None,
    plot: Path | None,
    decoding: str | None,
    skip_bad: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Compare a model's labels with those of files."""
    check_plot(plot)
    model, reading = open_model(model_path, paths, given, decoding)
    data = load_data(paths, reading, labels="required", skip_bad=skip_bad, quiet=quiet or as_json)
    data = data.with_labels_of(model.classes_.tolist())
    known = set(model.classes_.tolist())
    unknown = [label for label in data.label_names if label not in known]
    if unknown and not quiet and not as_json:
        shown = ", ".join(map(repr, unknown[:5]))
        say(
            f"seqboost: warning: the model does not know {len(unknown)} label(s) ({shown}); they count as errors, and "
            "are left out of the log-likelihood"
        )
    allowed = {"allow_missing_columns": reading.allow_missing_columns}
    predicted = file_order(model.predict(data.batch, **allowed)).tolist()
    true = data.labels
    observed = replace(data, label_names=tuple(label if label in known else None for label in data.label_names))
    proba = data.sequences_of(list(file_order(model.predict_proba(data.batch, **allowed))))
    found = evaluate(
        data.sequences_of(true), data.sequences_of(predicted), scheme=scheme, proba=proba, classes=model.classes_,
        log_prob=model.log_prob(data.batch, observed.y, **allowed),
    )  # fmt: skip
    if plot is not None:
        from seqboost.plotting import ConfusionDisplay

        side = min(max(4.0, 2.0 + 0.45 * len(found.confusion.labels)), 16.0)
        save_plot(plot, lambda ax: ConfusionDisplay(found.confusion).plot(ax=ax), (side + 0.8, side))
    test = None if against is None else _mcnemar(data, predicted, against)
    if as_json:
        document = found.to_dict()
        if test is not None:
            document["mcnemar"] = {**test._asdict(), "against": str(against)}
        print_json({**document, "left_out": data.n_bad})
    else:
        _show(found, test, against, model)


def _mcnemar(data: SequenceData, predicted: list[Any], against: Path) -> McNemar:
    other = read_labels(against, data.reading)
    if len(other) != data.batch.n_rows:
        raise DataFileError(
            f"{against} has {len(other)} labels, but {data.batch.n_rows} positions are evaluated; expected predictions "
            "for the same file"
        )
    true = [None if label is None else str(label) for label in data.labels]
    return mcnemar(true, list(map(str, predicted)), list(map(str, other)))


def _show(found: Evaluation, test: McNemar | None, against: Path | None, model: Any) -> None:
    console = Console()
    decoding = getattr(model, "decoding", "posterior")
    title = f"{found.n_sequences:,} sequences, {found.n_positions:,} positions ({decoding} decoding)"
    rows = [
        ("positions right", f"{100 * found.accuracy:.2f} %"),
        ("sequences wholly right", f"{100 * found.sequence_accuracy:.2f} %"),
        ("mean F1 of labels", f"{100 * found.macro_f1:.2f} %"),
    ]
    if found.spans is not None:
        rows.append(("F1 of spans", f"{100 * found.spans.overall.f1:.2f} %"))
    if found.log_likelihood is not None:
        rows.append(("log-likelihood per position", f"{found.log_likelihood:.4f}"))
    if found.calibration is not None:
        rows.append(("calibration error", f"{100 * found.calibration.error:.2f} %"))
    console.print(table_of(title, ("", ""), rows, n_left=1))
    console.print(_score_table("Labels", found.labels))
    if found.spans is not None:
        console.print(_score_table("Spans, as conlleval counts them", [*found.spans.by_type, found.spans.overall]))
    console.print(_confusion_table(found))
    if found.calibration is not None:
        title = "Probability of the most probable label, and how often it is right"
        bins = (
            (f"{b.low:.1f}", f"{b.high:.1f}", f"{b.n:,}", f"{100 * b.confidence:.1f} %", f"{100 * b.accuracy:.1f} %")
            for b in found.calibration.bins
        )
        console.print(table_of(title, ("from", "to", "positions", "mean probability", "right"), bins))
    if test is not None:
        console.print(
            f"Against {against}: only this model is right at {test.only_a:,} positions, only the other at "
            f"{test.only_b:,}; McNemar's test: p = {test.pvalue:.3g}."
        )


def _score_table(title: str, scores: Any) -> Table:
    commonest = sorted(scores, key=lambda score: -score.n_true)[:LISTED_LABELS]
    rows = []
    for score in [score for score in scores if score in commonest]:
        shares = (f"{100 * share:.2f} %" for share in (score.precision, score.recall, score.f1))
        rows.append((str(score.name), *shares, f"{score.n_true:,}", f"{score.n_predicted:,}"))
    table = table_of(title, ("", "precision", "recall", "F1", "true", "predicted"), rows, n_left=1)
    if len(scores) > LISTED_LABELS:
        table.caption = f"the {LISTED_LABELS} commonest of {len(scores)}; --json has all"
    return table


def _confusion_table(found: Evaluation) -> Table:
    labels = found.confusion.labels
    if len(labels) <= SMALL_CONFUSION:
        counts = zip(labels, found.confusion.counts, strict=True)
        rows = ((str(label), *(f"{n:,}" for n in of_label)) for label, of_label in counts)
        return table_of("Which label is taken for which (rows: true)", ("", *map(str, labels)), rows, n_left=1)
    worst = ((str(true), str(predicted), f"{n:,}") for true, predicted, n in found.confusion.worst(15))
    return table_of("Commonest mistakes", ("true", "predicted", "times"), worst, n_left=3)


def run_convert(
    paths: list[Path],
    target: Path,
    given: dict[str, Any],
    *,
    to: str | None,
    schemes: tuple[str | None, str | None],
    skip_bad: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write files in another format, or with tags of another scheme."""
    detect_format(target, to)
    data = load_data(
        paths, reading_from(None, paths, given), labels="optional", skip_bad=skip_bad, quiet=quiet or as_json
    )
    if schemes != (None, None):
        data = _converted(data, *schemes)
    write_sequences(data, target, to)
    if as_json:
        counts = {"sequences": data.batch.n_sequences, "positions": data.batch.n_rows, "left_out": data.n_bad}
        print_json({"output": str(target), **counts})
    elif not quiet:
        say(f"{data.batch.n_sequences:,} sequences, {data.batch.n_rows:,} positions: {target}")


def _converted(data: SequenceData, old: str | None, new: str | None) -> SequenceData:
    """Return the data with tags of another scheme."""
    if old is None or new is None:
        raise ParameterError(f"name both schemes, --from-scheme and --to-scheme: {', '.join(SPAN_SCHEMES)}")
    sequences = data.sequences_of(data.labels)
    for s, tags in enumerate(sequences):
        if None in tags:
            raise DataFileError(f"sequence {s} has an unobserved label; tags of spans must all be there")
    spans_of([], new)
    flat = [tag for tags in sequences for tag in convert_tags(tags, old, new)]
    names = tuple(dict.fromkeys(flat))
    index = {name: k for k, name in enumerate(names)}
    codes = np.array([index[tag] for tag in flat], dtype=np.int32)
    rows = data.batch.origin.user_rows
    if rows is not None:
        in_file = np.empty_like(codes)
        in_file[rows] = codes
        codes = in_file
    return replace(data, label_codes=codes, label_names=names)
