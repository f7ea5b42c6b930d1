"""Codes of the policies for missing values, as features and trees store them.

* `DIRECTION`: "missing" is one more value of the feature; each split learns which way it goes.
* `INSTANCE_WEIGHTING`: a position whose value is missing goes both ways, with reduced weight (C4.5).
* `SURROGATE`: it goes where another feature sends it that splits the positions alike (CART).
"""

from __future__ import annotations

__all__ = ["DIRECTION", "INSTANCE_WEIGHTING", "SURROGATE"]

DIRECTION, INSTANCE_WEIGHTING, SURROGATE = 0, 1, 2
