"""Estimators of the tests."""

from __future__ import annotations

from seqboost import Method

METHOD = Method().get_params()


def with_method(parameters):
    """Return parameters with those of Method, given one by one, in ``method``."""
    moved = {name: value for name, value in parameters.items() if name in METHOD}
    others = {name: value for name, value in parameters.items() if name not in METHOD}
    return {**others, "method": Method(**moved)} if moved else parameters
