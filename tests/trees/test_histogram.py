"""Histograms against plain sums."""

from __future__ import annotations

import numpy as np
import pytest

from seqboost.core.jit import jit
from seqboost.trees import DENSE, LAG, SPARSE, Columns, DenseColumns
from seqboost.trees import histogram as histogram_module
from seqboost.trees.histogram import (
    FIRST,
    FIRST_CELL,
    FIRST_COUNT,
    LAST,
    LAST_CELL,
    OFFSET,
    SORT,
    Part,
    add_part,
    block_tasks,
    clear_block,
    feature_blocks,
    subtract_block,
    take_part,
)
from seqboost.trees.quantise import n_lanes
from tests.support.trees import CATEGORICAL, NUMERIC, ORDERED, SUBSET, random_case

N_OUTPUTS = [1, 2, 5, 7, 16]  # cells of 4, 8, 12, 16 and 36 lanes


@jit
def make(columns, blocks, part, lane, all_lanes, cells, counts):
    for b in range(blocks.shape[0]):
        clear_block(blocks[b], all_lanes, cells, counts)
        add_part(columns, blocks[b], part, lane, cells, counts)


@jit
def subtract(blocks, child, child_counts, lanes, same_rows, cells, counts):
    for b in range(blocks.shape[0]):
        subtract_block(blocks[b], child, child_counts, lanes, same_rows, cells, counts)


@jit
def take(columns, blocks, part, lanes, cells, counts):
    for b in range(blocks.shape[0]):
        take_part(columns, blocks[b], part, lanes, cells, counts)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def vectors_of(rng, n_rows, n_outputs):
    """Vectors of rows, each of which counts 1 and is lost to the sibling."""
    vectors = np.zeros((n_rows, n_lanes(n_outputs)), dtype=np.int32)
    vectors[:, : 2 * n_outputs] = rng.integers(-(2**22), 2**22, size=(n_rows, 2 * n_outputs))
    vectors[:, 2 * n_outputs : 2 * n_outputs + 2] = 1
    return vectors


def cells_of(columns, row):
    """The cells that a row adds to, by feature."""
    dense, sparse = columns
    cells = (dense.cell_start[:-1] + dense.codes[dense.address[row] + dense.displacement]).tolist()
    for o, offset in enumerate(sparse.offset):
        padded = sparse.padded_row[row] + offset
        slots = sparse.indices[sparse.indptr[padded] : sparse.indptr[padded + 1]]
        cells += (int(dense.cell_start[-1]) + o * int(sparse.slot_start[-1]) + slots).tolist()
    return cells


def exact(columns, rows, vectors):
    """The histogram of rows, whose vectors come in the same order."""
    cells = np.zeros((columns.n_cells, vectors.shape[1]), dtype=np.int64)
    for row, vector in zip(rows, vectors, strict=True):
        for cell in cells_of(columns, row):
            cells[cell] += vector
    return cells


def assert_cells(cells, counts, expected, n_lane):
    """Sums and counts are the expected ones; the lanes of empty sparse cells may be anything."""
    n_dense = len(cells) - len(counts)
    counts = np.concatenate([cells[:n_dense, n_lane], counts])
    assert counts.tolist() == expected[:, n_lane].tolist()
    lanes = [*range(n_lane + 1)]  # of the lane behind, "lost", nothing is asked in a histogram that is searched
    assert np.array_equal(cells[:n_dense, lanes], expected[:n_dense, lanes])
    assert np.array_equal(cells[counts > 0][:, lanes], expected[counts > 0][:, lanes])


def histogram_of(columns, rows, vectors, first, last, n_outputs, *, by_row=False, all_lanes=False):
    """Cells and counts of some rows, made in buffers that hold garbage."""
    blocks = feature_blocks(columns, 0, 4 * vectors.shape[1])
    cells = np.full((columns.n_cells, vectors.shape[1]), -5, dtype=np.int32)
    counts = np.full(columns.n_cells - columns.dense.cell_start[-1], -7, dtype=np.int32)
    make(columns, blocks, Part(rows, first, last, vectors, by_row), 2 * n_outputs, all_lanes, cells, counts)
    return cells, counts


