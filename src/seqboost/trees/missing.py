"""What trees do about missing values: a policy for each window feature.

* `DIRECTION`: "missing" is one more value of the feature; each split learns which way it goes.
* `INSTANCE_WEIGHTING`: a row whose value is missing goes both ways, with reduced weight (C4.5).
* `SURROGATE`: it goes where another feature sends it that divides the rows alike (CART).

With the latter two, the gain of a split counts only rows where the feature is present. The boundary is not missing: it is
a value of its own under every policy. Lag labels are never missing, and neither are the slots of indicators and sparse
numbers, for "absent" is a value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["DIRECTION", "INSTANCE_WEIGHTING", "SURROGATE", "Policies"]

DIRECTION, INSTANCE_WEIGHTING, SURROGATE = 0, 1, 2


class Policies(NamedTuple):
    """The policy of each window feature."""

    dense: NDArray[np.uint8]  # (n_features,) in the order of DenseColumns
    sparse: NDArray[np.uint8]  # (n_sparse,) before windows
