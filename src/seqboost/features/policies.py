"""Policies for missing values: which column follows which.

A policy is written in one of these ways::

    "instance_weighting"                                           one for all columns
    {"word": "indicator", ("x", "y"): "impute", "*": "surrogate"}  one per column; "*" for all others ("direction" if
                                                                   it is left out)

The key ``"sparse"`` stands for all indicator features together, as it does in a window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seqboost.core.exceptions import ParameterError
from seqboost.features.windows import by_column

__all__ = ["DATA_POLICIES", "POLICIES", "TREE_POLICIES", "parse_missing"]

TREE_POLICIES = ("direction", "instance_weighting", "surrogate")  # trees see that a value is missing
DATA_POLICIES = ("impute", "impute_mean", "indicator")  # trees see what it was replaced with
POLICIES = (*TREE_POLICIES, *DATA_POLICIES)


def parse_missing(missing: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Turn the policies, as users write them, into one for each of the named columns.

    Parameters
    ----------
    missing : str or dict
        See the head of this module.
    names : sequence of str
        The columns' names, and ``"sparse"`` if there are indicator features.

    Returns
    -------
    tuple of str
        One of `POLICIES` per name.

    Raises
    ------
    ParameterError
        If there is no such policy, or no such column.

    Examples
    --------
    >>> parse_missing({"a": "impute"}, ["a", "b"])
    ('impute', 'direction')
    """
    if not isinstance(missing, Mapping):
        return (_parse_policy(missing, "missing"),) * len(names)
    return by_column("missing", missing, names, _parse_policy, "direction")


def _parse_policy(policy: Any, where: str) -> str:
    if isinstance(policy, str) and policy in POLICIES:
        return str(policy)
    known = ", ".join(repr(name) for name in POLICIES)
    raise ParameterError(
        f"{where}={policy!r} is not a policy for missing values; expected one of {known}, or a dict of column name -> "
        f"policy."
    )
