"""What the tree kernels are handed lies within the arrays that they write to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from seqboost.boosting import tree_columns
from seqboost.exceptions import ModelFileError
from seqboost.features import FeatureBinner
from seqboost.sequences import as_batch


def binned_rows():
    rng = np.random.default_rng(0)
    batch = as_batch([sp.csr_array(rng.random((9, 4)) * (rng.random((9, 4)) < 0.5)) for _ in range(3)])
    dense = as_batch([rng.integers(5, size=(9, 3)).astype(float) for _ in range(3)])
    return [FeatureBinner.fit(data, window=2).transform(data) for data in (batch, dense)]


def test_codes_addresses_and_slots_are_within():
    for binned in binned_rows():
        tree_columns(binned)


def test_what_lies_outside_is_refused():
    sparse, dense = binned_rows()
    codes = dense.codes.copy()
    codes[-1, 1] = 200
    outside = [
        replace(dense, codes=codes),
        replace(dense, address=dense.address + 1000),
        replace(sparse, slot_indices=sparse.slot_indices + 1000),
        replace(sparse, padded_row=sparse.padded_row - 1000),
    ]
    for binned in outside:
        with pytest.raises(ModelFileError, match="the bins of this model do not fit"):
            tree_columns(binned)
