"""Times of the rows of a file: what orders the positions of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import DataFileError
from seqboost.files.building import MISSING_NUMBERS, TextColumn
from seqboost.sequences.ordering import Times

__all__ = ["TimeColumn"]

EPOCH = datetime(1970, 1, 1)


class TimeColumn(TextColumn):
    """A column of times: numbers, or dates and times in ISO 8601 (2024-03-31 10:00, 2024-03-31T10:00:00.5+02:00).

    What the first cell holds all others must hold, with or without a time zone.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, "numeric")
        self.form = ""  # "numbers", "dates", "zoned" (dates with a time zone), or a type of its own
        self.per_unit = 1

    def parse(self, cells: Sequence[str]) -> tuple[NDArray[Any], dict[int, tuple[str, str]]]:
        """Return the times of some cells, and what is wrong with which of them."""
        texts = [cell.strip() for cell in cells]
        first = next((text for text in texts if text not in MISSING_NUMBERS), None)
        if first is not None and not self.form:
            self.settle(*_form_of(first, self.name))
        read: Callable[[str], Any] = float if self.form == "numbers" else self._microseconds
        values: NDArray[Any] = np.zeros(len(cells), dtype=np.float64 if self.form == "numbers" else np.int64)
        bad = {}
        for row, text in enumerate(texts):
            if text in MISSING_NUMBERS:
                bad[row] = self.empty()
                continue
            try:
                values[row] = read(text)
            except ValueError:
                known = {"numbers": "numbers", "dates": "dates without a time zone", "zoned": "dates with a time zone"}
                bad[row] = (
                    f"the time column {self.name!r} holds {known[self.form]}, but here {text[:40]!r}",
                    "write all times in one form: numbers, or 2024-03-31 10:00:00",
                )
        return values, bad | (self._infinite(values, texts) if self.form == "numbers" else {})

    def settle(self, form: str, per_unit: int) -> None:
        """Say what the times are; refuse a file whose times are of another form than those of the first."""
        if self.form and form != self.form:
            raise DataFileError(f"its times, the column {self.name!r}, are {form}, but those before are {self.form}")
        self.form, self.per_unit = form, per_unit

    def empty(self) -> tuple[str, str]:
        """Say what is wrong with a row without a time, and how to fix it."""
        return f"the time column {self.name!r} is empty", "give every row a time"

    def _microseconds(self, text: str) -> int:
        """Return the time since 1970 (in UTC, if it has a zone)."""
        moment = datetime.fromisoformat(text)
        if (moment.tzinfo is not None) != (self.form == "zoned"):
            raise ValueError
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        since = moment - EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds

    def times(self) -> Times:
        """Return the times of all rows; the pieces are given up."""
        pieces, self._numbers = self._numbers, []
        return Times(np.concatenate(pieces) if pieces else np.empty(0), self.per_unit)


def _form_of(text: str, name: str) -> tuple[str, int]:
    """Return the form of a time, and how many of its units are a second (or 1)."""
    try:
        float(text)
    except ValueError:
        pass
    else:
        return "numbers", 1
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise DataFileError(
            f"the time column {name!r} holds {text[:40]!r}; expected numbers, or dates and times such as "
            "2024-03-31 10:00:00"
        ) from None
    return "dates" if moment.tzinfo is None else "zoned", 1_000_000
