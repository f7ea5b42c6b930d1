"""Tables of the fast scorer: what each code of a feature leaves of each tree's leaves.

The masks are those of :mod:`seqboost.trees.masks`, for all trees of a forest::

    DENSE    the tree's splits on a feature: one mask for each code                        (table)
    SPARSE   absent leaves all; present in the left set: & what going left leaves          (postings)
    LAG      all lag splits of the tree: one mask for each extended context                (context_mask)

Trees are taken in blocks. Within a block, the codes of a feature that no split tells apart share one row of the table,
so that the tables stay in the cache even with 255 bins::

    table[table_start[g] + width * code_class[g, code] + t]       group g = (block, feature), tree t of the block

The *lane* of a tree is its place in the tables: blocks are taken in the forest's order, and within a block trees stand
by label, then by round. So each label's trees are still added in the order of rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import ContextSpace
from seqboost.core.jit import jit
from seqboost.core.offsets import starts_of
from seqboost.model.traversal import read_only, used_sparse
from seqboost.trees.masks import ALL_LEAVES, N_CODES, FrozenSplits, Targets, context_masks, leaf_masks, strike_out
from seqboost.trees.tree import DENSE, SPARSE

if TYPE_CHECKING:
    from seqboost.model.forest import Forest

__all__ = ["QuickTables", "build_tables", "choose_width"]

LANE = 16  # trees of a block are padded to a multiple of this
GROUPS_AT_ONCE = 4  # the scorer combines so many table rows in one pass
BLOCK_BYTES = 4 * 1024 * 1024  # measured: wide blocks pay even beyond the second cache, within the third
MAX_WIDTH = 1024
MAX_BYTES = 64 * 1024 * 1024


class QuickTables(NamedTuple):
    """Read-only tables of the fast scorer; masks are uint32 (up to 32 leaves) or uint64 (up to 64)."""

    width: NDArray[np.int64]  # (1,) trees of a block, padded
    table: NDArray[np.generic]  # (n_cells,) masks
    block_group: NDArray[np.int64]  # (n_blocks + 1,) first group of each block
    group_feature: NDArray[np.int32]  # (n_groups,) dense window feature
    table_start: NDArray[np.uint64]  # (n_groups,)
    code_class: NDArray[np.uint8]  # (n_groups, 256)
    context_mask: NDArray[np.generic]  # (E, n_lanes) masks
    context_base: NDArray[np.int64]  # (order + 1,) first extended context of each type
    runs: NDArray[np.int64]  # (3, n_runs + 1) of trees of one label: block, label, first lane; the last one is empty
    leaf_value: NDArray[np.float32]  # (n_lanes, n_bits), of shared trees (n_lanes, n_bits, K), in the order of bits
    use_start: NDArray[np.int64]  # (n_used_sparse + 1,) first posting row of each sparse feature in use
    posting_start: NDArray[np.int64]  # (n_blocks, n_posting_rows + 1)
    posting_tree: NDArray[np.int32]  # (n_postings,) tree within its block
    posting_mask: NDArray[np.generic]  # (n_postings,) masks


@jit
def _code_classes(
    group_start: NDArray[np.int64],  # IN (n_groups + 1,)
    group_split: NDArray[np.int64],  # IN (n_dense_splits,) splits, group by group
    word_start: NDArray[np.int64],  # IN (n_splits + 1,)
    words: NDArray[np.uint64],  # IN (n_words,)
    renumbered: NDArray[np.int64],  # SCRATCH (512,)
    code_class: NDArray[np.uint8],  # OUT (n_groups, 256)
    witness: NDArray[np.int32],  # OUT (n_groups, 256) a code of each class
    n_classes: NDArray[np.int64],  # OUT (n_groups,)
) -> None:
    """Find the codes that no split of a group tells apart."""
    for g in range(len(group_start) - 1):
        n = 1
        for v in range(N_CODES):
            code_class[g, v] = 0
        for x in range(group_start[g], group_start[g + 1]):
            w = word_start[group_split[x]]
            for pair in range(2 * n):
                renumbered[pair] = -1
            n = 0
            for v in range(N_CODES):
                bit = np.int64((words[w + (v >> 6)] >> np.uint64(v & 63)) & np.uint64(1))
                refined = 2 * np.int64(code_class[g, v]) + bit
                if renumbered[refined] < 0:
                    renumbered[refined] = n
                    n += 1
                code_class[g, v] = renumbered[refined]
        n_classes[g] = n
        for v in range(N_CODES):
            witness[g, code_class[g, v]] = v


def _classes(
    forest: Forest, group_start: NDArray[np.int64], group_split: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int64]]:
    """Return the class of each code, a code of each class, and how many classes there are, group by group."""
    shape = (len(group_start) - 1, N_CODES)
    classes = np.zeros(shape, np.uint8), np.zeros(shape, np.int32), np.zeros(shape[0], np.int64)
    scratch = np.zeros(2 * N_CODES, dtype=np.int64)
    _code_classes(group_start, group_split, forest.word_start, forest.words, scratch, *classes)
    return classes


def choose_width(forest: Forest, n_bytes: int) -> int:
    """Choose how many trees make a block: as many as keep its table within the cache."""
    splits = np.flatnonzero(forest.kind == DENSE)
    n_trees = forest.n_trees
    _, splits_of = np.unique(forest.feature[splits], return_counts=True)
    by_feature = splits[np.argsort(forest.feature[splits], kind="stable")]
    n_classes = _classes(forest, starts_of(splits_of), by_feature)[2]
    width = MAX_WIDTH
    while width > LANE:
        n_rows = np.minimum(splits_of * (width / n_trees) + 1, n_classes)
        if float(n_rows.sum()) * min(width, n_trees) * n_bytes <= BLOCK_BYTES:
            break
        width = max(LANE, width * 3 // 4)
    n_blocks = -(-n_trees // width)
    return (n_trees + n_blocks * LANE - 1) // (n_blocks * LANE) * LANE


def _groups(forest: Forest, split_lane: NDArray[np.int64], width: int) -> tuple[NDArray[np.int64], ...]:
    """Sort the dense splits by (block, feature), and give each block a whole number of quadruples of groups."""
    splits = np.flatnonzero(forest.kind == DENSE)
    n_blocks = -(-forest.n_trees // width)
    block, feature = split_lane[splits] // width, forest.feature[splits].astype(np.int64)
    n_features = int(feature.max(initial=0)) + 1
    key = block * n_features + feature
    sorted_by = np.argsort(key, kind="stable")
    keys, counts = np.unique(key, return_counts=True)
    per_block = np.bincount(keys // n_features, minlength=n_blocks)
    padded = -(-per_block // GROUPS_AT_ONCE) * GROUPS_AT_ONCE
    block_group = starts_of(padded)
    place = np.arange(len(keys)) + np.repeat(block_group[:-1] - np.cumsum(per_block) + per_block, per_block)
    group_feature = np.full(block_group[-1], feature[0] if len(feature) else 0, dtype=np.int64)
    group_feature[place] = keys % n_features
    sizes = np.zeros(block_group[-1], dtype=np.int64)
    sizes[place] = counts
    return block_group, group_feature, np.concatenate([[0], np.cumsum(sizes)]), splits[sorted_by]


def _lanes(forest: Forest, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lane of each tree, and the runs of trees of one label: block, label and first lane."""
    tree = np.arange(forest.n_trees)
    block = tree // width
    by_label = np.lexsort((tree, forest.tree_label, block))
    lane = np.empty_like(tree)
    lane[by_label] = tree  # blocks are full but for the last, so that places are lanes
    block, label = block[by_label], forest.tree_label[by_label]
    first = np.flatnonzero(np.concatenate([[True], (block[1:] != block[:-1]) | (label[1:] != label[:-1])]))
    runs = np.stack([block[first], label[first], first])
    return lane, np.concatenate([runs, [[-1], [-1], [forest.n_trees]]], axis=1).astype(np.int64)


