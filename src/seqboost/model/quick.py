"""Scoring by masks of surviving leaves: the fast way for trees of up to 64 leaves.

For row i and a block of trees, with ``code_f`` the row's code of window feature f (see `seqboost.model.tables`)::

    survivors[t] = AND_f table[f, code_f, t]  &  AND over present slots of posting masks
    scores[k_t, i, c] += leaf_value[t, lowest bit of (survivors[t] & context_mask[e(i, c), t])]

The first line runs over contiguous trees and is vectorised; nothing in it branches on data.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from seqboost._jit import jit
from seqboost.model.tables import GROUPS_AT_ONCE, QuickTables
from seqboost.model.traversal import ContextArrays, RowArrays

__all__ = ["quick_scores"]

if numba.config.DISABLE_JIT:

    def lowest_bit(mask: Any) -> int:
        """Count the zeros below the lowest bit that is on."""
        return (int(mask) & -int(mask)).bit_length() - 1

else:

    @intrinsic
    def lowest_bit(typing_context: Any, mask: Any) -> Any:
        """Count the zeros below the lowest bit that is on (one instruction; a mask has at least one)."""

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            from llvmlite import ir

            zeros = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
            bits = arguments[0].type.width
            return zeros if bits == 64 else builder.zext(zeros, ir.IntType(64))

        return types.uint64(mask), generate


@jit
def _survivors(
    i: int,
    block: int,
    rows: RowArrays,  # IN
    tables: QuickTables,  # IN
    displacement: NDArray[np.int64],  # IN (n_groups,)
    survivors: NDArray[np.generic],  # OUT (width,)
) -> None:
    """Find the leaves of each tree of a block that row ``i``'s window leaves."""
    u = np.uint64
    table, start, code_class, codes = tables.table, tables.table_start, tables.code_class, rows.codes
    width, address = u(tables.width[0]), rows.address[i]
    for t in range(width):
        survivors[t] = ~survivors.dtype.type(0)  # type: ignore[operator]
    for g in range(u(tables.block_group[block]), u(tables.block_group[block + 1]), u(GROUPS_AT_ONCE)):
        r0 = start[g] + width * code_class[g, codes[u(address + displacement[g])]]
        r1 = start[g + u(1)] + width * code_class[g + u(1), codes[u(address + displacement[g + u(1)])]]
        r2 = start[g + u(2)] + width * code_class[g + u(2), codes[u(address + displacement[g + u(2)])]]
        r3 = start[g + u(3)] + width * code_class[g + u(3), codes[u(address + displacement[g + u(3)])]]
        for t in range(width):
            survivors[t] &= table[r0 + t] & table[r1 + t] & table[r2 + t] & table[r3 + t]
    if len(tables.posting_tree) == 0:
        return
    n_sparse = len(rows.slot_start) - 1
    for o in range(len(rows.sparse_offsets)):
        p = rows.padded_row[i] + rows.sparse_offsets[o]
        for q in range(rows.slot_indptr[p], rows.slot_indptr[p + 1]):
            slot = rows.slot_indices[q]
            s = rows.slot_feature[slot]
            use = rows.feature_use[o * n_sparse + s]
            if use >= 0:
                r = tables.use_start[use] + slot - rows.slot_start[s]
                for x in range(tables.posting_start[block, r], tables.posting_start[block, r + 1]):
                    survivors[tables.posting_tree[x]] &= tables.posting_mask[x]


@jit
def quick_scores(
    span: tuple[int, int],  # rows begin, end
    rows: RowArrays,  # IN
    tables: QuickTables,  # IN
    displacement: NDArray[np.int64],  # IN (n_groups,) of the groups' features
    context: ContextArrays,  # IN
    survivors: NDArray[np.generic],  # BUFFER (4, width)
    scores: NDArray[np.float32],  # OUT (K, n_rows, C) added to
) -> None:
    """Add every tree's values to the scores of rows ``span``.

    Four rows are summed side by side, for a sum in a fixed order must wait for each of its additions. Numbers are
    unsigned throughout: an index that might be negative would keep loops from being vectorised.
    """
    u = np.uint64
    width, leaf_value, mask = u(tables.width[0]), tables.leaf_value, tables.context_mask
    for block in range(len(tables.block_group) - 1):
        t0 = u(block) * width
        for i0 in range(span[0], span[1], 4):
            i1, i2, i3 = min(i0 + 1, span[1] - 1), min(i0 + 2, span[1] - 1), min(i0 + 3, span[1] - 1)
            for r in range(4):
                _survivors(min(i0 + r, span[1] - 1), block, rows, tables, displacement, survivors[r])
            j0, j1, j2, j3 = rows.row_type[i0], rows.row_type[i1], rows.row_type[i2], rows.row_type[i3]
            n0, n1 = context.n_existing[j0], context.n_existing[j1]
            n2, n3 = context.n_existing[j2], context.n_existing[j3]
            for run in range(tables.block_run[block], tables.block_run[block + 1]):
                k, begin, end = tables.run_label[run], u(tables.run_start[run]), u(tables.run_start[run + 1])
                for c in range(max(n0, n1, n2, n3)):
                    e0 = u(tables.context_base[j0] + min(c, n0 - 1))
                    e1 = u(tables.context_base[j1] + min(c, n1 - 1))
                    e2 = u(tables.context_base[j2] + min(c, n2 - 1))
                    e3 = u(tables.context_base[j3] + min(c, n3 - 1))
                    sum0, sum1, sum2, sum3 = scores[k, i0, c], scores[k, i1, c], scores[k, i2, c], scores[k, i3, c]
                    for t in range(begin, end):
                        sum0 += leaf_value[t, lowest_bit(survivors[u(0), t - t0] & mask[e0, t])]
                        sum1 += leaf_value[t, lowest_bit(survivors[u(1), t - t0] & mask[e1, t])]
                        sum2 += leaf_value[t, lowest_bit(survivors[u(2), t - t0] & mask[e2, t])]
                        sum3 += leaf_value[t, lowest_bit(survivors[u(3), t - t0] & mask[e3, t])]
                    # The last row of a span may stand here more than once: the same sum is then written again.
                    if c < n0:
                        scores[k, i0, c] = sum0
                    if c < n1:
                        scores[k, i1, c] = sum1
                    if c < n2:
                        scores[k, i2, c] = sum2
                    if c < n3:
                        scores[k, i3, c] = sum3
