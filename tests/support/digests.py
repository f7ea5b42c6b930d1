"""Digests of fitted models, to detect unintended changes of training.

A matrix of small models covers the parameters of training in pairs; a digest of each model's arrays is kept in
``tests/digests.json``. The last bits of a model depend on the processor, whose instructions decide the order in which
some kernels sum numbers, so digests are kept per processor.

From the root of the repository::

    python -m tests.support.digests --check                check all models; exit code 1 if some differ
    python -m tests.support.digests --check --n-jobs 3     the same, each fit on 3 threads: the models must not change
    python -m tests.support.digests --write                renew the digests of this processor
    python -m tests.support.digests --list                 list the cases
    python -m tests.support.digests --only 'k3-*surrogate*' --check

Each model has two digests: ``structure`` covers the splits alone, ``all`` covers every array. Where ``structure`` is
unchanged, only numbers in leaves, gains or tables have changed.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numpy.typing import NDArray

from seqboost import MEMM, FutureFeatureMEMM, TreeCRF
from seqboost.sampling import Goss, Sequences, Stratified, Trimmed, Uniform
from tests.support.estimators import with_method

__all__ = ["PATH", "Case", "cases", "digests", "fitted", "processor", "stored", "uncovered"]

PATH = Path(__file__).resolve().parent.parent / "digests.json"
STRUCTURE = ("kind", "feature", "words", "left", "right", "n_rows")
N_DIGITS = 16

# ---------------------------------------------------------------------------------------------------------------------
# Data
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Which sequences a model is fitted to."""

    n_labels: int
    columns: str = "numeric"
    holes: bool = False
    n_sequences: int = 72
    longest: int = 24
    n_words: int = 90  # distinct values of the widest column of categories or attributes
    seed: int = 0


def sequences(data: Data) -> tuple[list[Any], list[list[str]]]:
    """Return synthetic sequences and their labels; two sequences have length 1.

    The label is kept, raised by one or drawn anew; every column depends on the label.
    """
    rng = np.random.default_rng([data.seed, data.n_labels])
    lengths = np.concatenate([[1], rng.integers(2, data.longest + 1, data.n_sequences - 2), [1]])
    n = int(lengths.sum())
    y, draw = np.empty(n, dtype=np.int64), rng.random(n)
    y[: data.n_labels] = np.arange(data.n_labels)  # so that every label occurs
    for t in range(data.n_labels, n):
        is_new = draw[t] > 0.8
        y[t] = rng.integers(data.n_labels) if is_new else (y[t - 1] + (draw[t] > 0.5)) % data.n_labels
    elements = _elements(data, y, rng)
    names = [f"label{k:02d}" for k in range(data.n_labels)]
    ends = np.cumsum(lengths)
    X, labels = [], []
    for start, end in zip(ends - lengths, ends, strict=True):
        X.append(elements[start:end])
        labels.append([names[k] for k in y[start:end]])
    return X, labels


