"""JSON lines are read as the same data in Python's dicts: the same columns, or refused where those are."""

import json

import numpy as np
import pytest

import seqboost
from seqboost.exceptions import DataFileError, SeqboostError
from seqboost.files import Reading, read_sequences, write_sequences

WORDS = ("p", "q", "b=c", "", "ü")


@pytest.fixture
def write(tmp_path):
    def write_file(*sequences, name="d.jsonl"):
        path = tmp_path / name
        path.write_text("\n".join(json.dumps({"x": x}) for x in sequences), encoding="utf-8")
        return path

    return write_file


def assert_same(found, expected):
    """Compare two batches in all they hold."""
    assert found.schema == expected.schema
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.numeric, expected.numeric)
    np.testing.assert_array_equal(found.categorical, expected.categorical)
    assert [c.tolist() for c in found.categories] == [c.tolist() for c in expected.categories]
    if expected.schema.sparse_names:  # a matrix without columns is as good as none
        np.testing.assert_array_equal(found.sparse.indptr, expected.sparse.indptr)
        np.testing.assert_array_equal(found.sparse.indices, expected.sparse.indices)
        np.testing.assert_array_equal(found.sparse.data, expected.sparse.data)


def values_of_keys(rng, n_keys):
    """A function for each key that draws one of its values."""
    kinds = [
        lambda: rng.normal(),
        lambda: int(rng.integers(-3, 4)) * 10**15,
        lambda: bool(rng.random() < 0.5),
        lambda: True,
        lambda: 1,
        lambda: str(rng.choice(WORDS)),
        lambda: rng.choice(WORDS, rng.integers(0, 4)).tolist(),  # the same word twice, too
        lambda: str(rng.choice(WORDS)) if rng.random() < 0.7 else rng.choice(WORDS, 2).tolist(),
        lambda: None,
    ]
    return {f"k{j}": kinds[rng.integers(len(kinds))] for j in range(n_keys)}


@pytest.mark.parametrize(("n_keys", "seed"), [*((12, seed) for seed in range(8)), (900, 0), (900, 1)])
def test_random_objects_are_read_as_dicts(write, n_keys, seed):
    rng = np.random.default_rng(seed)
    keys = values_of_keys(rng, n_keys)
    presence = rng.choice([0.02, 0.3, 1.0], n_keys)  # with 900 keys, rare numbers go to the sparse part
    has_nulls = rng.random(n_keys) < 0.5

    def position():
        return {
            key: None if null and rng.random() < 0.3 else draw()
            for (key, draw), share, null in zip(keys.items(), presence, has_nulls, strict=True)
            if rng.random() < share
        }

    X = [[position() for _ in range(rng.integers(1, 9))] for _ in range(15)]
    expected = seqboost.as_batch(X)
    assert_same(read_sequences(write(*X)).batch, expected)
    if n_keys > 256:
        assert np.nanmin(expected.sparse.data) < 0, "no rare number went to the sparse part"


def test_random_mixtures_are_refused_where_dicts_are(write):
    rng = np.random.default_rng(0)
    values = [None, True, 1, 0, 2.5, 10**400, "p", "b=p", [], ["p"], ["b=p", "q"], ["p", 3], {"p": 1}]
    values += [None, True, "p", ["p"]] * 5  # or hardly any trial were sound
    n_read = 0
    for _ in range(600):
        draw = {key: rng.integers(len(values), size=2) for key in ("a", "b", "a=b", "a=p")}
        X = [
            [{"z": 1.5}]
            + [{key: values[rng.choice(of)] for key, of in draw.items() if rng.random() < 0.4} for _ in range(4)]
            for _ in range(2)
        ]
        path = write(*X)
        try:
            expected = seqboost.as_batch(X)
        except SeqboostError:
            with pytest.raises(DataFileError, match=r"d\.jsonl, line [12][:,] .*(--drop|--skip-bad)"):
                read_sequences(path)
        else:
            n_read += 1
            assert_same(read_sequences(path).batch, expected)
    assert 100 < n_read < 500


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"a": ["p"]}, {"a": 5}, r"line 2: position 0: 'a' is the number 5, but a list in \S*d\.jsonl, line 1"),
        ({"a": 5}, {"a": ["p"]}, r"line 2: position 0: 'a' is the list \['p'\], but a number in \S*d\.jsonl, line 1"),
        ({"a": []}, {"a": True}, "line 2: position 0: 'a' is the number True, but a list in"),
        ({"a": "q"}, {"a": 5}, "line 2: position 0: 'a' is the number 5, but a word in"),
    ],
)
def test_numbers_and_lists_under_one_key_are_refused(write, first, second, message):
    path = write([{"n": 2}, first], [second], [first])
    with pytest.raises(DataFileError, match=f"{message}.* numbers alone or strings .* drop it \\(--drop a\\)"):
        read_sequences(path)
    with pytest.raises(DataFileError, match=r"line 1: position 1: 'a' is the .* elsewhere in this line"):
        read_sequences(write([first, second], name="e.jsonl"))
    skipped = read_sequences(path, skip_bad=True)
    assert skipped.bad_lines == {2}
    assert_same(skipped.batch, seqboost.as_batch([[{"n": 2}, first], [first]]))
    dropped = read_sequences(path, Reading(drop=("a",)))
    assert dropped.batch.schema.names == ("n",)


