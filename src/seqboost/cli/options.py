"""Options that several commands have, and what becomes of them."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from seqboost.core.exceptions import ParameterError

__all__ = [
    "ALL_READING",
    "LARGEST_SEED",
    "TRAINING",
    "Data",
    "Decoding",
    "Format",
    "Given",
    "Json",
    "Model",
    "NJobs",
    "OneFile",
    "Quiet",
    "Scheme",
    "Seed",
    "SkipBad",
    "given_options",
    "listed",
    "parsed",
    "reading_from",
    "reading_options",
    "remembered",
]

C = TypeVar("C", bound=Callable[..., None])

FILES = "How the file is read"
TRAINING = "How the model is trained"
LARGEST_SEED = 2**32 - 1

Model = Annotated[Path, typer.Argument(help="Model file, as `seqboost train` writes it.", show_default=False)]
Data = Annotated[list[Path], typer.Argument(help="Data files of one format.", show_default=False)]
OneFile = Annotated[Path, typer.Argument(help="Data file.", show_default=False)]

Format = Annotated[
    str | None,
    typer.Option("--format", "-f", help="Format, if the suffix does not tell: csv, tsv, parquet, arrow, conll, crf++, "
                 "crfsuite, jsonl, sparse, text.", rich_help_panel=FILES),
]  # fmt: skip
Label = Annotated[
    str | None,
    typer.Option("--label", "-l", help="Column or key of the labels (column files: last unless named; text: 1 = after "
                 "the first tab).", rich_help_panel=FILES),
]  # fmt: skip
Sequence = Annotated[
    list[str] | None,
    typer.Option("--sequence", "-s", help="Column of a table that tells sequences apart (may be repeated); without it "
                 "each file is one.", rich_help_panel=FILES),
]  # fmt: skip
Time = Annotated[
    str | None,
    typer.Option("--time", help="Column of a table that orders the positions of a sequence: numbers, or dates and "
                 "times.", rich_help_panel=FILES),
]  # fmt: skip
Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", help="Columns of numbers that are categories (a,b,c; may be repeated).",
                 rich_help_panel=FILES),
]  # fmt: skip
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", help="Columns to leave out (a,b,c; may be repeated).", rich_help_panel=FILES),
]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", help="Cells that mean 'missing', besides empty ones.", rich_help_panel=FILES),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", help="Names of the columns, for files without any: word,pos,chunk.",
                 rich_help_panel=FILES),
]  # fmt: skip
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help="The first line of a table is data; columns are called x0, x1, ...",
                 rich_help_panel=FILES),
]  # fmt: skip
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="What stands between cells, if not found out.", rich_help_panel=FILES)
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Encoding of text (utf-8).", rich_help_panel=FILES)]
Features = Annotated[
    str | None,
    typer.Option("--features", help="'words': describe words by small letters, shape, beginnings, ends and neighbours.",
                 rich_help_panel=FILES),
]  # fmt: skip
SkipBad = Annotated[
    bool,
    typer.Option("--skip-bad", help="Leave bad lines out, count and list them.", rich_help_panel=FILES),
]
Decoding = Annotated[
    str | None,
    typer.Option("--decoding", help="posterior (most positions right) or viterbi (the most probable whole path)."),
]
AllowMissing = Annotated[
    bool,
    typer.Option("--allow-missing-columns", help="Take columns of training that the file lacks as missing values.",
                 rich_help_panel=FILES),
]  # fmt: skip
Scheme = Annotated[str | None, typer.Option("--scheme", help="Scheme of the tags, for F1 of spans: IOB1, IOB2, BIOES.")]
Seed = Annotated[
    int,
    typer.Option(min=0, max=LARGEST_SEED, help="Seed of what is drawn at random.", rich_help_panel=TRAINING),
]
NJobs = Annotated[int | None, typer.Option(help="Threads (all cores).", rich_help_panel=TRAINING)]
Json = Annotated[bool, typer.Option("--json", help="Print the result (or error) as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but the result.")]

READING: dict[str, tuple[Any, Any]] = {
    "format": (Format, None),
    "label": (Label, None),
    "sequence": (Sequence, None),
    "time": (Time, None),
    "categorical": (Categorical, None),
    "drop": (Drop, None),
    "missing": (Missing, None),
    "columns": (Columns, None),
    "no_header": (NoHeader, False),
    "delimiter": (Delimiter, None),
    "encoding": (Encoding, None),
    "features": (Features, None),
    "allow_missing_columns": (AllowMissing, False),
}
"""Options that say how a file is read, and their defaults."""

ALL_READING = tuple(name for name in READING if name != "allow_missing_columns")  # of commands without a model
Given = dict[str, Any]  # options by the names of seqboost.files.Reading


def reading_options(*names: str) -> Callable[[C], C]:
    """Give a command options that say how files are read; it gets what was said as one dict, ``given``.

    In the help they stand where ``given`` stands among the command's parameters.
    """

    def decorate(command: C) -> C:
        signature = inspect.signature(command, eval_str=True)
        kind = inspect.Parameter.KEYWORD_ONLY
        options = [
            inspect.Parameter(name, kind, annotation=READING[name][0], default=READING[name][1]) for name in names
        ]
        parameters = list[inspect.Parameter]()
        for parameter in signature.parameters.values():
            parameters += options if parameter.name == "given" else [parameter]

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            given = given_options(**{name: arguments.pop(name) for name in names})
            command(**arguments, given=given)

        run.__dict__["__signature__"] = signature.replace(parameters=parameters)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run  # type: ignore[return-value]

    return decorate


def given_options(**given: Any) -> Given:
    """Return the options that say how a file is read, by the names of Reading."""
    no_header = given.pop("no_header", False)
    if isinstance(given.get("sequence"), list):  # names as they are, with their commas
        given["sequence"] = given["sequence"][0] if len(given["sequence"]) == 1 else tuple(given["sequence"])
    plain = {name: listed(value) if isinstance(value, list) else value for name, value in given.items()}
    return {**plain, **({"header": False} if no_header else {})}


def listed(values: list[str] | None) -> tuple[str, ...]:
    """Return the names of an option that may be repeated and may hold commas."""
    return tuple(name for value in values or () for name in value.split(",") if name)


def reading_from(stored: dict[str, Any] | None, paths: list[Path], given: dict[str, Any]) -> Any:
    """Return how to read files: as a model's own files were, where the command line does not say otherwise.

    Parameters
    ----------
    stored : dict or None
        What a model remembers.
    paths : list of paths
        The files.
    given : dict
        Options by the names of :class:`seqboost.files.Reading`; None and empty ones were not given.
    """
    from seqboost.files import Reading, detect_format

    known = dict(stored or {})
    suffix = known.pop("suffix", None)
    reading = Reading.from_json(known)
    if suffix is not None and _suffix(paths[0]) != suffix and given.get("format") is None:
        reading = replace(reading, format=None, delimiter=None)
    form = detect_format(paths[0], given.get("format") or reading.format)
    if stored and stored.get("format") and form.family != detect_format("", stored["format"]).family:
        reading = replace(reading, format=None, delimiter=None, label=None, columns=(), header=True)
    if given.get("delimiter") in ("\\t", "tab"):
        given["delimiter"] = "\t"
    return replace(reading, **{name: value for name, value in given.items() if value is not None and value != ()})


def remembered(reading: Any, path: Path) -> dict[str, Any]:
    """Return what a model remembers of how its files were read."""
    return {**reading.to_json(), "suffix": _suffix(path)}


def _suffix(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix.lower()


def parsed(text: str | None, name: str) -> Any:
    """Read a value as JSON, else as a word; ``3,0`` is a pair."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        parts = text.split(",")
        if len(parts) == 2 and all(part.strip().isdecimal() for part in parts):
            return tuple(int(part) for part in parts)
        if text[:1] in "[{":
            raise ParameterError(f"--{name} {text}: this is not valid JSON") from None
        return {"none": None, "None": None, "True": True, "False": False}.get(text, text)
    return value
