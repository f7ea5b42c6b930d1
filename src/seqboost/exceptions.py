"""Exceptions raised by seqboost.

The tree (each also derives from the built-in that scikit-learn's habits expect)::

    SeqboostError
    ├── InputError        (ValueError)   data that cannot be used: shapes, lengths, values
    ├── InputTypeError    (TypeError)    data of a kind that is not understood
    ├── ParameterError    (ValueError)   a parameter of an estimator that makes no sense
    ├── ModelFileError    (ValueError)   a model file that is damaged, truncated or foreign
    └── MemoryLimitError  (MemoryError)  a fit that would not fit into memory

Every message says what was expected, what came, where (sequence and position) and how to mend it.
"""

from __future__ import annotations

__all__ = [
    "InputError",
    "InputTypeError",
    "MemoryLimitError",
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


class MemoryLimitError(SeqboostError, MemoryError):
    """A fit was refused because it would not fit into memory."""