@pytest.mark.parametrize("values", [(["p"], "q"), ("q", ["p"]), ("q", "q", [], "p"), (None, "q", ["p"])])
def test_a_lone_string_among_lists_is_a_member(write, values):
    data = read_sequences(write(*([{"a": value}] for value in values)))
    assert data.batch.schema.names == ("a=p", "a=q")
    assert data.batch.schema.lists == ("a",)
    assert data.batch.sparse.sum() == sum(value not in (None, []) for value in values)
    assert data.batch.sparse.nnz == data.batch.sparse.sum()


def test_null_of_an_indicator_is_missing(write, tmp_path):
    data = read_sequences(write([{"on": None}, {"on": True}, {}, {"on": None}]))
    assert data.batch.schema.sparse_names == ("on",)
    np.testing.assert_array_equal(data.batch.sparse.toarray()[:, 0], [np.nan, 1, 0, np.nan])
    write_sequences(data, tmp_path / "o.jsonl")
    assert '{"x": [{"on": null}, {"on": true}, {}, {"on": null}]}' in (tmp_path / "o.jsonl").read_text("utf-8")
    assert_same(read_sequences(tmp_path / "o.jsonl").batch, data.batch)
    write_sequences(data, tmp_path / "o.crfsuite")
    assert (tmp_path / "o.crfsuite").read_text("utf-8") == "_\n_\ton\n_\n_\n\n"


@pytest.mark.parametrize(
    ("one", "other"), [({"a": ["b=c"]}, {"a=b": ["c"]}), ({"a": ["b"]}, {"a=b": 7}), ({"a": ["b"]}, {"a=b": None})]
)
def test_two_keys_with_one_name_are_refused(write, one, other):
    message = (
        r"d\.jsonl, line \d, position 1: two features have the name 'a=b(=c)?': the member .* in \S*d\.jsonl, line "
    )
    for sequences in (([{"n": 2}, one, other],), ([{"n": 2}, one], [{}, other]), ([{"n": 2}, other], [{}, one])):
        with pytest.raises(DataFileError, match=r"two features have the name 'a=b(=c)?'.*Rename one of the keys"):
            read_sequences(write(*sequences))
        dropped = read_sequences(write(*sequences), Reading(drop=("a=b",)))
        assert dropped.batch.schema.lists == ("a",)
    with pytest.raises(DataFileError, match=message):
        read_sequences(write([{"n": 2}, one], [{}, other]))


def test_names_in_two_files_are_told_with_the_file(write):
    paths = [write([{"n": 2}], [{"a": ["b"]}], name="d.jsonl"), write([{"n": 2}, {"a=b": 3}], name="e.jsonl")]
    where = r"d\.jsonl, line 2, position 0: two features .* the key 'a=b' in \S*e\.jsonl, line 1, position 1\."
    with pytest.raises(DataFileError, match=where):
        read_sequences(paths)


@pytest.mark.parametrize("n_digits", [309, 400, 5000])
def test_integers_beyond_floats_are_told(tmp_path, n_digits):
    path = tmp_path / "d.jsonl"
    path.write_text('{"x": [{"n": 1.5}]}\n{"x": [{"n": 2}, {"n": -' + "9" * n_digits + "}]}\n", encoding="utf-8")
    with pytest.raises(DataFileError, match=r"line 2: .*an integer (too large for a float|of thousands of digits)"):
        read_sequences(path)
    assert read_sequences(path, skip_bad=True).batch.n_rows == 1


def test_lists_can_be_dropped(write):
    path = write([{"n": 2.5, "tags": ["p"]}, {"tags": None}])
    assert read_sequences(path, Reading(drop=("tags",))).batch.schema.names == ("n",)
    with pytest.raises(DataFileError, match="has no key 'tag' to be dropped; its keys are n, tags"):
        read_sequences(path, Reading(drop=("tag",)))


def test_lists_in_rows_are_refused_as_in_python(write):
    with pytest.raises(DataFileError, match="line 1: the rows of 'x' hold lists; only objects may"):
        read_sequences(write([[["p"], 1], [["q"], 2]]))


def test_word_features_keep_what_was_a_list(write):
    path = write([{"w": "The", "tags": ["p"]}, {"w": "cat"}])
    assert read_sequences(path, Reading(features="words")).batch.schema.lists == ("tags",)
