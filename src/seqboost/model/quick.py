"""Scoring by masks of surviving leaves: the fast way for trees of up to 64 leaves.

For row i and a block of trees, with ``code_f`` the row's code of window feature f (see `seqboost.model.tables`)::

    survivors[t] = AND_f table[f, code_f, t]  &  AND over present slots of posting masks (only if slots are tested)
    scores[k_t, i, c] += leaf_value[t, lowest bit of (survivors[t] & context_mask[e(i, c), t])]

The first line runs over contiguous trees and is vectorised; nothing in it branches on data. Shared trees add a row of
values, ``vectors[i, c, :] += leaf_value[t, lowest bit, :]``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inlined, jit, lowest_bit, uint64
from seqboost.model.tables import GROUPS_AT_ONCE, QuickTables
from seqboost.model.traversal import RowArrays

__all__ = ["cut_by_slots", "quick_scores", "quick_vectors"]

VALUE_BYTES = 256 * 1024  # of the leaves' values: shared trees are added in parts of this size


@jit
def cut_by_slots(
    span: tuple[int, int],  # rows begin, end
    rows: RowArrays,  # IN
    tables: QuickTables,  # IN
    present: NDArray[np.generic],  # OUT (end - begin, n_lanes) all ones: the leaves that the slots of each row leave
) -> None:
    """Apply the postings of the slots in each row's window."""
    n_sparse = len(rows.slot_start) - 1
    n_blocks = tables.posting_start.shape[0]
    width = present.shape[1] // n_blocks
    for i in range(span[0], span[1]):
        for o in range(len(rows.sparse_offsets)):
            p = rows.padded_row[i] + rows.sparse_offsets[o]
            for q in range(rows.slot_indptr[p], rows.slot_indptr[p + 1]):
                slot = rows.slot_indices[q]
                s = rows.slot_feature[slot]
                use = rows.feature_use[o * n_sparse + s]
                if use >= 0:
                    r = tables.use_start[use] + slot - rows.slot_start[s]
                    for block in range(n_blocks):
                        for x in range(tables.posting_start[block, r], tables.posting_start[block, r + 1]):
                            present[i - span[0], block * width + tables.posting_tree[x]] &= tables.posting_mask[x]


@inlined
def _find_survivors(
    address: int,  # IN of the row
    groups: tuple[int, int],  # IN of the block: begin, end
    places: tuple[int, int, int],  # IN row of ``present``, the block's first lane there, first of ``survivors``
    width: int,  # IN
    codes: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]],  # IN codes, displacement, code_class
    table_start: NDArray[np.uint64],  # IN as in QuickTables
    table: NDArray[np.generic],  # IN
    present: NDArray[np.generic],  # IN (n or 1, n_lanes)
    survivors: NDArray[np.generic],  # OUT (n * width,)
) -> None:
    """Find what the window tests of a block's trees leave to a row.

    Numbers are unsigned throughout: an index that might be negative would keep loops from being vectorised.
    """
    u, (code, displacement, code_class), (p, t0, s) = uint64, codes, places
    for t in range(width):
        survivors[s + t] = present[p, t0 + t]
    for g in range(groups[0], groups[1], u(GROUPS_AT_ONCE)):
        g1, g2, g3 = g + u(1), g + u(2), g + u(3)
        r0 = table_start[g] + width * code_class[g, code[u(address + displacement[g])]]
        r1 = table_start[g1] + width * code_class[g1, code[u(address + displacement[g1])]]
        r2 = table_start[g2] + width * code_class[g2, code[u(address + displacement[g2])]]
        r3 = table_start[g3] + width * code_class[g3, code[u(address + displacement[g3])]]
        for t in range(width):
            survivors[s + t] &= table[r0 + t] & table[r1 + t] & table[r2 + t] & table[r3 + t]


