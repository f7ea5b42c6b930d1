"""Files in every format: what is read, what is written, and that nothing is lost on the way."""

import gzip
import json

import numpy as np
import pytest

import seqboost
from seqboost.exceptions import DataFileError, InputError
from seqboost.files import (
    FORMATS,
    Answers,
    Reading,
    add_word_features,
    detect_format,
    read_labels,
    read_sequences,
    write_answers,
    write_sequences,
    written,
)
from seqboost.files.building import PIECE_ROWS, TextColumn

TABLE = """id,speed,room,state
a,1.5,A,go
a,,B,go
b,0.25,,stop
b,7,A,
"""
CONLL = """-DOCSTART- -X- O

the DT B-NP
cat NN I-NP

# CD B-NP


sat VB B-VP
"""


@pytest.fixture
def write(tmp_path):
    def write_file(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8") if isinstance(text, str) else path.write_bytes(text)
        return path

    return write_file


def columns_of(data):
    """Values of all columns by name, None = missing."""
    batch, found, n_numeric, n_categorical = data.batch, {}, 0, 0
    for column in batch.schema.columns:
        if column.kind == "numeric":
            found[column.name] = [None if x != x else x for x in batch.numeric[:, n_numeric].tolist()]
            n_numeric += 1
        else:
            categories = [*batch.categories[n_categorical], None]
            found[column.name] = [categories[c] for c in batch.categorical[:, n_categorical]]
            n_categorical += 1
    return found


def test_table(write):
    data = read_sequences(write("d.csv", TABLE), Reading(sequence="id", label="state"), labels="required")
    assert columns_of(data) == {"speed": [1.5, None, 0.25, 7.0], "room": ["A", "B", None, "A"]}
    assert data.batch.lengths.tolist() == [2, 2]
    assert data.y == ["go", "go", "stop", None]
    assert data.reading.to_json() == {
        "format": "csv", "label": "state", "sequence": "id", "categorical": ["room"], "numeric": ["speed"],
        "delimiter": ",", "inputs": ["speed", "room"],
    }  # fmt: skip
    assert Reading.from_json(data.reading.to_json()) == data.reading


def test_rows_of_a_sequence_need_not_stand_together(write):
    data = read_sequences(write("d.csv", "id,x,y\nb,1,p\na,2,q\nb,3,r\n"), Reading(sequence="id"))
    assert data.batch.lengths.tolist() == [2, 1]
    assert columns_of(data) == {"x": [1.0, 3.0, 2.0]}
    assert data.labels == ["p", "q", "r"]  # in the order of the file
    assert data.sequences_of(data.labels) == [["p", "r"], ["q"]]


def test_a_table_without_sequences_is_one_and_so_is_each_file(write):
    first, second = write("a.csv", "x,label\n1,p\n2,q\n"), write("b.csv", "x,label\n3,p\n")
    data = read_sequences([first, second])
    assert data.batch.lengths.tolist() == [2, 1]
    assert data.y == [["p", "q"], ["p"]]
    assert read_sequences(first).y == [["p", "q"]]


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("x;label\n1;p\n2;q\n", Reading()),
        ("x\tlabel\n1\tp\n2\tq\n", Reading()),
        ("\ufeffx,label\n1,p\n2,q\n", Reading()),
        ("x,label\r\n1,p\r\n2,q\r\n", Reading()),
        ("x,label\r1,p\r2,q\r", Reading()),
        ('"x","label"\n"1","p"\n2,q', Reading()),
        ("1,p\n2,q\n", Reading(header=False, columns=("x", "label"))),
        ("x,label\n1,p\n\n2,q\n", Reading()),
        (",x,label\n0,1,p\n1,2,q\n", Reading()),
        ("x,label\n0,1,p\n1,2,q\n", Reading()),
    ],
)
def test_ways_to_write_a_table(write, text, reading):
    data = read_sequences(write("d.csv", text.encode()), reading)
    assert columns_of(data) == {"x": [1.0, 2.0]}
    assert data.labels == ["p", "q"]


