"""Future features: sliding windows, MEMM, CRF and FutureFeatureMEMM where later positions decide.

python benchmarks/future.py [--only synthetic,bags,binary,stress,columns,words] [--orders 1,2,3,4]

``synthetic``: the sets XOR, OR and EXTRA of section 5.4.1 of Hao (2009), 400 sequences for training, 200 for
validation, 100 for testing; beside its Table 5.4. ``bags``: how well the patterns themselves are found (Table 5.3).
``binary``: NETtalk stress as two labels, window of one letter, beside its Table 5.5; a fifth of the training words is
held out, for all methods. ``stress``: the same with all five labels. ``columns``: TreeCRF of order 1 with and without
``FutureFeatures``. ``words``: words that begin alike and are stressed otherwise. Every model has its defaults; only
order, window and bag size differ.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import report
from data import data_folder, load
from seqboost import FutureFeatureMEMM, FutureFeatures, TreeCRF
from seqboost.datasets import make_future_bits

KINDS = ("xor", "or", "extra")
SOURCE_SYNTHETIC = {
    "SW": (51.6, 67.5, 84.4), "MEMM-1": (50.7, 66.5, 84.9), "CRF-1": (56.0, 76.6, 87.1), "CRF-2": (57.3, 85.9, 90.2),
    "CRF-3": (57.6, 91.1, 92.5), "CRF-4": (58.4, 93.9, 92.9), "FF-MEMM-0": (100.0, 100.0, 100.0),
}  # fmt: skip
SOURCE_BINARY = {
    "SW": 84.2, "MEMM-1": 85.7, "MEMM-2": 87.1, "MEMM-3": 88.9, "MEMM-4": 89.0, "CRF-1": 85.7, "CRF-2": 90.4,
    "CRF-3": 91.8, "CRF-4": 91.4, "FF-MEMM-1, bag 2": 89.4, "FF-MEMM-2, bag 2": 90.4, "FF-MEMM-3, bag 2": 90.6,
    "FF-MEMM-4, bag 2": 90.3, "FF-MEMM-1, bag 4": 88.9, "FF-MEMM-2, bag 4": 89.6, "FF-MEMM-3, bag 4": 90.5,
    "FF-MEMM-4, bag 4": 89.2,
}  # fmt: skip
PARTS = ("synthetic", "bags", "binary", "stress", "columns", "words")
STEMS = ("photograph", "telegraph", "democra", "analog", "econom", "academ", "origin", "medicin", "substan", "solid")
SHOWN = ("photograph", "photography", "telegraph", "telegraphy", "democrat", "democracy", "economy", "economic",
         "academy", "academic", "origin", "original", "solid", "solidity")  # fmt: skip


def memm(order: int, bag_size: int | None = None, *, endless: bool = False, **settings: Any) -> FutureFeatureMEMM:
    """Return an MEMM; with a bag size, or with bags that go on to the end, one that looks for patterns."""
    if bag_size is None and not endless:
        settings["max_patterns"] = 0
    return FutureFeatureMEMM(order, bag_size=bag_size, random_state=0, **settings)


def crf(order: int) -> TreeCRF:
    """Return a chain of this order that sees one position."""
    return TreeCRF(order=order, window=0, potentials="joint", random_state=0, refit=False, validation_fraction=0.2)


def write(part: str, rows: list[dict[str, Any]], key: tuple[str, ...]) -> None:
    """Write the table of one part."""
    command = f"python benchmarks/future.py --only {part}"
    report.write(f"future_{part}", rows, key=key, note=(__doc__ or "").splitlines()[0], command=command)


def synthetic() -> None:
    """Print and write the table of the three sets."""
    methods = {"SW": memm(0), "MEMM-1": memm(1), **{f"CRF-{k}": crf(k) for k in range(1, 5)}, "FF-MEMM-0": memm(0, 6)}
    rows = []
    for method, model in methods.items():
        row: dict[str, Any] = {"method": method}
        for i, kind in enumerate(KINDS):
            training, held_out, test = (
                make_future_bits(kind, n, random_state=seed) for seed, n in enumerate((400, 200, 100))
            )
            start = time.perf_counter()
            model.fit(training.X, training.y, X_val=held_out.X, y_val=held_out.y)
            row[f"{kind} fit s"] = round(time.perf_counter() - start, 1)
            row[f"{kind} %"] = round(100 * model.score(test.X, test.y), 2)
            row[f"{kind} %, source"] = SOURCE_SYNTHETIC[method][i]
        print(row, flush=True)
        rows.append(row)
    write("synthetic", rows, ("method",))


def bags() -> None:
    """Print and write how well patterns, and bags that hold them, are recognised."""
    rows = []
    for kind in KINDS:
        parts = [make_future_bits(kind, n, random_state=seed) for seed, n in enumerate((400, 200, 100))]
        for start in (0.0, -1.0, -3.0, -5.0, -7.0, -10.0):
            model = memm(0, 6, pattern_start=start).fit(parts[0].X, parts[0].y, X_val=parts[1].X, y_val=parts[1].y)
            row: dict[str, Any] = {"set": kind, "G_0": start, "patterns": len(model.patterns_)}
            for name, part in zip(("train", "val", "test"), parts, strict=True):
                row[f"labels %, {name}"] = round(100 * model.score(part.X, part.y), 2)
            for name, part in zip(("train", "val", "test"), parts, strict=True):
                for what, found, field in (
                    ("instances", model.pattern_probabilities, "rare"), ("bags", model.future_features, "bags"),
                ):  # fmt: skip
                    row[f"{what} %, {name}"] = _recognised(found, field, parts[0], part)
            print(row, flush=True)
            rows.append(row)
    write("bags", rows, ("set", "G_0"))


def _recognised(probabilities: Any, field: str, training: Any, part: Any) -> float | None:
    """Return the share of positions that the first pattern tells right, cut where it is best in training."""
    fitted = probabilities(training.X)
    if fitted[0].shape[1] == 0:
        return None
    score, right = np.concatenate(fitted)[:, 0], np.concatenate(getattr(training, field))
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(right[order]) + (~right).sum() - np.cumsum(~right[order])
    cut = score[order][int(np.argmax(hits))]
    found = np.concatenate(probabilities(part.X))[:, 0] >= cut
    return round(100 * float(np.mean(found == np.concatenate(getattr(part, field)))), 2)


def _nettalk(binary: bool) -> tuple[Any, Any, Any, Any]:
    split = load("stress")[0]
    if not binary:
        return split.X_train, split.y_train, split.X_test, split.y_test
    y_train, y_test = ([np.isin(y, ["1", "2"]).astype(int) for y in part] for part in (split.y_train, split.y_test))
    return split.X_train, y_train, split.X_test, y_test


def _row(method: str, model: Any, data: tuple[Any, Any, Any, Any], source: dict[str, float]) -> dict[str, Any]:
    X, y, X_test, y_test = data
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    row = {"method": method, "accuracy %": round(100 * model.score(X_test, y_test), 2)}
    if source:
        row["source %"] = source.get(method)
    if isinstance(model, FutureFeatureMEMM):
        row |= {"patterns": len(model.patterns_), "held-out log-likelihood": model.history_["validation_score"][-1]}
    row["fit s"] = round(seconds, 1)
    print(row, flush=True)
    return row


def binary(orders: list[int]) -> None:
    """Print and write the table of NETtalk stress with two labels."""
    data = _nettalk(binary=True)
    methods: dict[str, Any] = {"SW": memm(0)}
    for k in orders:
        methods |= {f"MEMM-{k}": memm(k), f"CRF-{k}": crf(k)}
        methods |= {f"FF-MEMM-{k}, bag {u}": memm(k, u) for u in (2, 4)}
    rows = [_row(method, model, data, SOURCE_BINARY) for method, model in methods.items()]
    write("binary", rows, ("method",))


def stress(orders: list[int]) -> None:
    """Print and write the table of NETtalk stress with five labels."""
    data = _nettalk(binary=False)
    methods: dict[str, Any] = {"SW": memm(0), "FF-MEMM-0, bag 4": memm(0, 4)}
    for k in orders:
        if k > 2:
            continue
        methods |= {f"MEMM-{k}": memm(k), f"CRF-{k}": crf(k)}
        for u in (2, 4):
            methods |= {f"FF-MEMM-{k}, bag {u}": memm(k, u)}
            methods |= {f"FF-MEMM-{k}, bag {u}, shared patterns": memm(k, u, patterns="shared")}
    rows = [_row(method, model, data, {}) for method, model in methods.items()]
    write("stress", rows, ("method",))


def columns() -> None:
    """Print and write what a chain of order 1 gains by the patterns."""
    rows = []
    bits = [make_future_bits("xor", n, random_state=seed) for seed, n in ((0, 600), (2, 100))]
    sets = {
        "xor": ((bits[0].X, bits[0].y, bits[1].X, bits[1].y), 6),
        "NETtalk stress, 2 labels": (_nettalk(binary=True), 4),
        "NETtalk stress": (_nettalk(binary=False), 4),
    }
    for name, (data, bag_size) in sets.items():
        X, y, X_test, y_test = data
        finder = FutureFeatures(memm(1 if name != "xor" else 0, bag_size)).fit(X, y)
        for with_columns in (False, True):
            train, test = (finder.transform(X), finder.transform(X_test)) if with_columns else (X, X_test)
            row = {
                "set": name,
                "FutureFeatures": "with" if with_columns else "without",
                "TreeCRF-1 %": round(100 * crf(1).fit(train, y).score(test, y_test), 2),
                "columns": len(finder.names_) if with_columns else 0,
            }
            print(row, flush=True)
            rows.append(row)
    write("columns", rows, ("set", "FutureFeatures"))


def words() -> None:
    """Print and write the stress of words that begin alike and are stressed otherwise; none of their kin is trained on.

    Both models see a letter with two neighbours and the label before; one of them finds patterns in all later letters.
    """
    lines = (data_folder() / "nettalk" / "nettalk.data").read_text(encoding="latin-1").splitlines()[10:]
    table = {word: stress for word, _, stress, *_ in (line.split("\t") for line in lines if line.count("\t") >= 3)}
    table = {word: stress for word, stress in table.items() if len(word) == len(stress)}
    kin = {word for word in table if word.startswith(STEMS)}
    chosen = np.random.default_rng(0).permutation(sorted(set(table) - kin)).tolist()
    X, y = chosen, [list(table[word]) for word in chosen]
    models = {"MEMM-1": memm(1, window=2), "FF-MEMM-1": memm(1, window=2, endless=True, patterns="shared")}
    for model in models.values():
        model.fit(X, y)
    names = [word for word in SHOWN if word in table]
    rows = [
        {"word": word, "truth": table[word]}
        | {name: "".join(model.predict([word])[0]) for name, model in models.items()}
        for word in names
    ]
    every = sorted(kin)
    truth = [list(table[word]) for word in every]
    rows.append(
        {"word": f"letters right in {len(every)} words of these families, %", "truth": ""}
        | {name: round(100 * model.score(every, truth), 2) for name, model in models.items()}
    )
    for row in rows:
        print(row, flush=True)
    write("words", rows, ())


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--orders", default="1,2,3,4")
    arguments = parser.parse_args()
    orders = [int(k) for k in arguments.orders.split(",")]
    runs = {
        "synthetic": synthetic, "bags": bags, "binary": lambda: binary(orders), "stress": lambda: stress(orders),
        "columns": columns, "words": words,
    }  # fmt: skip
    for part in arguments.only.split(","):
        runs[part]()


if __name__ == "__main__":
    main()
