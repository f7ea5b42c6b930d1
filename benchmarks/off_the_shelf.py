"""TreeCRF() as it comes, on every set: against the setting that cross-validation likes best, and against its peers.

python benchmarks/off_the_shelf.py [--only protein,stress] [--methods default,chosen,lightgbm,crfsuite]

``default`` is ``TreeCRF(random_state=0)``; it knows nothing of a set but its columns. ``chosen`` has, for each set, the
change to the defaults with the best accuracy in cross-validation on training sequences (``defaults.py`` writes them).
LightGBM gets windows and a chain of labels decoded by Viterbi or by posterior (the one that held-out sequences prefer),
CRFsuite indicators of a window, numbers cut at quantiles. Recordings are held out whole, and all folds are scored
together; p-values are McNemar's, which takes positions as independent, those of exchanging blocks of at most 100
positions, which does not, and for span F1 those of exchanging sentences. What a method predicts is kept (in
``SEQBOOST_CACHE``), so that methods can be run one at a time; ``--methods ""`` only writes the table.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import report
from data import LOADERS, Split, crfsuite_attributes, indicator_rows, load, synthetic_folder, word_attributes
from peers import Outcome, crfsuite, lightgbm_windows, span_f1, span_f1_test
from seqboost.evaluation import mcnemar, permutation_test

METHODS = ("default", "chosen", "lightgbm", "crfsuite")
ATTRIBUTES = {"conll2000": crfsuite_attributes, "ncbi_disease": word_attributes}
WINDOWS: dict[str, tuple[int, tuple[int, ...]]] = {  # of LightGBM, and those that CRFsuite chooses from
    "protein": (5, (3, 5)), "stress": (6, (3, 6)), "hyphen": (0, (0,)), "nettalk": (6, (3, 6)), "S1": (5, (3, 6)),
    "rfid_activity": (5, (2,)), "gesture_phase": (5, (2,)), "occupancy": (5, (2, 5)), "email_signature": (2, (2,)),
    "letters": (0, (0,)), "S2": (0, (0,)), "S3": (0, (0, 1)), "conll2000": (0, (0,)), "ncbi_disease": (0, (0,)),
}  # fmt: skip
FEW_ROUNDS = {"nettalk": 150, "S2": 60, "conll2000": 60, "ncbi_disease": 150, "letters": 150}
PENALTIES = {"S2": (0.1,), "S3": (1.0, 50.0), "nettalk": (0.1, 1.0), "conll2000": (0.3,), "ncbi_disease": (0.3,)}
"""On S2, conll2000 and ncbi_disease those that linear_start.py found; elsewhere the search takes many minutes."""

SPAN_SETS = tuple(ATTRIBUTES)


def prepared(name: str, split: Split) -> Split:
    """Return words as sparse indicators; all else stays as it is."""
    if name not in ATTRIBUTES:
        return split
    rows = indicator_rows(*([ATTRIBUTES[name](s) for s in X] for X in (split.X_train, split.X_test)))[:2]
    return split._replace(X_train=rows[0], X_test=rows[1])


def as_columns(name: str, split: Split) -> Split:
    """Return attributes of words as columns of categories, which LightGBM takes in minutes where indicators are hours.

    A column holds attributes of one kind, such as the words before; "" where there is none.
    """
    if name not in ATTRIBUTES:
        return split
    parts = [
        [[{attribute.partition("=")[0]: attribute for attribute in row} for row in ATTRIBUTES[name](s)] for s in X]
        for X in (split.X_train, split.X_test)
    ]
    kinds = sorted({kind for sentence in parts[0] for row in sentence for kind in row})
    X_train, X_test = ([[{k: row.get(k, "") for k in kinds} for row in s] for s in part] for part in parts)
    return split._replace(X_train=X_train, X_test=X_test)


def tree_crf(split: Split, settings: dict[str, Any]) -> Outcome:
    """Fit TreeCRF and predict."""
    from seqboost import TreeCRF

    start = time.perf_counter()
    model = TreeCRF(random_state=0, **settings).fit(split.X_train, split.y_train)
    fitted = time.perf_counter()
    labels = [np.asarray(p) for p in model.predict(split.X_test)]
    names = ("window", "potentials", "l2_regularization", "trees", "init")
    came_to = {name: getattr(model, f"{name}_") for name in names}
    came_to["rounds"] = model.best_iteration_
    return Outcome("", labels, fitted - start, time.perf_counter() - fitted, {**settings, **came_to})


def by_rules(split: Split) -> dict[str, Any]:
    """Return what "auto" comes to without tuning on held-out sequences, as in the cross-validation of defaults.py."""
    from seqboost.sequences import as_batch
    from seqboost.training.defaults import automatic_window
    from seqboost.training.memory import JOINT_LABELS

    n_labels = len(set(np.concatenate(split.y_train).tolist()))
    window = automatic_window("auto", as_batch(split.X_train))
    return {"window": window, "potentials": "joint" if n_labels <= JOINT_LABELS else "factored"}


def best_change(name: str) -> dict[str, Any]:
    """Return the change to the defaults that cross-validation prefers on a set."""
    from defaults import CHANGES

    path = report.RESULTS / "defaults.json"
    rows = [row for row in json.loads(path.read_text(encoding="utf-8"))["rows"] if row["set"] == name]
    if not rows:
        raise SystemExit(f"defaults.py has not been run on {name}")
    return CHANGES[max(rows, key=lambda row: row["accuracy %"])["change"]]


def run(method: str, name: str, split: Split) -> Outcome:
    """Run one method on one fold."""
    if method in ("default", "chosen"):
        split = prepared(name, split)
        return tree_crf(split, {**by_rules(split), **best_change(name)} if method == "chosen" else {})
    if method == "lightgbm":
        outcomes = lightgbm_windows(as_columns(name, split), WINDOWS[name][0], FEW_ROUNDS.get(name, 300))
        return max(outcomes[1:], key=lambda outcome: outcome.settings["held-out accuracy"])
    with tempfile.TemporaryDirectory() as folder:
        penalties = PENALTIES.get(name, (0.1, 1.0, 10.0, 50.0, 200.0))
        outcomes = crfsuite(prepared(name, split), WINDOWS[name][1], str(Path(folder) / "model"), penalties)
    return outcomes[0 if name in SPAN_SETS else 1]


def kept(method: str, name: str) -> Path:
    """Return where the predictions of a method are kept."""
    return synthetic_folder().parent / "off_the_shelf" / f"{name}.{method}.json"


def keep(method: str, name: str) -> None:
    """Run a method on all folds of a set and keep what it predicts."""
    outcomes = [run(method, name, split) for split in load(name)]
    document = {
        "labels": [labels.tolist() for outcome in outcomes for labels in outcome.labels],
        "fit s": round(sum(outcome.fit_seconds for outcome in outcomes), 1),
        "predict s": round(sum(outcome.predict_seconds for outcome in outcomes), 2),
        "settings": outcomes[0].settings,
    }
    path = kept(method, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")


def row_of(name: str, method: str, truth: list[np.ndarray], found: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the table."""
    labels = {m: [np.array(p) for p in document["labels"]] for m, document in found.items()}
    right = np.concatenate(labels[method]) == np.concatenate(truth)
    pair = (truth, labels["default"], labels[method])
    return {
        "set": name,
        "method": method,
        "accuracy %": round(100 * float(np.mean(right)), 2),
        "span F1 %": round(100 * span_f1(truth, labels[method]), 2) if name in SPAN_SETS else None,
        "p against default": None if method == "default" else mcnemar(*pair).pvalue,
        "p by blocks": None if method == "default" else permutation_test(*pair).pvalue,
        "p of F1": span_f1_test(*pair) if name in SPAN_SETS and method != "default" else None,
        "fit s": found[method]["fit s"],
        "predict s": found[method]["predict s"],
        "settings": found[method]["settings"],
    }


def main() -> None:
    """Run what is asked for, then write the table of all that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(LOADERS))
    parser.add_argument("--methods", default=",".join(METHODS))
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        for method in filter(None, arguments.methods.split(",")):
            keep(method, name)
        found = {m: json.loads(kept(m, name).read_text(encoding="utf-8")) for m in METHODS if kept(m, name).exists()}
        truth = [y for split in load(name) for y in split.y_test]
        rows = [row_of(name, method, truth, found) for method in found]
        for row in rows:
            print({key: value for key, value in row.items() if value is not None}, flush=True)
        report.write("off_the_shelf", rows, key=("set", "method"), note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