@pytest.mark.parametrize("n_outputs", N_OUTPUTS)
@pytest.mark.parametrize("seed", range(2))
def test_histograms_are_exact_sums(rng, seed, n_outputs):
    columns = random_case(seed).columns
    rows = rng.permutation(columns.n_rows).astype(np.int32)
    vectors = vectors_of(rng, columns.n_rows, n_outputs)
    first, last = 4, len(rows) - 3
    part = rows[first:last]
    many = np.concatenate([columns.dense.codes, np.zeros(histogram_module.FAR, dtype=np.uint8)])
    for codes in (columns.dense.codes, many):  # whose codes are fetched ahead
        columns = columns._replace(dense=columns.dense._replace(codes=codes))
        for by_row, of_part in ((True, vectors[part]), (False, vectors[: last - first])):
            expected = exact(columns, part, of_part)
            for all_lanes in (False, True):
                cells, counts = histogram_of(
                    columns, rows, vectors, first, last, n_outputs, by_row=by_row, all_lanes=all_lanes
                )
                assert_cells(cells, counts, expected, 2 * n_outputs)
                n_dense = int(columns.dense.cell_start[-1])
                assert np.array_equal(cells[:n_dense], expected[:n_dense])
                assert not all_lanes or np.array_equal(cells, expected)


@pytest.mark.parametrize("sizes", [(1,), (5,), (11,), (19, 3, 6)], ids=str)
@pytest.mark.parametrize("n_rows", [1, 3, 21])
@pytest.mark.parametrize("n_outputs", N_OUTPUTS)
def test_runs_of_any_number_of_features(rng, sizes, n_rows, n_outputs):
    """Features whose codes follow one another are added at once: nothing is left over, nothing added twice."""
    n_features, n_values = sum(sizes), 4
    run = np.repeat(np.arange(len(sizes)), sizes)
    # A few codes lie between two runs, and after the last; the first ones lie before their row.
    width = n_features + 3 * len(sizes)
    dense = DenseColumns(
        codes=rng.integers(n_values + 2, size=n_rows * width).astype(np.uint8),
        address=np.arange(n_rows) * width + 7,
        displacement=np.arange(n_features) + 3 * run - 7,
        n_values=np.full(n_features, n_values, dtype=np.int32),
        kind=np.zeros(n_features, dtype=np.uint8),
        cell_start=np.arange(n_features + 1) * (n_values + 2),
    )
    sparse = random_case(0, lengths=(n_rows,), slots=(), sparse_window=()).columns.sparse
    columns = Columns(dense, sparse)
    rows, vectors = rng.permutation(n_rows).astype(np.int32), vectors_of(rng, n_rows, n_outputs)
    cells, counts = histogram_of(columns, rows, vectors, 0, n_rows, n_outputs)
    assert_cells(cells, counts, exact(columns, rows, vectors), 2 * n_outputs)


@pytest.mark.parametrize("n_outputs", N_OUTPUTS)
@pytest.mark.parametrize("by_rows_taken", [False, True], ids=["subtracted", "taken out"])
def test_parent_minus_child_is_the_sibling(rng, by_rows_taken, n_outputs):
    columns = random_case(0).columns
    n, n_lane, cut = columns.n_rows, 2 * n_outputs, 13
    rows, vectors = rng.permutation(n).astype(np.int32), vectors_of(rng, n, n_outputs)
    blocks = feature_blocks(columns, 0, 4 * vectors.shape[1])
    cells, counts = histogram_of(columns, rows, vectors, 0, n, n_outputs, by_row=True)
    if by_rows_taken:
        take(columns, blocks, Part(rows, 0, cut, vectors, True), (n_lane, n_lane + 1), cells, counts)
    else:
        child = histogram_of(columns, rows, vectors, 0, cut, n_outputs, by_row=True)
        subtract(blocks, *child, (n_lane, n_lane + 1), False, cells, counts)
    assert_cells(cells, counts, exact(columns, rows[cut:], vectors[rows[cut:]]), n_lane)