def test_numbers_of_rows_are_kept_in_predictions(write, tmp_path):
    path = write("d.csv", ",x,label\n0,1,p\n1,2,q\n")
    write_answers(path, read_sequences(path), answers(["q", "p"]), tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text(encoding="utf-8") == ",x,label,predicted\n0,1,p,q\n1,2,q,p\n"


def test_other_encodings(write):
    text = "x,label\nä,p\nb,q\n"
    assert read_sequences(write("d.csv", text.encode("latin-1")), Reading(encoding="latin-1")).batch.n_rows == 2
    assert columns_of(read_sequences(write("d.csv", text.encode("utf-16")), Reading(encoding="utf-16")))["x"][0] == "ä"


def test_labels_of_tables_are_numbers_if_all_are(write):
    assert read_sequences(write("d.csv", "x,y\n1,0\n2,1\n")).labels == [0, 1]
    assert read_sequences(write("d.csv", "x,y\n1,0\n2,01\n")).labels == ["0", "01"]


def test_kinds_of_columns():
    column = TextColumn("x")
    values, bad = column.parse(["1", "", "nan", "2.5", "NA"])
    assert column.kind == "numeric"
    assert not bad
    np.testing.assert_array_equal(values, [1, np.nan, np.nan, 2.5, np.nan])
    assert list(column.parse(["x", "1"])[1]) == [0]
    words = TextColumn("w")
    words.parse(["the", "12", "cat", "dog", "a"])
    assert words.kind == "categorical"
    slip = TextColumn("x")
    assert list(slip.parse([*map(str, range(20)), "oops"])[1]) == [20]
    late = TextColumn("late")
    for cells in (["", ""], ["", "b"]):
        late.commit(late.parse(cells)[0], None)
    found = late.finish()
    assert found.categories.tolist() == ["b"]
    assert found.values.tolist() == [-1, -1, -1, 0]
    empty = TextColumn("empty")
    empty.commit(empty.parse(["", ""])[0], None)
    assert np.isnan(empty.finish().values).all()


def test_kinds_can_be_declared_and_are_kept(write):
    path = write("d.csv", "x,z,label\n1,3,p\n2,4,q\n")
    data = read_sequences(path, Reading(categorical=("x",), drop=("z",)))
    assert columns_of(data) == {"x": ["1", "2"]}
    other = write("e.csv", "label,z,x\np,9,7\n")
    assert columns_of(read_sequences(other, data.reading)) == {"x": ["7"]}


def test_pieces_do_not_show(write):
    n = PIECE_ROWS + 3
    rows = "".join(f"{i // 1000},{i},w{i % 7},{'ab'[i % 2]}\n" for i in range(n))
    data = read_sequences(write("d.csv", "id,x,w,label\n" + rows), Reading(sequence="id"))
    assert data.batch.numeric[:, 0].tolist() == list(range(n))
    assert columns_of(data)["w"][-1] == f"w{(n - 1) % 7}"
    assert data.labels[-1] == "ab"[(n - 1) % 2]


def test_column_file(write):
    data = read_sequences(write("d.conll", CONLL))
    assert columns_of(data) == {"word": ["the", "cat", "#", "sat"], "x1": ["DT", "NN", "CD", "VB"]}
    assert data.y == [["B-NP", "I-NP"], ["B-NP"], ["B-VP"]]
    named = read_sequences(write("d.crfpp", CONLL), Reading(columns=("word", "pos", "chunk"), label="pos"))
    assert list(columns_of(named)) == ["word", "chunk"]
    assert named.y[0] == ["DT", "NN"]
    assert read_sequences(write("d.conll", CONLL), Reading(label="0", columns=("a", "b", "c"))).y[0] == ["the", "cat"]


def test_a_file_to_be_labelled_may_lack_the_label(write):
    reading = read_sequences(write("d.conll", CONLL)).reading
    data = read_sequences(write("e.conll", "a DT\nb NN\n"), reading, labels="ignore")
    assert columns_of(data) == {"word": ["a", "b"], "x1": ["DT", "NN"]}
    assert data.label_codes is None


def test_crfsuite_file(write):
    data = read_sequences(write("d.crfsuite", "A\tw=the\tn:2.5\nB\tt=1\\:2\\\\\tw=the\n\nA\n"))
    assert data.batch.schema.sparse_names == ("n", "t=1:2\\", "w=the")
    assert data.batch.sparse.toarray().tolist() == [[2.5, 0, 1], [0, 1, 1], [0, 0, 0]]
    assert data.y == [["A", "B"], ["A"]]
    exact = read_sequences(write("e.crfsuite", "A\tn:16777217\nB\tn:1e300\n"))
    assert exact.batch.sparse.data.tolist() == [16777217, 1e300]


def test_json_lines(write):
    lines = [
        {"x": [{"w": "a", "n": 1.5, "on": True, "tags": ["p", "q"]}, {"w": None}], "y": ["A", None]},
        {"x": [{"n": 2, "new": 7}], "y": ["B"]},
    ]
    data = read_sequences(write("d.jsonl", "\n".join(map(json.dumps, lines))))
    assert columns_of(data) == {"w": ["a", None, None], "n": [1.5, None, 2.0], "new": [None, None, 7.0]}
    assert data.batch.schema.sparse_names == ("on", "tags=p", "tags=q")
    assert data.batch.schema.lists == ("tags",)
    assert data.batch.sparse.toarray().tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert data.y == [["A", None], ["B"]]


@pytest.mark.parametrize(
    ("record", "columns"),
    [
        ({"x": [[1, "a"], [2, "b"]], "y": [0, 1]}, {"x0": [1.0, 2.0], "x1": ["a", "b"]}),
        ({"x": ["a", "b"], "y": [0, 1]}, {"x0": ["a", "b"]}),
        ({"x": "ab", "y": [0, 1]}, {"x0": ["a", "b"]}),
        ({"words": ["a", "b"], "pos": ["N", "V"], "labels": [0, 1], "id": 3}, {"words": ["a", "b"], "pos": ["N", "V"]}),
    ],
)
def test_forms_of_json(write, record, columns):
    data = read_sequences(write("d.jsonl", json.dumps(record)))
    assert columns_of(data) == columns
    assert data.y == [[0, 1]]


def test_json_reads_what_the_door_reads(write):
    rng = np.random.default_rng(0)
    X = [
        [{"w": f"w{i}", "n": float(i), **({"flag": True} if i % 2 else {})} for i in rng.integers(0, 5, n)]
        for n in (3, 1, 7)
    ]
    path = write("d.jsonl", "\n".join(json.dumps({"x": x}) for x in X))
    expected, data = seqboost.as_batch(X), read_sequences(path).batch
    assert data.schema == expected.schema
    np.testing.assert_array_equal(data.numeric, expected.numeric)
    np.testing.assert_array_equal(data.categorical, expected.categorical)
    assert [c.tolist() for c in data.categories] == [c.tolist() for c in expected.categories]
    assert (data.sparse != expected.sparse).nnz == 0


def test_text_reads_what_the_door_reads(write):
    data = read_sequences(write("d.txt", "banana\t010101\nfig\tC V C\n"))
    expected = seqboost.as_batch(["banana", "fig"])
    assert data.batch.schema == expected.schema
    np.testing.assert_array_equal(data.batch.categorical, expected.categorical)
    assert data.y == [list("010101"), ["C", "V", "C"]]
    assert read_sequences(write("d.txt", "fig\n")).label_codes is None
    assert read_sequences(write("d.txt", "to\ttx\t>0\n"), Reading(label="2")).y == [[">", "0"]]


def test_sparse_file(write):
    data = read_sequences(write("d.sparse", "2 2 5\n1 1 2 0 3 0\n1 2 1 4 1\n2 1 0 1\n"))
    assert data.batch.schema.sparse_names == ("f0", "f3", "f4")
    assert data.y == [["0", "1"], ["1"]]
    assert detect_format("sparse.hyphen.6.train").name == "sparse"


TYPED = [
    ("csv", Reading(sequence="id", label="label")),
    ("tsv", Reading(sequence="id", label="label")),
    ("parquet", Reading(sequence="id", label="label")),
    ("arrow", Reading(sequence="id", label="label")),
    ("conll", Reading(columns=("x", "w", "label"), numeric=("x",), missing=("_",))),
    ("jsonl", Reading()),
    ("csv.gz", Reading(sequence="id", label="label")),
    ("jsonl.bz2", Reading()),
    ("conll.xz", Reading(columns=("x", "w", "label"), numeric=("x",), missing=("_",))),
]


@pytest.mark.parametrize(("suffix", "reading"), TYPED)
def test_what_is_written_reads_the_same(write, tmp_path, suffix, reading):
    text = "id,x,w,label\n0,1.5,a,p\n0,,b,\n1,-3e-05,,q\n0,123456789.125,a b,p\n"
    if suffix.startswith("conll"):
        text = text.replace("a b", "ab")
    data = read_sequences(write("d.csv", text), Reading(sequence="id", label="label"))
    write_sequences(data, tmp_path / f"o.{suffix}")
    again = read_sequences(tmp_path / f"o.{suffix}", reading)
    assert columns_of(again) == columns_of(data)
    assert again.batch.lengths.tolist() == data.batch.lengths.tolist()
    assert again.sequences_of(again.labels) == data.sequences_of(data.labels)


def test_words_may_hold_anything(write, tmp_path):
    words = ["a,b", 'say "x"', "tab\there", "ünï", "1e5", "NA", "-DOCSTART-", "line\nbreak", " padded "]
    data = read_sequences(write("d.jsonl", json.dumps({"x": [{"w": w} for w in words], "y": ["p"] * 8 + ["q"]})))
    for suffix in ("csv", "tsv", "jsonl", "parquet", "arrow"):
        write_sequences(data, tmp_path / f"o.{suffix}")
        found = read_sequences(tmp_path / f"o.{suffix}", Reading(categorical=("w",) if suffix != "jsonl" else ()))
        if suffix != "jsonl":
            found = read_sequences(tmp_path / f"o.{suffix}", Reading(categorical=("w",), sequence="sequence"))
        assert columns_of(found)["w"] == words, suffix


def test_arrow_streams_and_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({
        "n": pa.array([1, None, 3], pa.int64()), "b": [True, False, None],
        "c": pa.array(["x", "y", "x"]).dictionary_encode(), "empty": pa.nulls(3), "y": ["p", "q", "p"],
    })  # fmt: skip
    with pa.OSFile(str(tmp_path / "d.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    data = read_sequences(tmp_path / "d.arrow")
    assert columns_of(data) == {
        "n": [1.0, None, 3.0], "b": [1.0, 0.0, None], "c": ["x", "y", "x"], "empty": [None] * 3,
    }  # fmt: skip
    declared = read_sequences(tmp_path / "d.arrow", Reading(categorical=("n",), drop=("empty",)))
    assert columns_of(declared)["n"] == ["1", None, "3"]


def answers(labels, **more):
    return Answers(labels, ("p", "q"), **more)


PREDICTED = {
    "csv": ("id,x,y\na,1,p\nb,2,p\n", "id,x,y,predicted\na,1,p,q\nb,2,p,p\n"),
    "conll": (
        "-DOCSTART- O\n\nthe p\ncat p\n\n",
        "-DOCSTART- O O\n\nthe p q\ncat p p\n\n",
    ),
    "crfsuite": ("p\ta=1\np\tb\n", "q\ta=1\np\tb\n\n"),
    "jsonl": ('{"x": "ab", "id": 7}\n', '{"x": "ab", "id": 7, "predicted": ["q", "p"]}\n'),
    "txt": ("ab\n", "ab\tqp\n"),
    "sparse": ("1 2 3\n1 1 1 0 0\n1 2 1 2 0\n", "1 2 3\n1 1 1 0 q\n1 2 1 2 p\n"),
}


@pytest.mark.parametrize("suffix", PREDICTED)
def test_predictions_come_in_the_format_that_came_in(write, tmp_path, suffix):
    text, expected = PREDICTED[suffix]
    path = write(f"d.{suffix}", text)
    data = read_sequences(path)
    write_answers(path, data, answers(["q", "p"]), tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="utf-8") == expected
    if suffix != "sparse":
        (tmp_path / f"out.{suffix}").write_text(expected, encoding="utf-8")
        assert read_labels(tmp_path / f"out.{suffix}", data.reading) == ["q", "p"]


@pytest.mark.parametrize("name", ["d.conll", "d.crfsuite", "d.txt"])
def test_probabilities_are_no_labels(write, tmp_path, name):
    path = write(name, {"d.conll": "a p\nb p\n", "d.crfsuite": "p\ta\np\tb\n", "d.txt": "ab\n"}[name])
    data = read_sequences(path)
    proba = np.array([[0.25, 0.75], [0.0, 1.0]])
    write_answers(path, data, answers(["q", "p"], proba=proba), tmp_path / f"o{name}")
    assert read_labels(tmp_path / f"o{name}", data.reading) == ["q", "p"]


def test_predictions_of_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pa.parquet.write_table(pa.table({"x": [1, 2], "y": [0, 1], "predicted": ["old", "old"]}), tmp_path / "d.parquet")
    data = read_sequences(tmp_path / "d.parquet", Reading(inputs=("x",)), labels="ignore")
    found = Answers(["1", "0"], ("0", "1"), np.eye(2), originals={"0": 0, "1": 1})
    write_answers(tmp_path / "d.parquet", data, found, tmp_path / "o.parquet")
    table = pa.parquet.read_table(tmp_path / "o.parquet").to_pydict()
    assert table == {"x": [1, 2], "y": [0, 1], "predicted": [1, 0], "p(0)": [1.0, 0.0], "p(1)": [0.0, 1.0]}
    with pytest.raises(DataFileError, match="cannot be shown; name a file"):
        write_answers(tmp_path / "d.parquet", data, found, None)


def test_probabilities_and_paths(write, tmp_path):
    proba = np.array([[0.25, 0.75], [0.5, 0.5]])
    paths = {"paths": (["q", "p"], ["p", "p"]), "path_scores": (np.log([0.5, 0.5]), np.log([0.25, 0.25]))}

    def made(name, text, **more):
        path = write(name, text)
        write_answers(path, read_sequences(path), answers(["q", "p"], **more), tmp_path / "out")
        return (tmp_path / "out").read_text(encoding="utf-8")

    assert made("d.conll", "a p\nb p\n", proba=proba).splitlines()[0] == "a p q p/0.250000 q/0.750000"
    assert made("d.conll", "a p\nb p\n", **paths) == ("# 0 -0.693147\na p q\nb p p\n\n# 1 -1.386294\na p p\nb p p\n")
    table = made("d.csv", "x,y\n1,p\n2,q\n", proba=proba, **paths).splitlines()
    assert table[0] == "x,y,predicted,p(p),p(q),path1,path1_logp,path2,path2_logp"
    assert table[1] == "1,p,q,0.25,0.75,q,-0.693147,p,-1.38629"
    assert made("d.txt", "ab\n", **paths) == "ab\tqp\t-0.693147\nab\tpp\t-1.386294\n"
    assert made("d.txt", "ab\n", proba=proba) == "ab\tqp\t0.7500 0.5000\n"
    assert made("d.crfsuite", "p\ta\np\tb\n", **paths).startswith("@probability\t0.5\nq\ta\np\tb\n\n@probability\t0.25")
    record = json.loads(made("d.jsonl", '{"x": "ab"}\n', proba=proba, **paths))
    assert record["proba"][0] == {"p": 0.25, "q": 0.75}
    assert record["kbest"][1]["labels"] == ["p", "p"]
    with pytest.raises(DataFileError, match="no place for probabilities"):
        made("d.sparse", "1 2 3\n1 1 1 0 0\n1 2 1 2 0\n", proba=proba)


def test_bad_lines_are_left_out_of_predictions_too(write, tmp_path):
    path = write("d.csv", "id,x,y\na,1,p\na,oops\nb,2,p\n")
    data = read_sequences(path, skip_bad=True)
    assert (data.n_bad, str(data.bad[0])) == (1, f"{path}, line 3: expected 3 cells, as the header has names, got 2")
    write_answers(path, data, answers(["q", "p"]), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == "id,x,y,predicted\na,1,p,q\nb,2,p,p\n"


def test_only_the_first_bad_lines_are_listed(write):
    data = read_sequences(write("d.csv", "x,y\n1,p\n" + "oops\n" * 50), skip_bad=True)
    assert data.n_bad == 50
    assert len(data.bad) == 20


def test_nothing_half_written_stays(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old", encoding="utf-8")

    def fail():
        with written(target) as file:
            file.write("new")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    with written(tmp_path / "o.gz") as file:
        file.write("new")
    assert gzip.decompress((tmp_path / "o.gz").read_bytes()) == b"new"


def test_word_features_by_the_words(write):
    data = read_sequences(write("d.conll", "McDonald NNP B\n1990 CD I\n\nran VB O\n"))
    described = columns_of(add_word_features(data))
    assert described["lower"] == ["mcdonald", "1990", "ran"]
    assert described["shape"] == ["XxXx", "9", "x"]
    assert described["suffix3"] == ["ald", "990", "ran"]
    assert described["prefix4"] == ["mcdo", "1990", "ran"]
    assert described["digits"] == ["none", "all", "none"]
    assert described["word"] == ["McDonald", "1990", "ran"]
    numbers = read_sequences(write("d.csv", "x,y\n1,p\n"))
    with pytest.raises(DataFileError, match="need a column of words"):
        add_word_features(numbers)


def test_formats_have_suffixes_of_their_own():
    suffixes = [suffix for known in FORMATS.values() for suffix in known.suffixes]
    assert len(set(suffixes)) == len(suffixes)
    for name, known in FORMATS.items():
        assert detect_format("d" + known.suffixes[0]).name == name
    with pytest.raises(DataFileError, match="cannot be told from its suffix"):
        detect_format("data")


def test_progress_is_told(write):
    seen = []
    path = write("d.csv", "x,y\n" + "1,p\n" * 40_000)
    read_sequences(path, watch=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert len(seen) == 3


def test_a_model_takes_a_file_as_it_takes_a_table(write):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.repeat(np.arange(20), 10), "x": rng.normal(size=200).round(3)})
    frame["w"] = np.where(frame.x > 0.5, "a", "b")
    frame["y"] = np.where(frame.x > 0, "p", "q")
    data = read_sequences(write("d.csv", frame.to_csv(index=False)), Reading(sequence="id", label="y"))
    settings = {"max_iter": 3, "random_state": 0, "early_stopping": False}
    of_file = seqboost.TreeCRF(**settings).fit(data.batch, data.y)
    of_table = seqboost.TreeCRF(sequence="id", **settings).fit(frame.drop(columns="y"), frame.y)
    np.testing.assert_array_equal(of_file.predict(data.batch), of_table.predict(frame.drop(columns="y")))
    np.testing.assert_array_equal(of_file.predict(frame.drop(columns="y")), of_table.predict(frame))


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("d.csv", "id,v,y\n1,3,1\n2,4,2\n1,5,0.5\n", {"sequence": "id"}),
        ("d.tsv", "id\tv\ty\n1\t3\t1.00\n2\t4\t2.00\n1\t5\t0.50\n", {"sequence": "id"}),
        ("d.conll", "a 1\nb 0.5\n\na 2\n", {}),
    ],
)
def test_labels_with_fractions_are_refused(write, name, text, options):
    path = write(name, text)
    with pytest.raises(InputError, match="with fractions, not classes: sequence 0, position 1 .*Bin the target"):
        read_sequences(path, Reading(**options), labels="required")
    read_sequences(path, Reading(**options), labels="ignore")
    converted = read_sequences(path, Reading(**options))
    with pytest.raises(InputError, match="with fractions, not classes"):
        converted.y  # noqa: B018


def test_labels_that_only_look_like_numbers(write):
    for cells in (("1.0", "2.0"), ("0.5", "x"), ("1", "2"), ("nan", "inf")):
        path = write("d.csv", "v,y\n" + "".join(f"1,{cell}\n" for cell in cells))
        assert len(read_sequences(path, labels="required").label_names) == 2
    path = write("d.jsonl", '{"x": [1, 2], "y": ["0.5", "1"]}\n')
    assert read_sequences(path, labels="required").label_names == ("0.5", "1")
