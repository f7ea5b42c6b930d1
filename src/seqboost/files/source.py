"""Bytes on disk -> numbered lines, and back: packed files, encodings, bad lines, whole files or none.

A reader never sees a file object: it asks a :class:`Source` for its lines, and reports what it cannot use to it. What
comes of a report is decided once, here: an error that names file and line, or a line left out and counted.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from seqboost.core.exceptions import DataFileError
from seqboost.core.replacing import replacing

__all__ = ["BadLine", "Source", "plain_suffixes", "written"]

PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
LISTED = 20  # bad lines that are kept with their complaints; the others are only counted
BLOCK = 1 << 16
LONGEST_LINE = 64 << 20  # bytes (characters of wide encodings)
REPORT_EVERY = 16384  # lines between two reports of progress
UNPACKING_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF32_LE: "utf-32"}

Watcher = Callable[[int, int | None], None]


@dataclass(frozen=True)
class BadLine:
    """A line that was left out."""

    path: str
    line: int
    problem: str

    def __str__(self) -> str:
        """Name the line and what is wrong with it."""
        return f"{self.path}, line {self.line}: {self.problem}"


def plain_suffixes(path: str | os.PathLike[str]) -> list[str]:
    """Return the suffixes of a file name in small letters, without that of its packing."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return suffixes[:-1] if suffixes and suffixes[-1] in PACKED else suffixes