@pytest.mark.parametrize("n_outputs", N_OUTPUTS)
@pytest.mark.parametrize("by_rows_taken", [False, True], ids=["subtracted", "taken out"])
def test_dividing_contexts_keeps_positions(rng, by_rows_taken, n_outputs):
    """Both children hold most rows, with parts of their sums; a few have no context in the sibling: they are lost."""
    columns = random_case(0).columns
    n, n_lane, n_lost = columns.n_rows, 2 * n_outputs, 3
    rows, parent = rng.permutation(n).astype(np.int32), vectors_of(rng, n, n_outputs)
    child = parent // 3
    child[:, n_lane], child[:, n_lane + 1] = 1, 0
    child[:n_lost] = parent[:n_lost]  # in the order of ``rows``
    blocks = feature_blocks(columns, 0, 4 * parent.shape[1])
    cells, counts = histogram_of(columns, rows, parent, 0, n, n_outputs)
    if by_rows_taken:
        take(columns, blocks, Part(rows, 0, n, child, False), (n_lane, n_lane + 1), cells, counts)
    else:
        subtract(
            blocks, *histogram_of(columns, rows, child, 0, n, n_outputs), (n_lane, n_lane + 1), True, cells, counts
        )
    sibling = parent - child
    sibling[n_lost:, n_lane] = 1
    assert_cells(cells, counts, exact(columns, rows[n_lost:], sibling[n_lost:]), n_lane)


def test_histogram_does_not_depend_on_the_order_of_rows(rng):
    columns = random_case(0).columns
    vectors = vectors_of(rng, columns.n_rows, 3)
    rows = rng.permutation(columns.n_rows).astype(np.int32)
    one, other = (
        histogram_of(columns, part, vectors, 0, len(part), 3, by_row=True, all_lanes=True)
        for part in (rows, rng.permutation(rows))
    )
    assert np.array_equal(one[0], other[0])
    assert np.array_equal(one[1], other[1])


@pytest.mark.parametrize("most", [1, 30, 100, 10**6])
def test_blocks_hold_every_feature_and_cell_once(most, monkeypatch):
    monkeypatch.setattr(histogram_module, "BLOCK_BYTES", 16 * most)
    case = random_case(
        0, columns=((NUMERIC, 9), (CATEGORICAL, 20), (NUMERIC, 3)), slots=((ORDERED, 4, 0), (SUBSET, 40, 0))
    )
    (dense, sparse), n_lags = case.columns, 2
    blocks = feature_blocks(case.columns, n_lags, 16)
    held = [(b[SORT], b[OFFSET], f) for b in blocks.tolist() for f in range(b[FIRST], b[LAST])]
    assert held == [
        *((DENSE, 0, f) for f in range(dense.displacement.size)),
        *((SPARSE, o, s) for o in range(sparse.offset.size) for s in range(sparse.kind.size)),
        *((LAG, 0, lag) for lag in range(n_lags)),
    ]
    windows = blocks[blocks[:, SORT] != LAG]
    cells = [cell for b in windows for cell in range(b[FIRST_CELL], b[LAST_CELL])]
    assert cells == list(range(case.columns.n_cells))
    counted = windows[windows[:, SORT] == SPARSE]
    assert (counted[:, FIRST_CELL] - counted[:, FIRST_COUNT] == dense.cell_start[-1]).all()
    size = windows[:, LAST_CELL] - windows[:, FIRST_CELL]
    assert ((size <= most) | (windows[:, LAST] - windows[:, FIRST] == 1)).all()
    for n_tasks in (1, 2, 3, 50):
        tasks = block_tasks(blocks, n_tasks)
        assert [number for number, _, _ in tasks] == list(range(len(tasks)))
        assert [b for _, first, last in tasks for b in range(first, last)] == list(range(len(blocks)))
        assert len(tasks) <= n_tasks
