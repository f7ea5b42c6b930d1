"""``missing=``: the user's policies become a filler and the codes that trees go by."""

from __future__ import annotations

from typing import Any

from seqboost.features import SPARSE_KEY, Filler, parse_missing
from seqboost.sequences import SequenceBatch
from seqboost.trees.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE

__all__ = ["missing_policies"]

# Where values are filled in, trees meet none that are missing, but for columns without any value in training.
CODES = {"direction": DIRECTION, "instance_weighting": INSTANCE_WEIGHTING, "surrogate": SURROGATE}


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
