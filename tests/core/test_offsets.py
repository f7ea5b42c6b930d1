"""Positions and sequences of rows, and chunks of sequences, against plain loops."""

import itertools

import numpy as np
import pytest

from seqboost.core.offsets import locate, position_bounds, positions, sequence_chunks, sequence_numbers, starts_of

LENGTHS = [[1], [5], [1, 1, 1], [3, 1, 4, 1, 5], np.random.default_rng(0).integers(1, 9, 40).tolist(), []]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_where_positions_lie(lengths):
    offsets = starts_of(lengths)
    assert offsets.tolist() == [sum(lengths[:s]) for s in range(len(lengths) + 1)]
    assert offsets.dtype == np.int64
    places = [(s, t) for s, length in enumerate(lengths) for t in range(length)]
    bounds = [(int(offsets[s]), int(offsets[s + 1])) for s, _ in places]
    assert sequence_numbers(offsets).tolist() == [s for s, _ in places]
    assert positions(offsets).tolist() == [t for _, t in places]
    assert list(zip(*(array.tolist() for array in position_bounds(offsets)), strict=True)) == bounds
    assert [locate(offsets, row) for row in range(len(places))] == places
    assert positions(offsets).dtype == sequence_numbers(offsets).dtype == np.int64


def test_a_place_is_two_python_integers():
    found = locate(np.array([0, 2, 5]), np.int64(4))
    assert found == (1, 2)
    assert all(type(number) is int for number in found)


def test_chunks_cover_the_sequences():
    offsets = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(1, 50, 300))])
    chunks = sequence_chunks(offsets, 100)
    assert chunks[0][0] == 0
    assert chunks[-1][1] == 300
    assert all(a[1] == b[0] for a, b in itertools.pairwise(chunks))
    assert all(offsets[last] - offsets[first] >= 100 for first, last in chunks[:-1])
