"""``missing=``: the user's policies become a filler and the codes that trees go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqboost.core.exceptions import ParameterError
from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE
from seqboost.features import SPARSE_KEY, BinnedRows, Filler, parse_missing
from seqboost.sequences import SequenceBatch

__all__ = ["N_SURROGATES", "Surrogates", "dividing_rate", "missing_policies", "split_surrogates"]

N_SURROGATES = 3  # of missing="surrogate"

# Where values are filled in, trees meet none that are missing, but for columns without any value in training.
CODES = {"direction": DIRECTION, "instance_weighting": INSTANCE_WEIGHTING, "surrogate": SURROGATE}


@dataclass(frozen=True)
class Surrogates:
    """``missing="surrogate"`` with another number of surrogate splits than 3.

    Parameters
    ----------
    n : int, default=3
        How many other features each split keeps to stand in for a missing value.

    Examples
    --------
    >>> from seqboost import Surrogates, TreeCRF
    >>> TreeCRF(missing=Surrogates(5)).missing
    Surrogates(n=5)
    """

    n: int = N_SURROGATES

    def __post_init__(self) -> None:
        """Check the number."""
        if not isinstance(self.n, (int, np.integer)) or isinstance(self.n, bool) or not 1 <= self.n <= 1000:
            raise ParameterError(f"Surrogates needs an int from 1 to 1000; got {self.n!r}")


def split_surrogates(missing: Any) -> tuple[Any, int]:
    """Return ``missing`` with names of policies only, and the number of surrogates.

    Examples
    --------
    >>> split_surrogates({"x": Surrogates(5), "*": "impute"})
    ({'x': 'surrogate', '*': 'impute'}, 5)
    """
    if isinstance(missing, Surrogates):
        return "surrogate", int(missing.n)
    if not isinstance(missing, Mapping):
        return missing, N_SURROGATES
    numbers = {int(policy.n) for policy in missing.values() if isinstance(policy, Surrogates)}
    if len(numbers) > 1:
        raise ParameterError(
            f"All Surrogates in the 'missing' parameter must have the same number, as a split keeps the same number "
            f"for every column; got {', '.join(map(str, sorted(numbers)))}."
        )
    names = {key: "surrogate" if isinstance(policy, Surrogates) else policy for key, policy in missing.items()}
    return names, numbers.pop() if numbers else N_SURROGATES


def missing_policies(missing: Any, batch: SequenceBatch) -> tuple[Filler | None, tuple[int, ...]]:
    """Return what stands for missing values of the training data, and the policies of the trees.

    Parameters
    ----------
    missing : str or dict
        As users write it.
    batch : SequenceBatch
        Training sequences.

    Returns
    -------
    filler : Filler or None
    codes : tuple of int
        One per column of the filled batch, then one for the sparse columns.
    """
    keys = [column.name for column in batch.schema.columns] + [SPARSE_KEY] * (batch.sparse is not None)
    policies = parse_missing(missing, keys)
    if batch.sparse is None:
        policies = (*policies, "direction")
    filler = Filler.fit(batch, policies)
    codes = tuple(CODES.get(policy, DIRECTION) for policy in policies)
    return filler, codes if filler is None else filler.spread(codes, DIRECTION)


def dividing_rate(binned: BinnedRows) -> float | None:
    """Return how often rows will be divided: the mean rate of missing values, of columns that lack some.

    Only those with the policy INSTANCE_WEIGHTING count; None if trees grow without weights.
    """
    layout, n_rows = binned.layout, max(1, binned.n_rows)
    rates, needs_weights = [], bool((layout.policy == SURROGATE).any())
    _, firsts = np.unique(layout.column, return_index=True)
    for f in firsts[layout.policy[firsts] == INSTANCE_WEIGHTING].tolist():
        rates.append(np.count_nonzero(binned.codes[:, layout.column[f]] == layout.n_values[f]) / n_rows)
    has_slot = layout.sparse_missing >= 0
    needs_weights |= bool((layout.sparse_policy[has_slot] == SURROGATE).any())
    weighs = has_slot & (layout.sparse_policy == INSTANCE_WEIGHTING)
    if weighs.any():
        in_slot = np.bincount(binned.slot_indices, minlength=layout.n_slots)
        rates += (in_slot[layout.slot_start[:-1][weighs] + layout.sparse_missing[weighs]] / n_rows).tolist()
    lacking = [rate for rate in rates if 0 < rate < 1]  # a column without any value divides nothing
    return float(np.mean(lacking)) if lacking else 0.0 if needs_weights else None
