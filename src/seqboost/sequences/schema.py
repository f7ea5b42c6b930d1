"""Names and kinds of columns: what a model keeps of the data it was trained with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from seqboost.core.stored import Stored

__all__ = ["BatchSchema", "ColumnSchema"]

NAMED_FORMS = ("dicts", "table")
FORMS = (*NAMED_FORMS, "arrays", "scalars", "strings", "sparse", "flat")
KINDS = ("numeric", "categorical")
HOLDS = ("byte string", "number", "string")


@dataclass(frozen=True)
class ColumnSchema:
    """Name and kind of one dense column.

    Parameters
    ----------
    name : str
        Key, table column, or ``"x0"``, ``"x1"``, ... where the input has no names.
    kind : {"numeric", "categorical"}
        How the column is used.
    forced : bool, default=False
        Whether the user declared the column categorical; its values may then be numbers.
    holds : tuple of {"byte string", "number", "string"}, default=()
        Of what types the values of a categorical column are; empty where that is not known.
    single : bool, default=False
        Whether the numbers of this batch came as float32, so that they may be rounded ones.
    """

    name: str
    kind: str
    forced: bool = False
    holds: tuple[str, ...] = field(default=(), compare=False)
    single: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class BatchSchema:
    """Names and kinds of the columns of a batch, in the user's order, and the form they came in.

    Parameters
    ----------
    columns : tuple of ColumnSchema
        Dense columns.
    sparse_names : tuple of str
        Columns of the sparse part.
    form : {"arrays", "dicts", "scalars", "strings", "sparse", "table", "flat"}
        Form of the user's object.
    sequence : str, tuple of str, or None
        Name of the table column that tells the sequences apart, or names of several.
    lists : tuple of str, default=()
        Keys of dicts whose values are lists or sets of strings; their columns are ``"key=member"``.
    has_names : bool, default=False
        Whether the names are the user's own even if they look like ours (a flat table with columns "x0", "x1").
    everywhere : tuple of str, default=()
        Keys of dicts that every position has.
    single : bool, default=False
        Whether the sparse numbers of this batch came as float32, so that they may be rounded ones.
    time : str or None, default=None
        Name of the table column that orders the positions of a sequence.
    label : str or None, default=None
        Name of the table column of the labels.
    has_clock : bool or None, default=None
        Whether the time column holds dates, times or durations, with gaps in seconds, rather than numbers; None if that
        is not known.
    """

    columns: tuple[ColumnSchema, ...]
    sparse_names: tuple[str, ...]
    form: str
    sequence: str | tuple[str, ...] | None = None
    lists: tuple[str, ...] = ()
    has_names: bool = False
    everywhere: tuple[str, ...] = field(default=(), compare=False)
    single: bool = field(default=False, compare=False)
    time: str | None = None
    label: str | None = field(default=None, compare=False)
    has_clock: bool | None = field(default=None, compare=False)

    @property
    def n_features(self) -> int:
        """Number of columns, dense and sparse."""
        return len(self.columns) + len(self.sparse_names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns: dense ones, then sparse ones."""
        return tuple(column.name for column in self.columns) + self.sparse_names

    @property
    def named(self) -> bool:
        """Whether columns are found by name (dicts, tables) rather than by position."""
        if self.form in NAMED_FORMS or self.has_names:
            return True
        return any(name != f"x{j}" for j, name in enumerate(self.names))

    @property
    def required(self) -> tuple[str, ...]:
        """Names that data of the same kind must have: all columns of a table, the keys that every dict has."""
        if self.form == "table" or self.has_names:
            return tuple(column.name for column in self.columns)
        return self.everywhere

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists, ready for JSON."""
        return {
            "columns": [
                {"name": c.name, "kind": c.kind, "forced": c.forced, "holds": list(c.holds)} for c in self.columns
            ],
            "sparse_names": list(self.sparse_names),
            "form": self.form,
            "sequence": list(self.sequence) if isinstance(self.sequence, tuple) else self.sequence,
            "lists": list(self.lists),
            "has_names": self.has_names,
            "everywhere": list(self.everywhere),
            "time": self.time,
            "label": self.label,
            "has_clock": self.has_clock,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> BatchSchema:
        """Rebuild a schema from what :meth:`to_json` returned; ModelFileError if it makes no sense."""
        # What files of earlier versions do not have.
        earlier: dict[str, Any] = {
            "sequence": None,
            "lists": [],
            "has_names": False,
            "everywhere": [],
            "time": None,
            "label": None,
            "has_clock": None,
        }
        stored = Stored("columns", {}, {**earlier, **data})
        columns = []
        for column in stored.field("columns", list):
            stored.require(isinstance(column, dict), "a column is not described by its name and kind")
            own = Stored("columns", {}, {"forced": False, "holds": [], **column})
            name, kind, holds = own.field("name", str), own.field("kind", str), own.texts("holds")
            own.require(kind in KINDS and set(holds) <= set(HOLDS), f"{kind!r} of {holds} is no kind of column")
            columns.append(ColumnSchema(name, kind, own.field("forced", bool), holds))
        sparse_names = stored.texts("sparse_names")
        stored.require(len(set(sparse_names)) == len(sparse_names), "two sparse columns have one name")
        form = stored.field("form", str)
        stored.require(form in FORMS, f"{form!r} is no form of sequences")
        sequence = stored.field("sequence", (str, list, type(None)))
        if isinstance(sequence, list):
            sequence = stored.texts("sequence")
            stored.require(sequence and len(set(sequence)) == len(sequence), f"{sequence} are no sequence columns")
        has_clock = {**earlier, **data}["has_clock"]
        stored.require(has_clock is None or isinstance(has_clock, bool), "'has_clock' is neither true nor false")
        return cls(
            tuple(columns), sparse_names, form, sequence,
            stored.texts("lists"), stored.field("has_names", bool), stored.texts("everywhere"),
            time=stored.field("time", (str, type(None))), label=stored.field("label", (str, type(None))),
            has_clock=has_clock,
        )  # fmt: skip
