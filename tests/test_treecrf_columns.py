"""Columns of training that are missing at prediction: an error, unless they are allowed to be missing."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cli_run import run
from treecrf_data import all_equal, small

from seqboost import HMM, IOHMM, FutureFeatureMEMM, OutputCoding, SlidingWindow, as_batch, load
from seqboost.evaluation import label_sequences
from seqboost.exceptions import InputError, ParameterError
from seqboost.sequences import BatchSchema

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"id": np.repeat(np.arange(12), 5), "v": RNG.normal(size=60), "w": RNG.choice(list("xy"), 60)})
LABELS = np.where(TABLE.v > 0, "up", "down")
DICTS = [[{"v": v, "w": w, "bias": True, "s": ["t"]} for v, w in zip(part.v, part.w, strict=True)]
         for _, part in TABLE.groupby("id")]  # fmt: skip
DICTS[3][2]["rare"] = 2.5
BY_SEQUENCE = [LABELS[part.index].tolist() for _, part in TABLE.groupby("id")]
LACKS_V = r"X lacks the column\(s\) 'v' that TreeCRF was trained with.*allow_missing_columns=True"


def without(key):
    return [[{k: v for k, v in position.items() if k != key} for position in sequence] for sequence in DICTS]


@pytest.fixture(scope="module")
def of_table():
    return small(sequence="id").fit(TABLE, LABELS)


@pytest.fixture(scope="module")
def of_dicts():
    return small().fit(DICTS, BY_SEQUENCE)


def test_tables(of_table, tmp_path):
    of_table.save(tmp_path / "m.seqboost")
    short = TABLE.drop(columns="v")
    empty = TABLE.assign(v=np.nan)
    for model in (of_table, load(tmp_path / "m.seqboost")):
        for lacking, full in (
            (short, empty),
            (pl.from_pandas(short), empty),
            (as_batch(short, sequence="id"), empty),
            ([[{"w": w} for w in TABLE.w]], [[{"v": None, "w": w} for w in TABLE.w]]),
        ):
            with pytest.raises(InputError, match=LACKS_V):
                model.predict(lacking)
            found = model.predict_proba(lacking, allow_missing_columns=True)
            assert all_equal(found, model.predict_proba(full))
        with pytest.raises(InputError, match=r"X lacks the column\(s\) 'v', 'w'"):
            model.predict(TABLE[["id"]])
        assert len(model.predict(TABLE[["id"]], allow_missing_columns=True)) == 60


@pytest.mark.parametrize("key", ["v", "w", "bias", "s"])  # a number, a category, an indicator, a list
def test_keys_that_every_position_had(of_dicts, key, tmp_path):
    of_dicts.save(tmp_path / "m.seqboost")
    for model in (of_dicts, load(tmp_path / "m.seqboost")):
        with pytest.raises(InputError, match=rf"X lacks the column\(s\) '{key}' that TreeCRF was trained with, as a "
                           "key of every position"):  # fmt: skip
            model.predict(without(key))
        model.predict(without(key), allow_missing_columns=True)
        there = without(key)
        there[5][1][key] = None  # one position that has the key is enough
        model.predict(there)
    of_dicts.predict(without("rare"))  # most positions of training lacked it


def test_every_method_and_labeller():
    complete, lacking = without("rare"), [[{"w": p["w"], "bias": True, "s": ["t"]} for p in part] for part in DICTS]
    empty = [[{**position, "v": None} for position in sequence] for sequence in lacking]
    for model in (
        small(), HMM(), IOHMM(max_iter=2), SlidingWindow(), OutputCoding(small(), code="one_vs_rest"),
        FutureFeatureMEMM(max_iter=2, max_patterns=0, min_samples_leaf=1, random_state=0),
    ):  # fmt: skip
        model.fit(complete, BY_SEQUENCE)
        runs = [(name, ()) for name in ("predict", "predict_proba", "predict_marginals", "predict_kbest")]
        runs += [("score", (BY_SEQUENCE,)), ("log_prob", (BY_SEQUENCE,))]
        for name, arguments in runs:
            if not hasattr(model, name):
                continue
            with pytest.raises(InputError, match=r"X lacks the column\(s\) 'v'"):
                getattr(model, name)(lacking, *arguments)
            found = getattr(model, name)(lacking, *arguments, allow_missing_columns=True)
            expected = getattr(model, name)(empty, *arguments)
            np.testing.assert_equal(found, expected)
        assert label_sequences(model, lacking, allow_missing_columns=True).predicted == [
            labels.tolist() for labels in model.predict(empty)
        ]
        with pytest.raises(InputError, match=r"X lacks the column\(s\) 'v'"):
            label_sequences(model, lacking)


def test_the_argument_is_true_or_false(of_table):
    with pytest.raises(ParameterError, match="'allow_missing_columns' parameter of predict must be one of True, False"):
        of_table.predict(TABLE, allow_missing_columns="v")


def test_validation_data_need_the_columns_too():
    with pytest.raises(InputError, match=r"In the validation data: X lacks the column\(s\) 'v'"):
        small().fit(DICTS, BY_SEQUENCE, X_val=without("v"), y_val=BY_SEQUENCE)


def test_schemas_of_earlier_files():
    schema = as_batch(DICTS).schema
    assert schema.everywhere == ("v", "w", "bias", "s")
    assert BatchSchema.from_json(schema.to_json()).everywhere == schema.everywhere
    earlier = schema.to_json()
    del earlier["everywhere"]
    batch = as_batch(without("v"), schema=BatchSchema.from_json(earlier))  # what was not written is not asked for
    assert np.isnan(batch.numeric[:, 0]).all()
    table = as_batch(TABLE, sequence="id").schema
    assert BatchSchema.from_json(table.to_json()).required == ("v", "w")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, column files and JSON lines, complete and with a column missing, and models."""
    folder = tmp_path_factory.mktemp("columns")
    full = TABLE.assign(y=LABELS)
    full.to_csv(folder / "full.csv", index=False)
    full.drop(columns="v").to_csv(folder / "short.csv", index=False)
    full.to_parquet(folder / "full.parquet")
    full.drop(columns="v").to_parquet(folder / "short.parquet")
    for name, data in (("full", DICTS), ("short", without("v"))):
        lines = [json.dumps({"x": x, "y": y}) for x, y in zip(data, BY_SEQUENCE, strict=True)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for suffix, options in (("csv", ["--sequence", "id"]), ("parquet", ["--sequence", "id"]), ("jsonl", [])):
        model = folder / f"{suffix}.seqboost"
        run("train", folder / f"full.{suffix}", *options, "--label", "y", "--model", model, "--max-iter", 3, "--quiet")
    return folder


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_the_command_line(folder, suffix, tmp_path):
    model, short = folder / f"{suffix}.seqboost", folder / f"short.{suffix}"
    page = ["--output", tmp_path / "page.html"]
    answers = ["--output", tmp_path / f"p.{suffix}"]
    for command, options in (("predict", answers), ("evaluate", []), ("report", page)):
        done = run(command, model, short, *options, code=1)
        assert "'v'" in done.stderr
        assert "--allow-missing-columns" in done.stderr
        run(command, model, short, *options, "--allow-missing-columns")
    accuracy = json.loads(run("evaluate", model, short, "--allow-missing-columns", "--json").stdout)["accuracy"]
    assert 0.3 < accuracy < 0.8
    assert (tmp_path / "page.html").exists()
    assert (tmp_path / f"p.{suffix}").exists()


def test_column_files(tmp_path):
    lines = [[f"{w} {v:.3f} {y}" for w, v, y in zip(part.w, part.v, LABELS[part.index], strict=True)]
             for _, part in TABLE.groupby("id")]  # fmt: skip
    (tmp_path / "full.conll").write_text("\n\n".join(map("\n".join, lines)) + "\n", encoding="utf-8")
    model = tmp_path / "m.seqboost"
    run("train", tmp_path / "full.conll", "--columns", "w,v,y", "--model", model, "--max-iter", 3, "--quiet")
    known = load(model)
    known.reading_ = {**known.reading_, "columns": ["w", "y"]}
    known.save(model)
    short = [[line.split()[0] + " " + line.split()[2] for line in part] for part in lines]
    (tmp_path / "short.conll").write_text("\n\n".join(map("\n".join, short)) + "\n", encoding="utf-8")
    assert "no column 'v'" in run("evaluate", model, tmp_path / "short.conll", code=1).stderr
    run("evaluate", model, tmp_path / "short.conll", "--allow-missing-columns")