def _postings(
    forest: Forest, split_lane: NDArray[np.int64], keep: NDArray[np.uint64], width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]] | None:
    """For each (block, sparse feature, slot): trees whose leaves the presence of the slot cuts down.

    ``None`` if these lists would be too long.
    """
    splits = np.flatnonzero(forest.kind == SPARSE)
    used = used_sparse(forest)
    n_blocks = -(-forest.n_trees // width)
    n_bits = (np.diff(forest.word_start) * 64)[splits]
    use = np.searchsorted(used, forest.feature[splits])
    size = np.zeros(len(used), dtype=np.int64)
    np.maximum.at(size, use, n_bits)
    use_start = starts_of(size)
    first = np.concatenate([[0], np.cumsum(n_bits)])[:-1]
    n_rows = int(use_start[-1])
    if (n_blocks * n_rows + int(n_bits.sum())) * 8 > MAX_BYTES:
        return None
    words = np.concatenate([forest.words[forest.word_start[s] : forest.word_start[s + 1]] for s in splits])
    bits = np.flatnonzero(np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little"))
    owner = np.searchsorted(first, bits, side="right") - 1
    split = splits[owner]
    key = split_lane[split] // width * n_rows + use_start[use[owner]] + bits - first[owner]
    sorted_by = np.argsort(key, kind="stable")
    ends = np.searchsorted(key[sorted_by], np.arange(n_blocks * n_rows + 1))
    index = np.arange(n_blocks)[:, None] * n_rows + np.arange(n_rows + 1)
    return use_start, ends[index], split_lane[split][sorted_by] % width, keep[1, split][sorted_by]


def build_tables(forest: Forest, width: int) -> QuickTables | None:
    """Build the tables for blocks of ``width`` trees; ``None`` if they would be too large.

    The forest must have at least one tree and none of more than 64 leaves.
    """
    n_bits = int(np.diff(forest.leaf_start).max())
    dtype = np.uint64 if n_bits > 32 else np.uint32
    lane, runs = _lanes(forest, width)
    n_lanes = -(-forest.n_trees // width) * width
    split_lane = np.repeat(lane, np.diff(forest.split_start))
    block_group, group_feature, group_start, group_split = _groups(forest, split_lane, width)
    code_class, witness, n_classes = _classes(forest, group_start, group_split)
    space = ContextSpace(forest.n_labels, forest.order)
    if max(int(n_classes.sum()) * width, space.n_extended * n_lanes) * 8 > MAX_BYTES:
        return None
    splits = FrozenSplits.of(forest)
    leaf_bit, keep = leaf_masks(splits, forest.split_start, forest.leaf_start)
    postings = _postings(forest, split_lane, keep, width) if (forest.kind == SPARSE).any() else NO_POSTINGS
    if postings is None:
        return None
    leaf_value = np.zeros((n_lanes, n_bits, *forest.value.shape[1:]), dtype=np.float32)
    leaf_value[np.repeat(lane, np.diff(forest.leaf_start)), leaf_bit] = forest.value
    table, table_start = np.full(int(n_classes.sum()) * width, ALL_LEAVES), (np.cumsum(n_classes) - n_classes) * width
    group = np.repeat(np.arange(len(n_classes)), np.diff(group_start))
    targets = Targets(group_split, table_start[group] + split_lane[group_split] % width, group)
    strike_out(splits, keep, targets, (witness, n_classes), width, table)
    tables = QuickTables(
        width=np.array([width], dtype=np.int64),
        table=table.astype(dtype),
        block_group=block_group,
        group_feature=group_feature.astype(np.int32),
        table_start=table_start.astype(np.uint64),
        code_class=code_class,
        context_mask=context_masks(splits, keep, split_lane, n_lanes, space.lag_labels()).astype(dtype),
        context_base=space.base,
        runs=runs,
        leaf_value=leaf_value,
        use_start=postings[0],
        posting_start=postings[1].astype(np.int64),
        posting_tree=postings[2].astype(np.int32),
        posting_mask=postings[3].astype(dtype),
    )
    return QuickTables(*(read_only(array) for array in tables))


NO_POSTINGS = (np.zeros(1, np.int64), np.zeros((1, 1), np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint64))
