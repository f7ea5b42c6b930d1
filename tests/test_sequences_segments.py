"""Labels to segments and back."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqboost import Segment, from_segments, to_segments
from seqboost.exceptions import InputError, InputTypeError, ParameterError

LABELS = st.lists(st.lists(st.sampled_from(["a", "b", "O"]), min_size=1, max_size=9), min_size=1, max_size=5)


def slow_segments(labels, outside):
    """Return (sequence, start, end, label) by looking at every position."""
    found = []
    for i, part in enumerate(labels):
        for t, label in enumerate(part):
            if label == outside:
                continue
            if found and found[-1][0] == i and found[-1][2] == t and found[-1][3] == label:
                found[-1][2] += 1
            else:
                found.append([i, t, t + 1, label])
    return [Segment(*segment) for segment in found]


@given(labels=LABELS, data=st.data())
def test_there_and_back(labels, data):
    segments = to_segments(labels, outside="O")
    assert segments == slow_segments(labels, "O")
    lengths = [len(part) for part in labels]
    shuffled = data.draw(st.permutations(segments))
    again = from_segments(shuffled, lengths=lengths, outside="O")
    assert [part.tolist() for part in again] == labels
    assert again[0].dtype.kind == "U"
    everywhere = to_segments(labels)
    assert sum(segment.end - segment.start for segment in everywhere) == sum(lengths)
    assert [part.tolist() for part in from_segments(everywhere, lengths=lengths)] == labels


@given(labels=LABELS, data=st.data())
def test_there_and_back_in_time_from_shuffled_rows(labels, data):
    flat = [label for part in labels for label in part]
    ids = [("p", i) for i, part in enumerate(labels) for _ in part]
    times = [1.5 * t for part in labels for t in range(len(part))]
    order = data.draw(st.permutations(range(len(flat))))
    rows = pd.DataFrame({"label": flat, "t": times}).iloc[list(order)]
    own = [ids[row] for row in order]
    segments = to_segments(rows.label, times=rows.t, sequences=own, outside="O")
    expected = {(("p", s), 1.5 * a, 1.5 * (b - 1), label) for s, a, b, label in slow_segments(labels, "O")}
    assert set(segments) == expected
    again = from_segments(segments, times=rows.t, sequences=own, outside="O")
    assert again.tolist() == rows.label.tolist()


def test_a_table_without_times_counts_positions_in_the_order_of_rows():
    table = pd.DataFrame({"s": list("xyxyx"), "label": [1, 2, 1, 2, 3]})
    segments = to_segments(table.label, sequences=table.s)
    assert segments == [Segment("x", 0, 2, 1), Segment("x", 2, 3, 3), Segment("y", 0, 2, 2)]
    assert from_segments(segments, sequences=table.s).tolist() == [1, 2, 1, 2, 3]
    assert to_segments(table.label.to_numpy()) == to_segments([table.label])
    assert to_segments(pl.Series(table.label), sequences=pl.Series(table.s)) == segments


@pytest.mark.parametrize("zone", [None, UTC])
@pytest.mark.parametrize("form", ["list", "pandas", "polars", "numpy"])
def test_dates_and_times(zone, form):
    if form == "numpy" and zone:
        pytest.skip("NumPy knows no time zones")
    start = datetime(2024, 5, 1, tzinfo=zone)
    times = [start + timedelta(hours=hour) for hour in range(4)]
    made = {"list": list, "pandas": pd.Series, "polars": pl.Series, "numpy": lambda t: np.array(t, "datetime64[ns]")}
    own = made[form](times)
    segments = to_segments(["aabb"], times=[own])
    assert [segment.label for segment in segments] == ["a", "b"]
    assert pd.Timestamp(segments[1].start) == pd.Timestamp(times[2])
    assert from_segments(segments, times=[own])[0].tolist() == list("aabb")
    assert from_segments(pd.DataFrame(segments), times=[own])[0].tolist() == list("aabb")


def test_segments_in_all_forms():
    segments = to_segments(["OaaO", "bO"], sequences=["x", "y"], outside="O")
    frame = pd.DataFrame(segments)
    assert frame.columns.tolist() == ["sequence", "start", "end", "label"]
    for given_ in (frame, pl.DataFrame(frame), frame.to_dict("records"), [tuple(s) for s in segments], iter(segments)):
        again = from_segments(given_, lengths=[4, 2], sequences=["x", "y"], outside="O")
        assert [part.tolist() for part in again] == [list("OaaO"), list("bO")]
    assert from_segments([], lengths=[2])[0].tolist() == [None, None]
    assert from_segments(frame.astype({"start": float}), lengths=[4, 2], sequences=["x", "y"])[1].tolist() == [
        "b",
        None,
    ]


def test_labels_that_are_missing_or_look_alike():
    assert to_segments([["a", None, float("nan"), "a"]]) == [Segment(0, 0, 1, "a"), Segment(0, 3, 4, "a")]
    assert to_segments([[1, True, (1, 2), (1, 2)]]) == [
        Segment(0, 0, 1, 1), Segment(0, 1, 2, True), Segment(0, 2, 4, (1, 2)),
    ]  # fmt: skip


def test_annotations_need_not_begin_and_end_at_a_position():
    times = np.array([0.0, 1.0, 2.0, 3.0])
    assert from_segments([(0, 0.5, 2.4, "run")], times=times, outside="rest").tolist() == ["rest", "run", "run", "rest"]


@pytest.mark.parametrize(
    ("segments", "error", "match"),
    [
        ([(0, 0, 2, "a"), (0, 1, 3, "b")], InputError,
         r"segments 0, \(0, 0, 2, 'a'\), and 1, \(0, 1, 3, 'b'\), overlap: both cover position 1 of sequence 0"),
        ([(0, 2, 5, "a")], InputError, r"segment 0, .* does not lie in its sequence, which has 4 positions"),
        ([(0, -1, 2, "a")], InputError, r"does not lie in its sequence.*expected 0 <= start < end <= 4"),
        ([(0, 2, 2, "a")], InputError, r"does not lie in its sequence"),
        ([(7, 0, 2, "a")], InputError, r"is of the sequence 7, which is not there; the sequences are 0, 1"),
        ([(0, 0.5, 2, "a")], InputTypeError, r"begins or ends at 0.5, which is no position; expected whole numbers"),
        ([([0], 0, 2, "a")], InputTypeError, r"is of the sequence \[0\], which cannot be an id"),
        ([(0, 0, 10**400, "a")], InputError, r"does not lie in its sequence, which has 4 positions"),
        ([(0, "x", 2, "a")], InputTypeError, r"begins or ends at 'x', which is no position"),
        ([(0, 1, float("inf"), "a")], InputTypeError, r"begins or ends at inf"),
        ([(0, 0, 2)], InputTypeError, r"segment 0 is \(0, 0, 2\); expected \(sequence, start, end, label\)"),
        ([{"sequence": 0, "start": 1}], InputTypeError, r"expected \(sequence, start, end, label\), or a dict"),
        (["abcd"], InputTypeError, r"segment 0 is 'abcd'; expected"),
        ([(0, 0, 2, None)], InputError, r"segment 0, \(0, 0, 2, None\), has no label"),
        ("abc", InputTypeError, r"segments is a str; expected a list of segments, or a table"),
        (pd.DataFrame({"sequence": [0], "start": [0], "stop": [1], "label": ["a"]}), InputError,
         r"the table of segments lacks \['end'\]; expected the columns \['sequence', 'start', 'end', 'label'\]"),
    ],
)  # fmt: skip
def test_segments_that_make_no_sense(segments, error, match):
    with pytest.raises(error, match=match):
        from_segments(segments, lengths=[4, 2])


@pytest.mark.parametrize(
    ("segments", "error", "match"),
    [
        ([(0, 1.2, 1.8, "a")], InputError, r"covers no position of its sequence, whose times go from 0.0 to 2.0"),
        ([(0, 2.0, 1.0, "a")], InputError, r"covers no position.*expected start <= end"),
        ([(0, 5.0, 6.0, "a")], InputError, r"covers no position"),
        ([(0, 0.0, 1.0, "a"), (0, 1.0, 2.0, "b")], InputError, r"overlap: both cover position 1 of sequence 0"),
        ([(0, "x", "y", "a")], InputTypeError, r"and the times of its sequence, such as 0.0, cannot be compared"),
    ],
)
def test_segments_in_time_that_make_no_sense(segments, error, match):
    with pytest.raises(error, match=match):
        from_segments(segments, times=[[0.0, 1.0, 2.0]])


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({}, ParameterError, r"needs to know what positions there are: give lengths="),
        ({"lengths": [2], "times": [[0, 1]]}, ParameterError, r"give lengths or times, not both"),
        ({"lengths": 3}, InputTypeError, r"lengths is 3; expected a list, an array or a series"),
        ({"times": 3}, InputTypeError, r"times is 3; expected a list"),
        ({"lengths": [2], "sequences": 5}, InputTypeError, r"sequences is 5; expected a list"),
        ({"lengths": [0]}, ParameterError, r"lengths\[0\] is 0; expected an int of 1 or more"),
        ({"lengths": [2], "sequences": ["a", "b"]}, InputError, r"sequences has 2 ids, but there are 1 sequences"),
        ({"lengths": [2, 2], "sequences": ["a", "a"]}, InputError, r"sequences has an id twice"),
        ({"lengths": [2], "sequences": [[]]}, InputTypeError, r"holds an id that cannot be one"),
        ({"sequences": ["a", None]}, InputError, r"sequences has no id in row 1"),
        ({"times": np.arange(3), "sequences": ["a"]}, InputError, r"sequences has 1 ids, but there are 3 rows"),
        ({"times": [[0, 1], [2, 1]]}, InputError, r"times\[1\] decrease: position 1 has 1 after 2. Sort the positions"),
        ({"times": [[0, None]]}, InputError, r"times\[0\] has no time at position 1"),
        ({"times": np.array(["2024-01-01", "NaT"], "M8[s]")}, InputError, r"times has no time at position 1"),
        ({"times": [[0, "x"]]}, InputTypeError, r"holds 0 and 'x', which cannot be compared"),
    ],
)
def test_positions_that_make_no_sense(arguments, error, match):
    with pytest.raises(error, match=match):
        from_segments([], **arguments)


def test_labels_and_times_that_do_not_match():
    with pytest.raises(InputTypeError, match="times is 5; expected a list, an array or a series"):
        to_segments(["ab"], times=5)
    with pytest.raises(InputTypeError, match="sequences is 'ab'; expected a list"):
        to_segments(["ab"], sequences="ab")
    with pytest.raises(InputError, match=r"times\[0\] has 1 times, but there are 2 positions"):
        to_segments(["ab"], times=[[1.0]])
    with pytest.raises(InputError, match="times are those of 2 sequences, but there are 1 sequences"):
        to_segments(["ab"], times=[[1.0], [2.0]])
    with pytest.raises(InputError, match="times has 3 times, but there are 2 positions"):
        to_segments(np.array(["a", "b"]), times=[1, 2, 3])


def test_times_as_text_there_and_back():
    times = ["2020-01-01", "2020-01-02", "2020-01-03"]
    segments = to_segments(np.array(["a", "a", "b"]), times=times)
    assert from_segments(segments, times=times).tolist() == ["a", "a", "b"]
