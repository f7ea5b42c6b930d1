"""``seqboost inspect``: what a model has learnt, and why it labels a sequence as it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from seqboost.cli.console import Console, print_json, table_of, visible
from seqboost.cli.data import load_data, load_model
from seqboost.cli.options import reading_from
from seqboost.cli.plots import check_plot, save_plot
from seqboost.core.exceptions import ParameterError
from seqboost.inspection import (
    Explanation,
    FeatureImportances,
    PositionExplanation,
    explain,
    feature_importances,
    linear_weights,
    summary,
    transitions,
)

__all__ = ["run_inspect"]

PLOTTED_FEATURES = 200  # at most; a picture of more would be too large
SHOWN_LABELS = 12  # labels with a table of their own; --json has all
SHOWN_REASONS = 4  # for and against, at each position
SHOWN_TRANSITIONS = 10


def run_inspect(
    model_path: Path,
    paths: list[Path],
    given: dict[str, Any],
    *,
    sequence: int | None,
    top: int,
    rival: str | None,
    plot: Path | None,
    skip_bad: bool,
    as_json: bool,
) -> None:
    """Show a model, or one of its answers."""
    check_plot(plot)
    model = load_model(model_path)
    if paths:
        reading = reading_from(getattr(model, "reading_", None), paths, given)
        data = load_data(paths, reading, labels="ignore", skip_bad=skip_bad, quiet=as_json)
        against = _label(model, rival)
        found = explain(model, data.batch, 0 if sequence is None else sequence, against)
        truth = None
        if data.label_codes is not None:
            truth = data.sequences_of(data.labels)[0 if sequence is None else sequence]
        if plot is not None:
            _plot_sequence(plot, found, truth)
        if as_json:
            print_json(_explanation_document(found, truth))
        else:
            _show_explanation(found, truth, 0 if sequence is None else sequence)
        return
    if sequence is not None or rival is not None:
        raise ParameterError("--sequence and --against are about data; name a data file after the model")
    about, gains = _summary(model, model_path), feature_importances(model)
    if plot is not None:
        from seqboost.plotting import ImportanceDisplay

        n = min(top, PLOTTED_FEATURES)
        save_plot(plot, lambda ax: ImportanceDisplay(gains, n_features=n).plot(ax=ax), (7.0, 1.0 + 0.3 * max(n, 3)))
    if as_json:
        document = {**about, "importance": {str(label): dict(gains.top(label, top)) for label in gains.labels}}
        document["column_importance"] = dict(gains.by_column().top(None, top))
        document["transitions"] = _transition_rows(model)
        document["linear_weights"] = [list(weight) for weight in linear_weights(model)[:top]]
        print_json(document)
        return
    _show_model(model, about, gains, top)


def _plot_sequence(plot: Path, found: Explanation, truth: list[Any] | None) -> None:
    from seqboost.plotting import LabelStripDisplay

    known = {str(label): label for label in found.labels}
    truth = None if truth is None else [None if label is None else known.get(str(label), label) for label in truth]
    predicted = [position.label for position in found.positions]
    proba = [position.proba for position in found.positions]
    shown = LabelStripDisplay(predicted, truth=truth, proba=proba, classes=found.labels)
    save_plot(plot, lambda ax: shown.plot(ax=ax), (min(max(6.0, 0.12 * len(predicted)), 16.0), 3.2))


def _label(model: Any, text: str | None) -> Any:
    """Return the label that is written so."""
    if text is None:
        return None
    found = [label for label in model.classes_.tolist() if str(label) == text]
    if not found:
        raise ParameterError(f"the model has no label {text!r}; its labels are {', '.join(map(str, model.classes_))}")
    return found[0]


def _summary(model: Any, path: Path) -> dict[str, Any]:
    """Return what a model is, where it is, and how its files were read."""
    of_file = {"model": str(path), "bytes": path.stat().st_size, "read_as": getattr(model, "reading_", None)}
    return {**of_file, **summary(model)}


def _show_model(model: Any, about: dict[str, Any], gains: FeatureImportances, top: int) -> None:
    console = Console()
    columns = ", ".join(f"{n:,} {kind}" for kind, n in about["columns"].items() if n)
    labels = ", ".join(about["labels"][:20]) + (", …" if len(about["labels"]) > 20 else "")
    table = Table(title=about["model"], show_header=False)
    table.add_column("")
    table.add_column("", overflow="fold")
    rows = [
        ("model", f"{about['estimator']}, order {about['order']}, {about['potentials']} potentials"),
        ("labels", f"{len(about['labels'])}: {labels}"),
        ("columns", f"{columns}; window {about['window']}"),
        ("trees", f"{about['n_trees']:,} in {about['rounds']:,} rounds ({about['trees']}), "
                  f"{about['n_leaves']:,} leaves; start: {about['init']}"),
        ("log-likelihood", f"{about['best_score']:.4f} per {about['scored_on']} position"),
        ("size", f"{about['bytes'] / 1e6:.2f} MB"),
    ]  # fmt: skip
    for row in rows:
        table.add_row(*row)
    console.print(table)
    total = max(float(gains.values.sum()), 1e-300)
    console.print(_gain_table("Columns by gain, all offsets together", gains.by_column().top(None, top), total))
    for label in gains.labels[:SHOWN_LABELS]:
        of_label = max(float(gains.values[gains.labels.index(label)].sum()), 1e-300)
        console.print(_gain_table(f"Features by gain for {label}", gains.top(label, top), of_label))
    if len(gains.labels) > SHOWN_LABELS:
        console.print(f"… and {len(gains.labels) - SHOWN_LABELS} labels more; --json has all")
    weights = [(str(weight.label), weight.name, f"{weight.weight:+.2f}") for weight in linear_weights(model)[:top]]
    if weights:
        console.print(
            table_of("Strongest weights of the linear start", ("label", "feature", "weight"), weights, n_left=2)
        )
    found = [
        (before, after, "forbidden" if score is None else f"{score:+.2f}")
        for before, after, score in _transition_rows(model)[:SHOWN_TRANSITIONS]
    ]
    if found:
        title = "Strongest transitions, before the input speaks"
        console.print(table_of(title, ("from", "to", "score"), found, n_left=2))


def _gain_table(title: str, rows: list[tuple[str, float]], total: float) -> Table:
    shares = ((name, f"{100 * gain / total:.1f} %") for name, gain in rows)
    return table_of(title, ("feature", "share of gain"), shares, n_left=1)


def _transition_rows(model: Any) -> list[tuple[str, str, float | None]]:
    """Return transitions, the strongest first, None for forbidden ones; nothing for models of other orders."""
    if model.order != 1:
        return []
    found = transitions(model)
    return [(str(t.before), str(t.after), t.score if t.score > float("-inf") else None) for t in found]


def _show_explanation(found: Explanation, truth: list[Any] | None, sequence: int) -> None:
    console = Console()
    table = Table(title=f"Sequence {sequence}: what spoke for each label (+) and against it (−), in log odds")
    table.add_column("", justify="right")
    if truth is not None:
        table.add_column("true")
    for name in ("label", "probabilities", "rival", "spoke for", "spoke against", "labels around", "log odds"):
        table.add_column(name, overflow="fold")
    for position in found.positions:
        best = sorted(zip(found.labels, position.proba, strict=True), key=lambda pair: -pair[1])[:3]
        chances = "  ".join(f"{label} {100 * p:.0f} %" for label, p in best if p >= 0.005)
        pro = [c for c in position.contributions if c.log_odds > 0.005][:SHOWN_REASONS]
        contra = [c for c in position.contributions if c.log_odds < -0.005][:SHOWN_REASONS]
        cells = [str(position.position), *([] if truth is None else [str(truth[position.position])])]
        table.add_row(
            *cells, str(position.label), chances, str(position.rival), _reasons(pro), _reasons(contra),
            f"{position.around:+.2f}", f"{position.log_odds:+.2f}",
        )  # fmt: skip
    console.print(table)
    console.print(
        "log odds = features for + features against (all of them) + labels around + what trees say on average"
    )


def _reasons(contributions: list[Any]) -> Text:
    lines = (f"{c.name}{'=' + c.value if c.value else ''} {c.log_odds:+.2f}" for c in contributions)
    return Text("\n".join(map(visible, lines)))


def _explanation_document(found: Explanation, truth: list[Any] | None) -> dict[str, Any]:
    return {
        "labels": [str(label) for label in found.labels],
        "positions": [
            _position_document(position, None if truth is None else truth[position.position])
            for position in found.positions
        ],
    }


def _position_document(position: PositionExplanation, truth: Any) -> dict[str, Any]:
    document = {
        "position": position.position,
        "label": str(position.label),
        "rival": str(position.rival),
        "proba": position.proba.tolist(),
        "log_odds": position.log_odds,
        "base": position.base,
        "around": position.around,
        "contributions": [c._asdict() for c in position.contributions],
    }
    return document if truth is None else {**document, "true": str(truth)}
