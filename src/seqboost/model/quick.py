"""Scoring by masks of surviving leaves: the fast way for trees of up to 64 leaves.

For row i and a block of trees, with ``code_f`` the row's code of window feature f (see `seqboost.model.tables`)::

    survivors[t] = AND_f table[f, code_f, t]  &  AND over present slots of posting masks (only if slots are tested)
    scores[k_t, i, c] += leaf_value[t, lowest bit of (survivors[t] & context_mask[e(i, c), t])]

The first line runs over contiguous trees and is vectorised; nothing in it branches on data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import jit, lowest_bit
from seqboost.model.tables import GROUPS_AT_ONCE
from seqboost.model.traversal import RowArrays

__all__ = ["cut_by_slots", "quick_scores"]


@jit
def cut_by_slots(
    span: tuple[int, int],  # rows begin, end
    rows: RowArrays,  # IN
    use_start: NDArray[np.int64],  # IN as in QuickTables
    posting_start: NDArray[np.int64],  # IN
    posting_tree: NDArray[np.int32],  # IN
    posting_mask: NDArray[np.generic],  # IN
    present: NDArray[np.generic],  # OUT (end - begin, n_lanes) all ones: the leaves that the slots of each row leave
) -> None:
    """Apply the postings of the slots in each row's window."""
    n_sparse = len(rows.slot_start) - 1
    n_blocks = posting_start.shape[0]
    width = present.shape[1] // n_blocks
    for i in range(span[0], span[1]):
        for o in range(len(rows.sparse_offsets)):
            p = rows.padded_row[i] + rows.sparse_offsets[o]
            for q in range(rows.slot_indptr[p], rows.slot_indptr[p + 1]):
                slot = rows.slot_indices[q]
                s = rows.slot_feature[slot]
                use = rows.feature_use[o * n_sparse + s]
                if use >= 0:
                    r = use_start[use] + slot - rows.slot_start[s]
                    for block in range(n_blocks):
                        for x in range(posting_start[block, r], posting_start[block, r + 1]):
                            present[i - span[0], block * width + posting_tree[x]] &= posting_mask[x]


@jit
def quick_scores(
    span: tuple[int, int],  # rows begin, end
    codes: NDArray[np.uint8],  # IN as in RowArrays
    address: NDArray[np.int64],  # IN
    row_type: NDArray[np.uint8],  # IN
    n_existing: NDArray[np.int64],  # IN (order + 1,)
    table: NDArray[np.generic],  # IN as in QuickTables
    table_start: NDArray[np.uint64],  # IN
    code_class: NDArray[np.uint8],  # IN
    block_group: NDArray[np.int64],  # IN
    displacement: NDArray[np.int64],  # IN (n_groups,) of the groups' features
    mask: NDArray[np.generic],  # IN context_mask
    context_base: NDArray[np.int64],  # IN
    runs: NDArray[np.int64],  # IN (3, n_runs + 1) block, label and first lane of each run
    leaf_value: NDArray[np.float32],  # IN
    present: NDArray[np.generic],  # IN (end - begin, n_lanes) what slots leave; or (1, n_lanes), the same for all
    survivors: NDArray[np.generic],  # BUFFER (4 * width,)
    scores: NDArray[np.float32],  # OUT (K, n_rows, C) added to
) -> None:
    """Add every tree's values to the scores of rows ``span``.

    Four rows are summed side by side, for a sum in a fixed order must wait for each of its additions. Numbers are
    unsigned throughout: an index that might be negative would keep loops from being vectorised.
    """
    u, width = np.uint64, np.uint64(len(survivors) // 4)
    run = 0
    for block in range(len(block_group) - 1):
        t0, first_run = u(block) * width, run
        s1, s2, s3 = width - t0, u(2) * width - t0, u(3) * width - t0
        while run < runs.shape[1] - 1 and runs[0, run] == block:
            run += 1
        for i0 in range(span[0], span[1], 4):
            i1, i2, i3 = min(i0 + 1, span[1] - 1), min(i0 + 2, span[1] - 1), min(i0 + 3, span[1] - 1)
            for r in range(4):
                i, s = min(i0 + r, span[1] - 1), u(r) * width
                at, row = address[i], u(i - span[0] if present.shape[0] > 1 else 0)
                for t in range(width):
                    survivors[s + t] = present[row, t0 + t]
                for g in range(u(block_group[block]), u(block_group[block + 1]), u(GROUPS_AT_ONCE)):
                    g1, g2, g3 = g + u(1), g + u(2), g + u(3)
                    r0 = table_start[g] + width * code_class[g, codes[u(at + displacement[g])]]
                    r1 = table_start[g1] + width * code_class[g1, codes[u(at + displacement[g1])]]
                    r2 = table_start[g2] + width * code_class[g2, codes[u(at + displacement[g2])]]
                    r3 = table_start[g3] + width * code_class[g3, codes[u(at + displacement[g3])]]
                    for t in range(width):
                        survivors[s + t] &= table[r0 + t] & table[r1 + t] & table[r2 + t] & table[r3 + t]
            j0, j1, j2, j3 = row_type[i0], row_type[i1], row_type[i2], row_type[i3]
            n0, n1, n2, n3 = n_existing[j0], n_existing[j1], n_existing[j2], n_existing[j3]
            n_most = max(n0, n1)
            n_most = max(n_most, max(n2, n3))
            for here in range(first_run, run):
                k, begin, end = runs[1, here], u(runs[2, here]), u(runs[2, here + 1])
                for c in range(n_most):
                    e0, e1 = u(context_base[j0] + min(c, n0 - 1)), u(context_base[j1] + min(c, n1 - 1))
                    e2, e3 = u(context_base[j2] + min(c, n2 - 1)), u(context_base[j3] + min(c, n3 - 1))
                    sum0, sum1, sum2, sum3 = scores[k, i0, c], scores[k, i1, c], scores[k, i2, c], scores[k, i3, c]
                    for t in range(begin, end):
                        sum0 += leaf_value[t, lowest_bit(survivors[t - t0] & mask[e0, t])]
                        sum1 += leaf_value[t, lowest_bit(survivors[t + s1] & mask[e1, t])]
                        sum2 += leaf_value[t, lowest_bit(survivors[t + s2] & mask[e2, t])]
                        sum3 += leaf_value[t, lowest_bit(survivors[t + s3] & mask[e3, t])]
                    # The last row of a span may stand here more than once: the same sum is then written again.
                    if c < n0:
                        scores[k, i0, c] = sum0
                    if c < n1:
                        scores[k, i1, c] = sum1
                    if c < n2:
                        scores[k, i2, c] = sum2
                    if c < n3:
                        scores[k, i3, c] = sum3
