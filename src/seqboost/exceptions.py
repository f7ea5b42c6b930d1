"""Exceptions raised by seqboost: the public address of :mod:`seqboost.core.exceptions`, which says what each is for."""

from seqboost.core import exceptions as _core
from seqboost.core.exceptions import *  # noqa: F403
from seqboost.core.exceptions import __all__ as __all__

for _name in __all__:  # tracebacks and pickles have the public address
    getattr(_core, _name).__module__ = __name__