@dataclass
class Source:
    """A text file that is read line by line.

    Parameters
    ----------
    path : str or path
        The file; ``.gz``, ``.bz2`` and ``.xz`` are unpacked on the way.
    encoding : str, default="utf-8"
        Of the text; a byte order mark of UTF-8 is skipped.
    skip_bad : bool, default=False
        Leave bad lines out instead of stopping at the first one.
    watch : callable, optional
        Told every few thousand lines how many bytes are read, of how many (None if that is not known).
    """

    path: str | os.PathLike[str]
    encoding: str = "utf-8"
    skip_bad: bool = False
    watch: Watcher | None = None
    bad: list[BadLine] = field(default_factory=list)
    bad_lines: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Check that there is something to read."""
        name = os.fspath(self.path)
        if not os.path.exists(name):
            raise DataFileError(f"there is no file {name!r}; check the path")
        if os.path.isdir(name):
            raise DataFileError(f"{name!r} is a folder, expected a data file; name the files inside it")
        if os.path.isfile(name) and os.path.getsize(name) == 0:
            raise DataFileError(f"{name!r} is empty; expected at least one line of data")
        try:
            b"a".decode(self.encoding, "replace")  # which codecs that are none of text refuse
        except (LookupError, ValueError):
            raise DataFileError(f"there is no encoding {self.encoding!r}; try 'utf-8' or 'latin-1'") from None

    @property
    def name(self) -> str:
        """The path as text."""
        return os.fspath(self.path)

    def report(self, line: int, problem: str, mend: str = "") -> None:
        """Stop at a bad line with an error, or note that it is left out.

        Parameters
        ----------
        line : int
            Its number, from 1.
        problem : str
            What was expected and what came.
        mend : str
            What else to do but to mend the line; options are called as on the command line.
        """
        if not self.skip_bad:
            ways = f"Mend the line, {mend}, or leave" if mend else "Mend the line, or leave"
            raise DataFileError(f"{self.name}, line {line}: {problem}. {ways} such lines out (--skip-bad).")
        if line not in self.bad_lines:
            self.bad_lines.add(line)
            if len(self.bad) < LISTED:
                self.bad.append(BadLine(self.name, line, problem))

    def stop(self, problem: str) -> DataFileError:
        """Return the error for what no skipping of lines can cure."""
        return DataFileError(f"{self.name}: {problem}")

    def open(self) -> IO[bytes]:
        """Open the file, unpacked."""
        suffix = Path(self.name).suffix.lower()
        try:
            opened: IO[bytes] = PACKED.get(suffix, open)(self.name, "rb")
        except PermissionError:
            raise DataFileError(f"{self.name!r} may not be read by this user; change its permissions") from None
        return opened

    def lines(self) -> Iterator[tuple[int, str]]:
        """Give the number and text of each line, its end included."""
        size = None if Path(self.name).suffix.lower() in PACKED else os.path.getsize(self.name)
        n_bytes = 0
        encoding = "utf-8" if self._is_wide else self.encoding  # see _raw_lines
        try:
            with self.open() as file:
                for number, raw in enumerate(self._raw_lines(file), start=1):
                    n_bytes += len(raw)
                    if self.watch is not None and number % REPORT_EVERY == 0:
                        self.watch(n_bytes, size)
                    if number == 1:
                        raw = self._without_mark(raw)
                    if b"\0" in raw:
                        problem = "it holds a zero byte, so this is no text file, or a damaged one"
                        self.report(number, problem, "name the format")
                        continue
                    try:
                        text = raw.decode(encoding)
                    except UnicodeError as error:
                        start, end = getattr(error, "start", 0), getattr(error, "end", 10)  # not every codec knows them
                        shown = raw[max(start - 10, 0) : end + 10]
                        problem = f"byte {start} is not valid {self.encoding} ({shown!r})"
                        self.report(number, problem, "name the encoding (latin-1?)")
                        continue
                    yield number, text
        except (*UNPACKING_ERRORS, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the disk; that of bz2 has no number
                raise
            raise self.stop(
                f"the packed file is damaged or cut short ({error or type(error).__name__}); copy it anew"
            ) from None
        if self.watch is not None:
            self.watch(n_bytes, size)

    def _raw_lines(self, file: IO[bytes]) -> Iterator[bytes]:
        """Give lines as bytes; encodings whose line ends are not single bytes are turned into UTF-8 first."""
        if self._is_wide:
            with io.TextIOWrapper(file, encoding=self.encoding, newline="\n") as text:
                try:
                    while line := text.readline(LONGEST_LINE + 1):
                        self._check_length(len(line))
                        yield line.encode("utf-8", "surrogatepass")
                except UnicodeError:
                    raise self.stop(f"the text is not {self.encoding}; name its encoding") from None
            return
        with io.BufferedReader(file, BLOCK) as buffered:  # type: ignore[type-var]
            start = buffered.peek(BLOCK)
            if b"\r" in start and b"\n" not in start:
                yield from self._carriage_returns(buffered)
                return
            while raw := buffered.readline(LONGEST_LINE + 1):
                self._check_length(len(raw))
                yield raw

    def _carriage_returns(self, file: IO[bytes]) -> Iterator[bytes]:
        """Give the lines of a file that ends them as old Macs did."""
        rest = bytearray()
        while block := file.read(BLOCK):
            *lines, last = block.split(b"\r")
            for line in lines:
                yield bytes(rest) + line + b"\n"
                rest.clear()
            rest += last
            self._check_length(len(rest))
        if rest:
            yield bytes(rest)

    def _check_length(self, length: int) -> None:
        """Refuse a line before all of it is in memory."""
        if length > LONGEST_LINE:
            raise self.stop(
                f"it has a line of more than {LONGEST_LINE >> 20} MiB, expected shorter ones; this may be no text "
                "file, or one of another format. Name the format, or break the line into several"
            )

    @property
    def _is_wide(self) -> bool:
        """Whether line ends are more than one byte."""
        return codecs.lookup(self.encoding).name.startswith(("utf-16", "utf-32"))

    def _without_mark(self, raw: bytes) -> bytes:
        """Return the first line without a byte order mark of UTF-8; refuse marks of other encodings."""
        for mark, encoding in BYTE_ORDER_MARKS.items():
            if raw.startswith(mark):
                raise self.stop(f"the text is {encoding.upper()}, not {self.encoding}; give encoding={encoding!r}")
        return raw.removeprefix(codecs.BOM_UTF8)


@contextmanager
def written(path: str | os.PathLike[str] | None, *, binary: bool = False) -> Iterator[Any]:
    """Open a file for writing that appears whole or not at all; None is standard output.

    Parameters
    ----------
    path : str, path or None
        An existing file is replaced at the end, in one step; ``.gz``, ``.bz2`` and ``.xz`` are packed.
    binary : bool, default=False
        Give the path of a temporary file instead of a file of text.
    """
    if path is None:
        yield sys.stdout
        return
    target = os.path.realpath(os.fspath(path))
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise DataFileError(f"cannot write to {os.fspath(path)!r}: it is a folder; name a file inside it")
    if not os.path.isdir(folder):
        raise DataFileError(f"cannot write to {os.fspath(path)!r}: there is no folder {folder!r}; make it first")
    suffix = Path(target).suffix.lower()
    try:
        with replacing(target) as temporary:
            if binary:
                yield temporary
            else:
                with PACKED.get(suffix, open)(temporary, "wt", encoding="utf-8", newline="") as file:
                    yield file
    except PermissionError:
        raise DataFileError(
            f"cannot write to {os.fspath(path)!r}: this user may not write there; choose another folder"
        ) from None
