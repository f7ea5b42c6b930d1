"""Labellers side by side: one table of how good they are, what they cost, and whether they differ."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from seqboost import SequenceBatch, as_labels
from seqboost.core.exceptions import InputError, InputTypeError, MissingExtraError, ParameterError
from seqboost.core.logs import get_logger, shown
from seqboost.evaluation.labelling import by_sequence, labels_for, read_for
from seqboost.evaluation.mcnemar import mcnemar
from seqboost.evaluation.scores import accuracy, sequence_accuracy

__all__ = ["Comparison", "Row", "compare"]

logger = get_logger(__name__)

SAMPLING_SECONDS = 0.01

COLUMNS = ("labeller", "accuracy", "sequence accuracy", "fit s", "predict s", "memory MB", "p (McNemar)")


@dataclass(frozen=True)
class Row:
    """What was found about one labeller.

    Attributes
    ----------
    name : str
    accuracy : float
        Share of observed labels that are predicted right.
    sequence_accuracy : float
        Share of the sequences (with at least one observed label) without any wrong one.
    fit_seconds, predict_seconds : float
        Wall-clock times.
    memory_mb : float
        By how much the memory of this process rose during fit and predict, at its highest; NaN where the system does
        not tell.
    pvalue : float
        Of McNemar's test against the best labeller: how likely is a difference as large if both were equally good? 1
        for the best one itself.
    """

    name: str
    accuracy: float
    sequence_accuracy: float
    fit_seconds: float
    predict_seconds: float
    memory_mb: float
    pvalue: float

    def cells(self) -> tuple[str, ...]:
        """Return the row as text."""
        memory = "" if np.isnan(self.memory_mb) else f"{self.memory_mb:.0f}"
        return (
            self.name, f"{self.accuracy:.4f}", f"{self.sequence_accuracy:.4f}", f"{self.fit_seconds:.2f}",
            f"{self.predict_seconds:.2f}", memory, "best" if self.pvalue == 1.0 else f"{self.pvalue:.2g}",
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Comparison:
    """Labellers by accuracy, the best first.

    Attributes
    ----------
    rows : tuple of Row
    predictions : dict of str to what ``predict`` gave
    models : dict of str to fitted labellers
    """

    rows: tuple[Row, ...]
    predictions: dict[str, Any]
    models: dict[str, Any]

    def __str__(self) -> str:
        """Write the table as plain text."""
        lines = [COLUMNS, *(row.cells() for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
        aligned = []
        for name, *cells in lines:
            parts = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            aligned.append("  ".join([name.ljust(widths[0]), *parts]).rstrip())
        return "\n".join(aligned)

    def __repr__(self) -> str:
        """Show the table."""
        return str(self)

    def to_markdown(self) -> str:
        """Write the table in Markdown."""
        lines = [COLUMNS, ("---",) * len(COLUMNS), *(row.cells() for row in self.rows)]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, a row for each labeller."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError(
                'to_frame needs pandas, which is not installed: pip install "seqboost[tables]"'
            ) from error
        return pd.DataFrame([vars(row) for row in self.rows]).set_index("name")


def compare(
    labellers: Mapping[str, Any] | Sequence[Any],
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    verbose: bool = False,
    tell: Callable[[str, float], object] | None = None,
) -> Comparison:
    """Train labellers on the same sequences, and compare them on others.

    Parameters
    ----------
    labellers : dict of str to labeller, or list of labellers
        Copies of them are trained, one after the other. Labellers of a list go by the names of their classes.
    X, y : as in :meth:`seqboost.TreeCRF.fit`
        Training sequences.
    X_test, y_test : as X and y
        Test sequences.
    verbose : bool, default=False
        Show a line when a labeller is done. It is logged in any case, at level INFO.
    tell : callable, optional
        Called with the name and the seconds of a labeller that is done.

    Returns
    -------
    Comparison
        Print it, or take its ``to_markdown()`` or ``to_frame()``.

    Notes
    -----
    The first fit of a kind on a machine compiles its kernels, which counts: run a comparison twice before times are
    trusted. Memory is read while labellers run, every hundredth of a second.

    Examples
    --------
    >>> from seqboost import HMM, VotedPerceptron
    >>> from seqboost.datasets import make_hmm
    >>> from seqboost.evaluation import compare
    >>> X, y = make_hmm("both", n_sequences=90, n_labels=9, random_state=0)
    >>> found = compare([HMM(), HMM(order=0)], X[:60], y[:60], X[60:], y[60:])
    >>> [row.name for row in found.rows]
    ['HMM', 'HMM 2']
    >>> found.rows[0].accuracy > found.rows[1].accuracy
    True
    """
    named = _named(labellers)
    models, predictions, costs = {}, {}, {}
    batch: SequenceBatch | None = None
    truth: list[list[Any]] = []
    for name, labeller in named.items():
        with _memory() as peak:
            began = time.perf_counter()
            models[name] = clone(labeller).fit(X, y)
            fit_seconds = time.perf_counter() - began
            if batch is None:  # as the first labeller reads them; bad test data stop the others from being trained
                batch, truth = _test_data(models[name], X_test, y_test)
            began = time.perf_counter()
            predictions[name] = models[name].predict(X_test)
            predict_seconds = time.perf_counter() - began
        costs[name] = (fit_seconds, predict_seconds, peak[0])
        with shown(int(verbose)):
            logger.info("%s: %.1f s", name, fit_seconds + predict_seconds)
        if tell is not None:
            tell(name, fit_seconds + predict_seconds)
    assert batch is not None
    guesses = {name: by_sequence(batch, guess) for name, guess in predictions.items()}
    scores = {name: (accuracy(truth, guess), sequence_accuracy(truth, guess)) for name, guess in guesses.items()}
    best = max(scores, key=lambda name: scores[name][0])
    rows = [
        Row(
            name, *scores[name], *costs[name],
            1.0 if name == best else mcnemar(truth, guesses[best], guesses[name]).pvalue,
        )
        for name in named
    ]  # fmt: skip
    rows.sort(key=lambda row: (-row.accuracy, row.name != best))
    return Comparison(tuple(rows), predictions, models)


def _named(labellers: Any) -> dict[str, Any]:
    if isinstance(labellers, Mapping):
        named = {str(name): labeller for name, labeller in labellers.items()}
    elif isinstance(labellers, (list, tuple)):
        named = {}
        for labeller in labellers:
            kind, number = type(labeller).__name__, 2
            name = kind
            while name in named:
                name, number = f"{kind} {number}", number + 1
            named[name] = labeller
    else:
        raise ParameterError(
            f"labellers must be a dict of names to labellers, or a list of labellers; got a {type(labellers).__name__}"
        )
    if not named:
        raise ParameterError("labellers is empty; give at least one labeller to compare")
    for name, labeller in named.items():
        if not all(hasattr(labeller, method) for method in ("fit", "predict", "get_params")):
            raise ParameterError(f"labellers[{name!r}] is {labeller!r:.60}, which is no labeller (fit, predict)")
    return named


def _test_data(model: Any, X: Any, y: Any) -> tuple[SequenceBatch, list[list[Any]]]:
    """Read the test sequences with the columns of a fitted labeller, and their labels sequence by sequence."""
    try:
        batch = read_for(model, X)
        return batch, as_labels(labels_for(model, X, y), batch)
    except (InputError, InputTypeError) as error:
        raise type(error)(f"In the test data: {error}") from None


def _resident_bytes() -> float:
    """Return the memory of this process, or NaN where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return float(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return float("nan")


@contextmanager
def _memory() -> Iterator[list[float]]:
    """Give a list whose only entry is, afterwards, by how many MB memory rose at its highest."""
    start = highest = _resident_bytes()
    found = [float("nan")]
    ended = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not ended.wait(SAMPLING_SECONDS):
            highest = max(highest, _resident_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()
        found[0] = (max(highest, _resident_bytes()) - start) / 2**20