@jit
def quick_scores(
    span: tuple[int, int],  # rows begin, end
    rows: RowArrays,  # IN
    n_existing: NDArray[np.int64],  # IN (order + 1,)
    tables: QuickTables,  # IN
    displacement: NDArray[np.int64],  # IN (n_groups,) of the groups' features
    present: NDArray[np.generic],  # IN (end - begin, n_lanes) what slots leave; or (1, n_lanes), the same for all
    survivors: NDArray[np.generic],  # BUFFER (4 * width,)
    scores: NDArray[np.float32],  # OUT (K, n_rows, C) added to
) -> None:
    """Add the values of every tree, each of one label, to the scores of rows ``span``.

    Four rows are summed side by side, for a sum in a fixed order must wait for each of its additions.
    """
    u, width = uint64, uint64(len(survivors) // 4)
    row_type, base, mask = rows.row_type, tables.context_base, tables.context_mask
    runs, leaf_value = tables.runs, tables.leaf_value
    codes, start, table = (rows.codes, displacement, tables.code_class), tables.table_start, tables.table
    run = 0
    for block in range(len(tables.block_group) - 1):
        t0, first_run = u(block) * width, run
        groups = u(tables.block_group[block]), u(tables.block_group[block + 1])
        s1, s2, s3 = width - t0, u(2) * width - t0, u(3) * width - t0
        while run < runs.shape[1] - 1 and runs[0, run] == block:
            run += 1
        for i0 in range(span[0], span[1], 4):
            i1, i2, i3 = min(i0 + 1, span[1] - 1), min(i0 + 2, span[1] - 1), min(i0 + 3, span[1] - 1)
            for r in range(4):
                i = min(i0 + r, span[1] - 1)
                p, s = u(i - span[0] if present.shape[0] > 1 else 0), u(r) * width
                _find_survivors(rows.address[i], groups, (p, t0, s), width, codes, start, table, present, survivors)
            j0, j1, j2, j3 = row_type[i0], row_type[i1], row_type[i2], row_type[i3]
            n0, n1, n2, n3 = n_existing[j0], n_existing[j1], n_existing[j2], n_existing[j3]
            n_most = max(n0, n1)
            n_most = max(n_most, max(n2, n3))
            for here in range(first_run, run):
                k, begin, end = runs[1, here], u(runs[2, here]), u(runs[2, here + 1])
                for c in range(n_most):
                    e0, e1 = u(base[j0] + min(c, n0 - 1)), u(base[j1] + min(c, n1 - 1))
                    e2, e3 = u(base[j2] + min(c, n2 - 1)), u(base[j3] + min(c, n3 - 1))
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


@jit
def quick_vectors(
    span: tuple[int, int],  # rows begin, end
    rows: RowArrays,  # IN
    n_existing: NDArray[np.int64],  # IN (order + 1,)
    tables: QuickTables,  # IN
    displacement: NDArray[np.int64],  # IN (n_groups,) of the groups' features
    present: NDArray[np.generic],  # IN as in quick_scores
    survivors: NDArray[np.generic],  # BUFFER ((end - begin) * width,)
    vectors: NDArray[np.float32],  # OUT (end - begin, C, K) added to
) -> None:
    """Add the values of every tree, shared by all labels, to the scores of rows ``span``.

    The values of a block's leaves may be many: rows pass over so many trees at a time as stay in the cache.
    """
    u, width = uint64, uint64(tables.width[0])
    base, mask, leaf_value = tables.context_base, tables.context_mask, tables.leaf_value
    codes, start, table = (rows.codes, displacement, tables.code_class), tables.table_start, tables.table
    n_trees, n_labels = tables.runs[2, -1], u(vectors.shape[2])
    at_once = max(1, VALUE_BYTES // (leaf_value.shape[1] * vectors.shape[2] * 4))
    for block in range(len(tables.block_group) - 1):
        t0, groups = u(block) * width, (u(tables.block_group[block]), u(tables.block_group[block + 1]))
        for i in range(span[0], span[1]):
            p, s = u(i - span[0] if present.shape[0] > 1 else 0), u(i - span[0]) * width
            _find_survivors(rows.address[i], groups, (p, t0, s), width, codes, start, table, present, survivors)
        last = min((block + 1) * tables.width[0], n_trees)
        for first in range(block * tables.width[0], last, at_once):
            for i in range(span[0], span[1]):
                j, p, s = rows.row_type[i], u(i - span[0]), u(i - span[0]) * width - t0
                for c in range(u(n_existing[j])):
                    e = u(base[j]) + c
                    for t in range(u(first), u(min(first + at_once, last))):
                        bit = lowest_bit(survivors[s + t] & mask[e, t])
                        for k in range(n_labels):
                            vectors[p, c, k] += leaf_value[t, bit, k]
