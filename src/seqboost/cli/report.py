"""``seqboost report``: a model and files → one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqboost.cli.console import print_json, say
from seqboost.cli.data import load_data, open_model
from seqboost.core.exceptions import DataFileError
from seqboost.reporting import write_report

__all__ = ["run_report"]


def run_report(
    model_path: Path,
    paths: list[Path],
    target: Path,
    given: dict[str, Any],
    *,
    title: str | None,
    scheme: str | None,
    max_sequences: int,
    decoding: str | None,
    skip_bad: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Label files and write the page."""
    if target.is_dir() or not target.resolve().parent.is_dir():
        raise DataFileError(f"cannot write a page to {str(target)!r}: name a file in a folder that exists")
    model, reading = open_model(model_path, paths, given, decoding)
    data = load_data(paths, reading, labels="optional", skip_bad=skip_bad, quiet=quiet or as_json)
    data = data.with_labels_of(model.classes_.tolist())
    y = None if data.label_codes is None else data.y
    heading = title or f"{model_path.stem}: how it labels {', '.join(path.name for path in paths[:3])}"
    write_report(
        model, data.batch, y, target, title=heading, scheme=scheme, max_sequences=max_sequences,
        allow_missing_columns=reading.allow_missing_columns,
    )  # fmt: skip
    if as_json:
        counts = {"sequences": data.batch.n_sequences, "positions": data.batch.n_rows, "left_out": data.n_bad}
        print_json({"output": str(target), "bytes": target.stat().st_size, **counts})
    elif not quiet:
        say(f"{target} ({target.stat().st_size / 1e6:.2f} MB): open it in any browser")