def _elements(data: Data, y: NDArray[np.int64], rng: np.random.Generator) -> Any:
    """Return the columns, as an array or as a list with an element for each position."""
    n, n_labels = len(y), data.n_labels
    scaled = y / n_labels
    numbers = np.column_stack([
        scaled + 0.6 * rng.random(n),
        np.floor(4 * rng.random(n)) + (y % 2),  # few distinct values
        (y % 3) * rng.random(n),
        scaled**2 + 0.4 * rng.random(n),  # nearly a function of the first
        rng.random(n),
    ])  # fmt: skip
    few = (y + rng.integers(0, 3, n)) % 7
    many = (5 * y + rng.integers(0, data.n_words // 2, n)) % data.n_words
    letters = [f"c{code}" for code in few]
    words = [f"w{code}" for code in many]
    gaps = rng.random((n, 3)) < 0.15
    if data.columns == "numeric":
        if data.holes:
            numbers[:, [0, 2, 4]] = np.where(gaps, np.nan, numbers[:, [0, 2, 4]])
        return numbers
    if data.columns == "sparse":  # bags of attributes
        return [
            ["bias", letter, word] + [f"o{code}"] * bool(extra)
            for letter, word, code, extra in zip(letters, words, y % 5, rng.random(n) < 0.3, strict=True)
        ]
    if data.holes:
        letters = [None if gap else letter for gap, letter in zip(gaps[:, 0], letters, strict=True)]
        words = [None if gap else word for gap, word in zip(gaps[:, 1], words, strict=True)]
        numbers[:, 0] = np.where(gaps[:, 2], np.nan, numbers[:, 0])
    if data.columns == "category":
        shapes = [f"s{code}" for code in (y + rng.integers(0, 2, n)) % 4]
        return list(zip(letters, words, shapes, strict=True))
    tags = [[f"t{a}", f"u{b}"] for a, b in zip((y + rng.integers(0, 4, n)) % 11, rng.integers(0, 30, n), strict=True)]
    return [
        {"number": row[0], "level": row[1], "square": row[3], "letter": letter, "word": word, "tags": tag}
        for row, letter, word, tag in zip(numbers.tolist(), letters, words, tags, strict=True)
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Cases
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One model: its name, its data and its parameters."""

    name: str
    data: Data
    parameters: Mapping[str, Any]
    estimator: Callable[..., Any] = TreeCRF
    fit: Mapping[str, Any] = field(default_factory=dict)  # further arguments of fit


BASE: dict[str, Any] = {
    "max_iter": 8, "max_leaf_nodes": 16, "min_samples_leaf": 3, "learning_rate": 0.4, "l2_regularization": 1.0,
    "window": 1, "potentials": "joint", "trees": "shared", "init": "labels", "early_stopping": False,
    "random_state": 7, "n_jobs": 1,
}  # fmt: skip

FILLED = ("impute", "mean", "indicator")  # policies that replace missing values before trees see them

# Values of each dimension by the names that the table has for them. All pairs of two dimensions' values are covered.
DIMENSIONS: dict[str, dict[str, Any]] = {
    "n_labels": {"2": 2, "3": 3, "6": 6, "20": 20},
    "order": {"0": 0, "1": 1, "2": 2},
    "potentials": {"joint": "joint", "factored": "factored"},
    "trees": {"label": "per_label", "shared": "shared"},
    "columns": {"numeric": "numeric", "category": "category", "sparse": "sparse", "mixed": "mixed"},
    "holes": {"holes": True, "full": False},
    "missing": {
        "direction": "direction", "weighting": "instance_weighting", "surrogate": "surrogate",
        "impute": "impute", "mean": "impute_mean", "indicator": "indicator",
    },
    "sampling": {
        "all": None, "uniform": Uniform(0.5), "stratified": Stratified(0.8, 0.5), "trimmed": Trimmed(share=0.1),
        "goss": Goss(0.3, 0.2), "sequences": Sequences(0.6),
    },
    "n_bags": {"1": 1, "2": 2},
    "curvature": {"mixing": "mixing", "newton": "newton", "count": "count"},
    "window": {"0": 0, "1": 1, "2,0": (2, 0)},
    "max_bins": {"255": 255, "6": 6},
    "categorical_splits": {"subset": "subset", "single": "one_vs_rest"},
    "max_features": {"1.0": 1.0, "0.5": 0.5},
    "max_features_per_tree": {"1.0": 1.0, "0.6": 0.6},
    "max_depth": {"none": None, "2": 2},
    "l2_regularization": {"0": 0.0, "5": 5.0},
    "n_jobs": {"1": 1, "2": 2},
}  # fmt: skip
OF_DATA = ("n_labels", "columns", "holes")

# A model in each line, a dimension in each column, as in DIMENSIONS: 44 models cover all 1,192 pairs. Found by
# a greedy search over random lines; `uncovered` returns the pairs to add lines for, once a dimension or value is added.
TABLE = """
2  1 factored label  mixed    holes direction stratified 2 newton 0   6   single 0.5 1.0 2    0 2
2  2 factored label  category holes surrogate uniform    1 newton 1   6   single 0.5 1.0 none 0 2
2  0 factored label  numeric  holes impute    all        1 mixing 1   6   single 0.5 1.0 2    5 2
2  2 factored label  category holes mean      stratified 1 count  0   6   subset 1.0 1.0 none 0 2
2  2 factored label  mixed    holes indicator sequences  1 mixing 0   6   subset 0.5 1.0 none 0 2
2  1 factored label  sparse   full  direction uniform    1 count  0   255 single 0.5 1.0 none 5 2
2  2 factored shared mixed    holes direction trimmed    1 count  0   6   subset 1.0 0.6 2    0 1
2  1 joint    shared mixed    holes direction goss       2 count  0   255 single 1.0 0.6 2    0 1
2  1 joint    shared mixed    holes weighting sequences  2 count  2,0 255 subset 1.0 0.6 2    5 1
2  0 joint    shared sparse   full  impute    trimmed    2 count  2,0 6   subset 1.0 1.0 2    5 2
3  1 joint    label  category holes direction all        2 mixing 1   255 single 0.5 1.0 2    5 2
3  0 joint    label  numeric  holes weighting stratified 1 newton 1   255 single 0.5 1.0 none 0 2
3  2 joint    label  category holes surrogate stratified 1 mixing 2,0 6   subset 1.0 0.6 2    5 1
3  2 joint    label  numeric  holes indicator stratified 1 count  2,0 6   single 1.0 0.6 2    5 1
3  1 factored label  mixed    full  weighting goss       1 mixing 2,0 6   subset 0.5 1.0 2    5 2
3  1 joint    label  sparse   full  impute    all        2 mixing 0   6   single 0.5 1.0 none 5 2
3  2 factored shared mixed    holes impute    trimmed    2 mixing 0   255 subset 0.5 1.0 2    0 1
3  1 joint    shared mixed    holes mean      uniform    2 newton 1   255 single 1.0 0.6 2    5 1
3  1 factored shared numeric  full  indicator sequences  1 mixing 0   255 subset 1.0 1.0 2    0 1
6  1 factored label  mixed    holes direction sequences  2 newton 0   6   single 1.0 1.0 none 0 2
6  2 factored label  mixed    holes surrogate all        1 newton 0   255 subset 1.0 0.6 none 5 2
6  1 joint    label  numeric  holes surrogate trimmed    2 count  1   6   subset 1.0 0.6 none 5 1
6  1 factored label  numeric  full  surrogate all        1 newton 0   255 subset 0.5 0.6 2    5 2
6  1 factored label  sparse   full  impute    sequences  2 mixing 2,0 6   single 0.5 0.6 none 0 1
6  1 joint    label  mixed    full  mean      stratified 2 mixing 0   6   single 0.5 1.0 2    5 2
6  2 factored shared numeric  holes direction all        2 count  2,0 6   subset 0.5 1.0 2    5 1
6  2 factored shared numeric  holes weighting uniform    2 mixing 0   6   single 0.5 0.6 2    0 2
6  1 joint    shared category holes weighting goss       2 mixing 1   255 single 0.5 1.0 none 5 1
6  1 factored shared numeric  holes impute    sequences  2 newton 1   255 subset 0.5 1.0 2    5 2
6  0 joint    shared mixed    holes mean      all        1 count  0   6   single 1.0 1.0 none 5 1
6  0 joint    shared category holes indicator sequences  2 newton 1   255 single 0.5 0.6 none 5 2
6  2 factored shared sparse   full  weighting goss       1 newton 1   255 single 1.0 0.6 none 0 1
20 0 factored label  mixed    holes direction all        1 newton 1   6   subset 1.0 0.6 none 0 2
20 0 joint    label  category holes direction uniform    2 newton 0   6   single 0.5 1.0 2    5 1
20 0 factored label  mixed    holes weighting all        2 newton 2,0 255 subset 0.5 0.6 2    5 2
20 0 factored label  category holes surrogate sequences  1 count  0   6   single 0.5 1.0 none 5 1
20 1 joint    label  category holes impute    trimmed    1 count  2,0 255 single 1.0 0.6 none 0 2
20 1 factored label  numeric  holes mean      goss       1 mixing 2,0 6   single 0.5 1.0 none 5 2
20 0 factored label  sparse   full  direction stratified 2 newton 0   255 subset 0.5 0.6 none 0 1
20 1 factored shared category holes weighting trimmed    1 newton 2,0 6   single 1.0 1.0 2    5 1
20 0 factored shared category holes surrogate goss       2 mixing 0   6   subset 1.0 0.6 2    5 1
20 1 joint    shared mixed    holes indicator uniform    2 count  1   255 subset 0.5 0.6 none 0 1
20 1 factored shared category full  direction sequences  1 count  2,0 6   subset 1.0 1.0 none 0 2
20 0 factored shared mixed    full  impute    uniform    2 newton 2,0 255 subset 0.5 0.6 none 5 2
"""

# Other dimensions' values without which a dimension has no effect.
NEEDS: dict[str, dict[str, tuple[str, ...]]] = {
    "missing": {"holes": ("holes",), "columns": ("numeric", "category", "mixed")},
    "max_bins": {"columns": ("numeric", "mixed")},
    "categorical_splits": {"columns": ("category", "mixed")},
    "potentials": {"order": ("1", "2")},
}

# What cannot be combined: contexts would be too many, trees have no label of their own, an absent attribute is not
# missing.
ILLEGAL = (
    {"order": "2", "n_labels": "20"},
    {"sampling": "stratified", "trees": "shared"},
    {"columns": "sparse", "holes": "holes"},
)

Choice = dict[str, str]  # a value for each dimension, by name
Pair = frozenset[tuple[str, str]]


def choices() -> list[Choice]:
    """Return the lines of the table."""
    return [dict(zip(DIMENSIONS, line.split(), strict=True)) for line in TABLE.strip().splitlines()]


def covered(choice: Choice) -> Iterator[Pair]:
    """Yield the pairs that a model covers: those in which both values have an effect.

    A value that has no effect because of the other value of the pair counts (such as a policy for missing values, where
    no values are missing). Policies that replace missing values are one for samplers: trees do not see them.
    """
    lacks = {
        name: {other for other, values in NEEDS.get(name, {}).items() if choice[other] not in values} for name in choice
    }
    for first, second in itertools.combinations(choice, 2):
        if lacks[first] <= {second} and lacks[second] <= {first}:
            is_filled = (first, second) == ("missing", "sampling") and choice[first] in FILLED
            yield frozenset({(first, "filled" if is_filled else choice[first]), (second, choice[second])})


def uncovered() -> set[Pair]:
    """Return the pairs that could be covered, but are not covered by the table."""
    essential = ("holes", "columns", "order")
    wanted: set[Pair] = set()
    for first, second in itertools.combinations(DIMENSIONS, 2):
        names = dict.fromkeys((first, second, *essential))
        for values in itertools.product(*(DIMENSIONS[name] for name in names)):
            choice = dict(zip(names, values, strict=True))
            if not any(choice.items() >= illegal.items() for illegal in ILLEGAL):
                wanted.update(pair for pair in covered(choice) if {name for name, _ in pair} == {first, second})
    return wanted - {pair for choice in choices() for pair in covered(choice)}


def _case_of(choice: Choice) -> Case:
    """Return the model of a choice."""
    parts = [
        f"k{choice['n_labels']}", f"order{choice['order']}", choice["potentials"], choice["trees"], choice["columns"],
        choice["missing"] if choice["holes"] == "holes" else "full", choice["sampling"],
    ] + ["bags"] * (choice["n_bags"] == "2")  # fmt: skip
    name = "-".join(parts)
    values = {dimension: DIMENSIONS[dimension][value] for dimension, value in choice.items()}
    data = Data(**{dimension: values.pop(dimension) for dimension in OF_DATA}, seed=zlib.crc32(name.encode()))
    return Case(name, data, BASE | values)


def _further() -> Iterator[Case]:
    """Yield models of what is not a dimension, and of sizes above which kernels work in another way."""

    def case(name: str, data: Data, **parameters: Any) -> Case:
        return Case(name, data, BASE | parameters)

    # Above 32 labels a subset of the labels decides on splits.
    forty = {"potentials": "factored", "n_jobs": 2}
    yield case("k40-factored-shared-numeric", Data(40), **forty)
    yield case("k40-factored-shared-mixed-weighting-goss", Data(40, "mixed", True),
               **forty | {"missing": "instance_weighting", "sampling": Goss(0.3, 0.2)})  # fmt: skip
    yield case("k40-order0-shared-category-surrogate", Data(40, "category", True),
               **forty | {"missing": "surrogate", "order": 0})  # fmt: skip
    # Enough positions for several chunks and several threads; more leaves than a sample's router holds.
    large = {"max_iter": 4, "n_jobs": 2, "max_leaf_nodes": 31}
    yield case("large-joint-shared-numeric", Data(4, n_sequences=400, longest=100), **large)
    yield case("large-joint-label-mixed-weighting", Data(3, "mixed", True, n_sequences=300, longest=60),
               **large | {"trees": "per_label", "missing": "instance_weighting"})  # fmt: skip
    yield case("large-factored-shared-mixed-uniform-90leaves", Data(8, "mixed", True, n_sequences=300, longest=60),
               **large | {"potentials": "factored", "sampling": Uniform(0.4), "max_leaf_nodes": 90})  # fmt: skip
    # Hundreds of attributes, more than a screened line holds; more categories than codes.
    wide = {"window": (1, 0), "l2_regularization": 0.5}
    yield case("wide-joint-shared-sparse", Data(3, "sparse", n_sequences=200, n_words=700), **wide)
    yield case("wide-factored-label-category", Data(3, "category", n_sequences=200, n_words=700),
               **wide | {"trees": "per_label", "potentials": "factored"})  # fmt: skip
    # Starts, contexts, objectives, steps and the rest of the family.
    yield case("linear-joint-label-mixed", Data(3, "mixed", True), init="linear", trees="per_label")
    yield case("seen-order2-k20-factored", Data(20), contexts="seen", order=2, potentials="factored")
    policies = {"number": "surrogate", "letter": "instance_weighting", "word": "indicator"}
    yield case("policies-by-column-shared-mixed", Data(4, "mixed", True), missing=policies)
    yield case("balanced-bylabel-label-mixed", Data(4, "mixed"), trees="per_label",
               sampling=Stratified(1.0, 3.0, by_label=True, balanced=True))  # fmt: skip
    yield case("conjugate-linesearch-label-numeric", Data(3), trees="per_label", direction="conjugate",
               step="line_search", curvature="count")  # fmt: skip
    weights = np.linspace(0.5, 2.0, Data(3).n_sequences)
    yield Case("weights-beam-joint-shared-numeric", Data(3), BASE | {"beam": 3}, fit={"sample_weight": weights})
    local = {name: value for name, value in BASE.items() if name != "init"} | {"missing": "surrogate"}
    yield Case("memm-joint-shared-mixed-surrogate", Data(3, "mixed", True), local, MEMM)
    future = ("max_iter", "max_leaf_nodes", "min_samples_leaf", "learning_rate", "l2_regularization", "window",
              "random_state", "n_jobs")  # fmt: skip
    yield Case("future-features-numeric", Data(3), {name: BASE[name] for name in future} | {"max_patterns": 2},
               FutureFeatureMEMM)  # fmt: skip


@cache
def cases() -> dict[str, Case]:
    """Return all cases by name."""
    found: dict[str, Case] = {}
    for case in itertools.chain(map(_case_of, choices()), _further()):
        assert case.name not in found, f"two cases are named {case.name}"
        found[case.name] = case
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Digests
# ---------------------------------------------------------------------------------------------------------------------


def fitted(case: Case, n_jobs: int | None = None) -> Any:
    """Fit the model of a case, with another number of threads if one is given."""
    X, y = sequences(case.data)
    parameters = dict(case.parameters) | ({} if n_jobs is None else {"n_jobs": n_jobs})
    parameters = parameters if case.estimator is FutureFeatureMEMM else with_method(parameters)
    return case.estimator(**parameters).fit(X, y, **case.fit)


def digests(model: Any) -> dict[str, str]:
    """Return the digests of a fitted model: of its splits, and of all arrays that its file would hold."""
    arrays, _ = model._to_arrays()
    splits = {name: array for name, array in arrays.items() if name.rpartition(".")[2] in STRUCTURE}
    return {"structure": _digest(splits), "all": _digest(arrays)}


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the digest of names, types, shapes and bytes, in the order of names."""
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        sha.update(f"{name} {little.dtype.str} {array.shape}\n".encode())
        sha.update(little.tobytes())
    return sha.hexdigest()[:N_DIGITS]


@cache
def processor() -> str:
    """Return the name of what decides on a model's last bits: processor, numba and NumPy."""
    name, features = numba.config.CPU_NAME, numba.config.CPU_FEATURES  # what the environment sets, if anything
    if features is None:
        features = llvm.get_host_cpu_features().flatten()  # sorted
    code = hashlib.sha256(features.encode()).hexdigest()[:8]
    versions = (".".join(module.__version__.split(".")[:2]) for module in (numba, np))
    return "{}-{}-numba{}-numpy{}".format(name or llvm.get_host_cpu_name(), code, *versions)


def stored() -> dict[str, dict[str, dict[str, str]]]:
    """Return the stored digests by processor and case."""
    found: dict[str, dict[str, dict[str, str]]] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.digests", description="Digests of fitted models.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="compare with the stored digests")
    action.add_argument("--write", action="store_true", help="renew the stored digests of this processor")
    action.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="cases whose names match, such as 'k3-*'")
    parser.add_argument("--n-jobs", type=int, metavar="N", help="threads of every fit, instead of those of the case")
    parser.add_argument("--times", action="store_true", help="print the time of every case")
    options = parser.parse_args(arguments)
    chosen = {name: case for name, case in cases().items() if fnmatch(name, options.only)}
    if options.list:
        print(*chosen, sep="\n")
        return 0
    start, found = time.perf_counter(), {}
    for name, case in chosen.items():
        before = time.perf_counter()
        found[name] = digests(fitted(case, options.n_jobs))
        if options.times:
            print(f"{time.perf_counter() - before:7.2f} s  {name}", flush=True)
    print(f"{processor()}: {len(found)} models in {time.perf_counter() - start:.1f} s")
    return _write(found) if options.write else _check(found)


def _write(found: dict[str, dict[str, str]]) -> int:
    """Store digests; those of other processors, and of this one's other cases, are kept."""
    known = stored()
    mine = known.get(processor(), {}) | found
    known[processor()] = {name: mine[name] for name in cases() if name in mine}
    PATH.write_text(json.dumps(known, indent=1) + "\n")
    return 0


def _check(found: dict[str, dict[str, str]]) -> int:
    """Print the cases whose digests differ from those stored; return the exit code."""
    known = stored().get(processor())
    if known is None:
        print("no digests of this processor are stored; use --write with the sources that models are to be compared to")
        return 1
    failures = 0
    for name, digest in found.items():
        expected = known.get(name)
        if digest != expected:
            failures += 1
            same_splits = expected is not None and digest["structure"] == expected["structure"]
            problem = "same splits, other numbers" if same_splits else "other splits" if expected else "not stored"
            print(f"differs ({problem}): {name}")
    print(f"{failures} of {len(found)} models differ" if failures else f"all {len(found)} models are as stored")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
