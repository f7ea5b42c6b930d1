"""Windows as users write them."""

from __future__ import annotations

import numpy as np
import pytest

from seqboost.exceptions import ParameterError
from seqboost.features import MAX_OFFSET, parse_window, window_name

NAMES = ("a", "b", "sparse")


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (0, [0]),
        (2, [-2, -1, 0, 1, 2]),
        (np.int64(1), [-1, 0, 1]),
        ((3, 0), [-3, -2, -1, 0]),
        ((0, 2), [0, 1, 2]),
        ([3, 0], [0, 3]),
        ([-1, 1], [-1, 1]),
        ([2, -1, 2], [-1, 2]),
        ({-1, 4}, [-1, 4]),
        (range(-4, 1, 2), [-4, -2, 0]),
        (np.array([1, -1]), [-1, 1]),
        (MAX_OFFSET, list(range(-MAX_OFFSET, MAX_OFFSET + 1))),
    ],
)
def test_one_window_for_all(window: object, expected: list[int]) -> None:
    offsets = parse_window(window, NAMES)
    assert len(offsets) == 3
    for mine in offsets:
        assert mine.dtype == np.int32
        assert mine.tolist() == expected


def test_windows_by_column() -> None:
    a, b, sparse = parse_window({"a": 1, "sparse": [-2]}, NAMES)
    assert (a.tolist(), b.tolist(), sparse.tolist()) == ([-1, 0, 1], [0], [-2])
    a, b, sparse = parse_window({("a", "sparse"): (1, 0), "*": [5]}, NAMES)
    assert (a.tolist(), b.tolist(), sparse.tolist()) == ([-1, 0], [5], [-1, 0])
    assert [mine.tolist() for mine in parse_window({}, NAMES)] == [[0]] * 3


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (-1, r"window=-1 is negative; expected .* write \(1, 0\)"),
        (1.0, r"window=1.0 \(of type float\) is not a window; expected"),
        (True, r"window=True \(of type bool\) is not a window"),
        (None, r"window=None \(of type NoneType\) is not a window"),
        ("3", r"window='3' \(of type str\) is not a window"),
        ((1,), r"a tuple means \(left, right\).*write a list: \[1\]"),
        ((-1, 1), r"a tuple means \(left, right\), two non-negative integers.*\[-1, 1\]"),
        ((1, True), r"a tuple means \(left, right\)"),
        ((1, 2, 3), r"a tuple means \(left, right\)"),
        ([], r"window is empty; .* drop it from X"),
        ([0, 1.5], r"window holds 1.5 of type float; offsets must be integers"),
        ([False], r"window holds False of type bool"),
        (iter([1]), r"is an iterator .* read only once"),
        (MAX_OFFSET + 1, r"reaches 10001 positions away; at most 10000"),
        ([-20_000], r"reaches 20000 positions away"),
        ({"c": 1}, r"names the column 'c', which X does not have; expected one of 'a', 'b', 'sparse' or '\*'"),
        ({("a", "c"): 1}, r"names the column 'c'"),
        ({3: 1}, r"names the column 3, which X does not have"),
        ({"a": 1, ("a", "b"): 2}, r"names the column 'a' twice"),
        ({"a": -2}, r"window\['a'\]=-2 is negative"),
        ({"a": {"b": 2}}, r"window\['a'\]=.* \(of type dict\) is not a window"),
    ],
)
def test_bad_windows(window: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        parse_window(window, NAMES)


def test_names() -> None:
    assert [window_name("x3", offset) for offset in (-2, 0, 1)] == ["x3[-2]", "x3", "x3[+1]"]
