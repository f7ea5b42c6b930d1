"""Exceptions raised by seqboost.

Each also derives from the built-in exception that scikit-learn's users expect.

Every message says what was expected, what came, where (sequence and position) and how to fix it.
"""

from __future__ import annotations

__all__ = [
    "DataFileError",
    "InputError",
    "InputTypeError",
    "MemoryLimitError",
    "MissingExtraError",
    "ModelFileError",
    "ParameterError",
    "SeqboostError",
]


class SeqboostError(Exception):
    """Base class of all exceptions raised by seqboost on purpose."""


class InputError(SeqboostError, ValueError):
    """Data that cannot be used: wrong shape, length or value."""


class InputTypeError(SeqboostError, TypeError):
    """Data of a kind that is not understood."""


class ParameterError(SeqboostError, ValueError):
    """An estimator's parameter has a value that makes no sense."""


class ModelFileError(SeqboostError, ValueError):
    """A model file is damaged, truncated, foreign or too new."""


class DataFileError(SeqboostError, ValueError):
    """A data file cannot be read: it is damaged, or not of the format it was taken for."""


class MissingExtraError(SeqboostError, ImportError):
    """A package that this needs is not installed; the message names the extra that brings it."""


class MemoryLimitError(SeqboostError, MemoryError):
    """A fit was refused because it would not fit into memory."""
