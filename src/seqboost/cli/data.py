"""Files in, files out: what commands do with data and models before and after the library does its part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import seqboost
from seqboost.cli.console import reading_bar, say
from seqboost.cli.options import reading_from
from seqboost.core.exceptions import ModelFileError
from seqboost.files import Answers, SequenceData, read_sequences

__all__ = ["answers_of", "file_order", "load_data", "load_model", "open_model", "tell_bad"]


def load_model(path: Path) -> Any:
    """Read a model file."""
    if not path.exists():
        raise ModelFileError(
            f"there is no model file {str(path)!r}; train one with: seqboost train DATA --model {path}"
        )
    return seqboost.load(path)


def open_model(path: Path, paths: list[Path], given: dict[str, Any], decoding: str | None = None) -> tuple[Any, Any]:
    """Read a model file; return the model and how to read data files: as its own were, but for ``given``."""
    model = load_model(path)
    if decoding is not None:
        model.set_params(decoding=decoding)
    return model, reading_from(getattr(model, "reading_", None), paths, given)


def load_data(paths: list[Path], reading: Any, *, labels: str, skip_bad: bool, quiet: bool) -> SequenceData:
    """Read sequences; what was left out is told."""
    with reading_bar(paths, quiet) as watch:
        data = read_sequences(paths, reading, labels=labels, skip_bad=skip_bad, watch=watch)
    if not quiet:
        tell_bad(data)
    return data


def tell_bad(data: SequenceData) -> None:
    """List the lines that were left out."""
    if data.n_bad:
        say(f"seqboost: left out {data.n_bad:,} bad line{'s' if data.n_bad > 1 else ''}:")
        for bad in data.bad:
            say(f"  {bad}")
        if data.n_bad > len(data.bad):
            say(f"  … and {data.n_bad - len(data.bad):,} more")


def file_order(answer: Any) -> NDArray[Any]:
    """Return answers in the order of a file's rows, whether they came by sequence or by row."""
    return np.concatenate(answer) if isinstance(answer, list) else np.asarray(answer)


def texts(labels: NDArray[Any]) -> list[str]:
    """Return labels as they are written."""
    return [str(label) for label in labels.tolist()]


def answers_of(model: Any, data: SequenceData, *, proba: bool, k: int) -> Answers:
    """Predict, in the order of the file."""
    batch, allowed = data.batch, {"allow_missing_columns": data.reading.allow_missing_columns}
    paths, scores = [], []
    if k > 0:
        found = model.predict_kbest(batch, k, **allowed)
        for rank in range(max(map(len, found))):
            flat = np.full(batch.n_rows, "", dtype=object)
            score = np.full(batch.n_rows, np.nan)
            for start, best in zip(batch.offsets[:-1].tolist(), found, strict=True):
                if rank < len(best):
                    labels, score[start : start + len(best[rank][0])] = best[rank]
                    flat[start : start + len(labels)] = texts(labels)
            paths.append(file_order(batch.restore(flat)).tolist())
            scores.append(file_order(batch.restore(score)))
    return Answers(
        labels=texts(file_order(model.predict(batch, **allowed))),
        classes=tuple(texts(model.classes_)),
        proba=file_order(model.predict_proba(batch, **allowed)) if proba else None,
        paths=tuple(paths),
        path_scores=tuple(scores),
        originals={str(label): label for label in model.classes_.tolist()},
    )
