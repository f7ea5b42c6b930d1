"""Exceptions raised by seqboost: the public names of :mod:`seqboost.core.exceptions`, which says what each is for."""

from seqboost.core import exceptions as _core
from seqboost.core.exceptions import (
    DataFileError,
    InputError,
    InputTypeError,
    MemoryLimitError,
    MissingExtraError,
    ModelFileError,
    ParameterError,
    SeqboostError,
)

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

for _name in __all__:  # tracebacks and pickles have the public address
    getattr(_core, _name).__module__ = __name__
