"""Output coding against whole label sets: the experiments of Hao (2009), chapter 5, and what they could not run.

python benchmarks/output_coding.py [--only transition,both,nettalk,conll2000] [--bases GTB,VP] [--figure]

iid, i-SECOC and c-SECOC(h) with boosted trees (GTB: TreeCRF without a linear start, 60 rounds at learning rate 0.5, 15
leaves) and the averaged perceptron (VP: 10 passes) as bases, random codes, L1 decoding; beside them beam search and
exact training on all labels at once. Window 1 is the position alone, window 3 one more on each side. The first bits of
a code are a code: one training gives the accuracies of all its lengths (but the first ten bits of forty may have the
same word for several labels, which a code that is drawn with ten has not). Seconds are CPU seconds of training. Rows
that are there are kept, so a run can be interrupted; delete them to measure again.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from typing import Any

import numpy as np

import report
from data import Split, load
from reproduction import tasks
from seqboost import Method, OutputCoding, TreeCRF, VotedPerceptron
from seqboost.datasets import make_hmm
from seqboost.estimators.family import codes
from seqboost.estimators.family.bits import plain_batch
from seqboost.estimators.family.outputcoding import _probabilities

KEY = ("set", "window", "base", "method", "bits")
GTB: dict[str, Any] = {
    "max_iter": 60, "learning_rate": 0.5, "max_leaf_nodes": 15, "early_stopping": False, "init": "labels"
}  # fmt: skip
DEFAULTS = {**{name: TreeCRF().get_params()[name] for name in GTB}, "learning_rate": 0.25}
BITS = {"transition": 80, "both": 80, "nettalk": 200, "conll2000": 40}
LENGTHS = (10, 20, 40, 80, 120, 160, 200)
HISTORIES: dict[str, tuple[Any, ...]] = {
    "transition": (0, 1, 5, 20, "all"),
    "both": (0, 1, 5, 20, "all"),
    "nettalk": (0, 1, 5, 20, "all"),
    "conll2000": (0, 1),
}
BEAMS = (5, 20)


@functools.cache
def split_of(name: str) -> Split:
    """Return training and test sequences."""
    if name in ("transition", "both"):
        X, y = make_hmm(name, n_sequences=600, length=20, random_state=0)
        return Split(X[:400], y[:400], X[400:], y[400:])
    if name == "conll2000":  # words alone; tags and noun phrases together are the 121 labels
        return tasks.load("noun phrases")
    return load(name)[0]


def base_of(kind: str, window: int, **changes: Any) -> Any:
    """Return the labeller of one bit, or of all labels."""
    side = (window - 1) // 2
    if kind == "GTB":
        return TreeCRF(**{**GTB, "window": side, "random_state": 0, **changes})
    return VotedPerceptron(window=side, random_state=0, decoding="posterior", **changes)


def done(name: str) -> set[tuple[Any, ...]]:
    """Return the rows that there are."""
    path = report.RESULTS / f"{name}.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    return {tuple(row.get(column) for column in KEY) for row in rows}


def save(rows: list[dict[str, Any]]) -> None:
    """Add rows to the results."""
    for row in rows:
        print(row, flush=True)
    report.write("output_coding", rows, note=(__doc__ or "").splitlines()[0], key=KEY)


def coded(name: str, window: int, kind: str, method: str, history: Any, jobs: int) -> None:
    """Train a code of full length, and write accuracies of its lengths."""
    key = {"set": name, "window": window, "base": kind, "method": method}
    lengths = [n for n in LENGTHS if n <= BITS[name]]
    if all((*key.values(), n) in done("output_coding") for n in lengths):
        return
    split = split_of(name)
    base = base_of(kind, window, order=0) if method == "iid" else base_of(kind, window)
    model = OutputCoding(base, n_bits=BITS[name], cascade=history, random_state=0, n_jobs=jobs)
    began = time.process_time()
    model.fit(split.X_train, split.y_train)
    seconds = time.process_time() - began
    batch = plain_batch(model._batch(split.X_test))
    bits = _probabilities(model.estimators_, batch, model.cascade_, model._offsets, jobs)
    truth = np.concatenate([np.asarray(labels) for labels in split.y_test])
    rows = []
    for n in lengths:
        guess = model.classes_[codes.distances(bits[:, :n], model.code_[:, :n]).argmin(axis=1)]
        cost = {"train CPU s": round(seconds * n / BITS[name], 1)}
        rows.append({**key, "bits": n, **accuracies(guess == truth, batch.offsets), **cost})
    save(rows)


def accuracies(right: np.ndarray, offsets: np.ndarray) -> dict[str, float]:
    """Return shares of right labels and of sequences without error."""
    whole = np.logical_and.reduceat(right, offsets[:-1])
    return {"labels %": round(100 * float(right.mean()), 2), "sequences %": round(100 * float(whole.mean()), 2)}


def whole(name: str, window: int, kind: str, method: str, **changes: Any) -> None:
    """Train on all labels at once."""
    key = {"set": name, "window": window, "base": kind, "method": method}
    if (*key.values(), None) in done("output_coding"):
        return
    split = split_of(name)
    model = base_of(kind, window, **changes)
    began = time.process_time()
    model.fit(split.X_train, split.y_train)
    seconds = time.process_time() - began
    parts = [np.asarray(p) == y for p, y in zip(model.predict(split.X_test), split.y_test, strict=True)]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    row = {**key, "bits": None, **accuracies(np.concatenate(parts), offsets), "train CPU s": round(seconds, 1)}
    save([row])


def run(name: str, window: int, kind: str, jobs: int) -> None:
    """Run all methods of a set, window and base; last what takes longest with many labels and positions."""
    coded(name, window, kind, "iid", 0, jobs)
    for history in HISTORIES[name]:
        coded(name, window, kind, "i-SECOC" if history == 0 else f"c-SECOC({history})", history, jobs)
    for beam in BEAMS if name in ("nettalk", "conll2000") else ():
        whole(
            name,
            window,
            kind,
            f"beam {beam}",
            **({"method": Method(beam=beam)} if kind == "GTB" else {"beam": beam}),
            n_jobs=jobs,
        )
    whole(name, window, kind, "exact", n_jobs=jobs)
    if kind == "GTB" and name != "conll2000":
        whole(name, window, kind, "exact, TreeCRF()", **DEFAULTS, n_jobs=jobs)


def figure() -> None:
    """Draw accuracy against code length, a panel for each set and window, as in figures 5.1, 5.2 and 5.6."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = json.loads((report.RESULTS / "output_coding.json").read_text(encoding="utf-8"))["rows"]
    panels = sorted({(row["set"], row["window"], row["base"]) for row in rows if (row["bits"] or 0) > LENGTHS[0]})
    n_columns = min(3, len(panels))
    n_rows = -(-len(panels) // n_columns)
    drawing, axes = plt.subplots(n_rows, n_columns, figsize=(5 * n_columns, 3.6 * n_rows), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, panel in zip(axes.flat, panels, strict=False):
        own = [row for row in rows if (row["set"], row["window"], row["base"]) == panel]
        for method in dict.fromkeys(row["method"] for row in own):
            points = sorted((row["bits"], row["labels %"]) for row in own if row["method"] == method and row["bits"])
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=method)
            for row in own:
                if row["method"] == method and row["bits"] is None:
                    axis.axhline(row["labels %"], linestyle=":", color="grey")
                    axis.annotate(method, (0, row["labels %"]), fontsize=7)
        axis.set(title=f"{panel[0]}, window {panel[1]}, {panel[2]}", xlabel="bits", ylabel="labels right, %")
        axis.legend(fontsize=7)
    drawing.tight_layout()
    drawing.savefig(report.RESULTS / "output_coding.png", dpi=120)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="transition,both,nettalk,conll2000")
    parser.add_argument("--bases", default="GTB,VP")
    parser.add_argument("--windows", default="1,3")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--figure", action="store_true", help="draw what there is, and measure nothing")
    arguments = parser.parse_args()
    if not arguments.figure:
        for name in arguments.only.split(","):
            for kind in arguments.bases.split(","):
                for window in map(int, arguments.windows.split(",")):
                    run(name, window, kind, arguments.jobs)
    figure()


if __name__ == "__main__":
    main()
