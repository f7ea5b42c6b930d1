"""Missing values: the policies compared by the protocol of Hao (2009, chapter 4).

python benchmarks/missing.py [--only protein,stress,hyphen,rfid_activity] [--policies direction,impute] [--trees shared]
                             [--quick]
python benchmarks/missing.py --time [--only protein,gesture_phase] [--policies direction]

Values are removed completely at random, whole variables at a time (a letter, an amino acid, a sensor's number), at
rates of 5, 10, 20 and 40 %: five damaged training sets and five damaged test sets for each rate. A model is trained on
each of the former, with a tree per label in each round, and labels each of the latter by its posterior: 25 evaluations.
Settings and number of rounds are chosen for each policy and rate by the log-likelihood of a third of the sequences,
held out of the first damaged training set; the final models see all of it. Then an analysis of deviance: a logistic
model of correctness on policy and training set, which takes all labels of all evaluations as independent, as the source
does.

On rfid_activity the five folds take the place of the five training sets, at 20 and 40 %, with settings left alone;
beside them LightGBM, which sends missing values to a learned side, with Viterbi smoothing.

Every fit is kept in the folder named by --cache, so that a run can be interrupted and taken up again; results are
written from all that is there. --time measures the time per round against complete data instead, in processor time of
one thread.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit

import report
from accuracy import similar
from data import Split, load, synthetic_folder
from measure import use_one_thread
from peers import lightgbm_windows
from seqboost import TreeCRF
from seqboost.datasets import remove_values
from seqboost.evaluation import DevianceAnalysis, deviance_analysis

POLICIES = ("instance_weighting", "surrogate", "impute", "indicator", "direction")
BASELINE = "instance_weighting"
PEER = "LightGBM + Viterbi"
RATES = {"protein": (5, 10, 20, 40), "stress": (5, 10, 20, 40), "hyphen": (5, 10, 20, 40), "rfid_activity": (20, 40)}
WINDOWS = {"protein": 5, "stress": 6, "hyphen": 0, "rfid_activity": 5, "gesture_phase": 2}
TIMED = ("protein", "stress", "hyphen", "rfid_activity", "gesture_phase")
GRID: tuple[dict[str, Any], ...] = ({}, {"max_leaf_nodes": 15, "l2_regularization": 50.0})
N_SETS = 5
MAX_ITER = 150
COMMON: dict[str, Any] = {"learning_rate": 0.5, "n_iter_no_change": 10, "random_state": 0}
RFID = {"max_iter": 80, "refit": False}
SLOTS = ("left3", "left2", "left1", "right1", "right2", "right3")  # of a gap of hyphen


# ------------------------------------------------------------------------------------------------------------- damage


@functools.cache
def folds(name: str) -> list[Split]:
    """Load a set once."""
    return load(name)


def damaged(name: str, X: list[Any], rate: int, seed: int) -> list[Any]:
    """Remove values; letters of hyphen's words from all gaps that see them, but never the blanks beyond their ends."""
    if name != "hyphen":
        return remove_values(X, rate / 100, random_state=seed)
    words = [[gap["left1"] for gap in gaps] + [gaps[-1]["right1"]] for gaps in X]
    holes = remove_values(words, rate / 100, random_state=seed)
    return [_gaps(word, kept) for word, kept in zip(words, holes, strict=True)]


def _gaps(word: list[str], kept: list[str | None]) -> list[dict[str, str | None]]:
    """Write a word as gaps between its letters, each with three letters on either side."""
    padded = [" ", " ", *kept, " ", " "]
    return [dict(zip(SLOTS, padded[t : t + 6], strict=True)) for t in range(len(word) - 1)]


def check_gaps(X: list[Any]) -> None:
    """Make sure that gaps written anew are those of the data."""
    for gaps in X:
        word = [gap["left1"] for gap in gaps] + [gaps[-1]["right1"]]
        if _gaps(word, list(word)) != gaps:
            raise ValueError("hyphen: the gaps of a word do not follow each other")


# --------------------------------------------------------------------------------------------------------------- fits


class Cache:
    """One JSON file for each fit."""

    def __init__(self, folder: Path, trees: str, *, quick: bool) -> None:
        self.folder = folder / f"{trees}{'-quick' if quick else ''}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, *parts: Any) -> Path:
        """Return the file of a fit."""
        return self.folder / ("-".join(str(part).replace(" ", "_") for part in parts) + ".json")

    def get(self, *parts: Any) -> Any:
        """Return what was kept, or None."""
        path = self.path(*parts)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def put(self, value: Any, *parts: Any) -> Any:
        """Keep something; a run that is interrupted leaves no half of it."""
        path = self.path(*parts)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(value, indent=1), encoding="utf-8")
        fresh.replace(path)
        return value


def model_of(name: str, policy: str, **settings: Any) -> TreeCRF:
    """Make an unfitted model."""
    return TreeCRF(window=WINDOWS[name], missing=policy, **{**COMMON, **settings})


def chosen(name: str, policy: str, rate: int, cache: Cache, n_rounds: int) -> dict[str, Any]:
    """Choose settings and rounds by a third of the first damaged training set, held out."""
    found = cache.get(name, policy, rate, "settings")
    if found is not None:
        return found["settings"]
    split = folds(name)[0]
    X, y = damaged(name, split.X_train, rate, seed=0), split.y_train
    groups = similar(split.X_train) if name == "protein" else list(range(len(X)))
    fitted, held = next(GroupShuffleSplit(1, test_size=1 / 3, random_state=0).split(X, groups=groups))
    trials = []
    for settings in GRID:
        model = model_of(name, policy, max_iter=n_rounds, **settings)
        model.fit(
            [X[i] for i in fitted], [y[i] for i in fitted], X_val=[X[i] for i in held], y_val=[y[i] for i in held]
        )
        best_iteration = model.best_iteration_
        accuracy = model.history_["validation_accuracy"][best_iteration]
        settings = {**settings, "max_iter": max(1, best_iteration)}
        trials.append({"log-likelihood": model.best_score_, "accuracy": accuracy, "settings": settings})
    best = max(trials, key=lambda trial: trial["log-likelihood"])
    return cache.put({**best, "trials": trials}, name, policy, rate, "settings")["settings"]


def chapter_fit(name: str, policy: str, rate: int, number: int, cache: Cache, *, quick: bool) -> None:
    """Train on one damaged training set, and count right labels on each damaged test set."""
    if cache.get(name, policy, rate, number) is not None:
        return
    split = folds(name)[0]
    settings = chosen(name, policy, rate, cache, 20 if quick else MAX_ITER)
    model = model_of(name, policy, early_stopping=False, **settings)
    start = time.perf_counter()
    model.fit(damaged(name, split.X_train, rate, seed=number), split.y_train)
    seconds = time.perf_counter() - start
    tests = [damaged(name, split.X_test, rate, seed=100 + i) for i in range(N_SETS)]
    truth = np.concatenate(split.y_test)
    right = [int(np.sum(np.concatenate(model.predict(X)) == truth)) for X in tests]
    _keep(cache, (name, policy, rate, number), right, len(truth), seconds, settings)


def rfid_fit(policy: str, rate: int, number: int, cache: Cache, *, quick: bool) -> None:
    """Train on one fold with values removed, and count right labels on its damaged test trials."""
    name = "rfid_activity"
    if cache.get(name, policy, rate, number) is not None:
        return
    split = folds(name)[number]
    X_train = damaged(name, split.X_train, rate, seed=number)
    X_test = [x for i in range(N_SETS) for x in damaged(name, split.X_test, rate, seed=100 * (number + 1) + i)]
    settings = {**RFID, "max_iter": 5} if quick else RFID
    start = time.perf_counter()
    if policy == PEER:
        _, smoothed, _ = lightgbm_windows(
            Split(X_train, split.y_train, X_test, split.y_test * N_SETS), WINDOWS[name], 20 if quick else 200
        )
        predicted, settings = smoothed.labels, smoothed.settings
        seconds = time.perf_counter() - start
    else:
        model = model_of(name, policy, **settings).fit(X_train, split.y_train)
        seconds = time.perf_counter() - start
        predicted = model.predict(X_test)
    truth = np.concatenate(split.y_test)
    versions = np.concatenate(predicted).reshape(N_SETS, len(truth))
    _keep(cache, (name, policy, rate, number), (versions == truth).sum(axis=1).tolist(), len(truth), seconds, settings)


def _keep(
    cache: Cache, key: tuple[Any, ...], right: list[int], n: int, seconds: float, settings: dict[str, Any]
) -> None:
    accuracy = 100 * sum(right) / (n * len(right))
    print(f"{' '.join(map(str, key)):45} {accuracy:6.2f} %  {seconds:6.1f} s  {settings}", flush=True)
    cache.put({"right": right, "n": n, "seconds": seconds, "settings": settings}, *key)


# ------------------------------------------------------------------------------------------------------------ results


def collect(cache: Cache) -> dict[tuple[str, int], dict[str, list[dict[str, Any]]]]:
    """Read all fits whose five training sets are complete, by set and rate, then by policy."""
    found: dict[tuple[str, int], dict[str, list[dict[str, Any]]]] = {}
    for name, rates in RATES.items():
        for rate in rates:
            for policy in (*POLICIES, PEER):
                fits = [cache.get(name, policy, rate, number) for number in range(N_SETS)]
                if all(fit is not None for fit in fits):
                    found.setdefault((name, rate), {})[policy] = fits
    return found


def analysis(by_policy: dict[str, list[dict[str, Any]]]) -> DevianceAnalysis | None:
    """Analyse the deviance of all evaluations of a set at a rate."""
    if len(by_policy) < 2:
        return None
    right, method, training_set, n = [], [], [], []
    for policy, fits in by_policy.items():
        for number, fit in enumerate(fits):
            for count in fit["right"]:
                right.append(count)
                method.append(policy)
                training_set.append(number)
                n.append(fit["n"])
    baseline = BASELINE if BASELINE in by_policy else next(iter(by_policy))
    return deviance_analysis(right, method, training_set, n=n, baseline=baseline)


def accuracies(fits: Sequence[dict[str, Any]]) -> np.ndarray:
    """Accuracies in %, (n_training_sets, n_test_sets)."""
    return np.array([[100 * right / fit["n"] for right in fit["right"]] for fit in fits])


def write(cache: Cache, name: str) -> None:
    """Write rows, tables in the form of Table 4.1, and the figure, from all fits there are."""
    found = collect(cache)
    rows, tables = [], []
    for (set_name, rate), by_policy in found.items():
        analysed = analysis(by_policy)
        methods = {} if analysed is None else {c.name: c for c in analysed.methods}
        for policy, fits in by_policy.items():
            each = accuracies(fits)
            coefficient = methods.get(policy)
            rows.append(
                {
                    "set": set_name, "rate %": rate, "policy": policy, "accuracy %": round(float(each.mean()), 2),
                    "sd of training sets": round(float(each.mean(axis=1).std(ddof=1)), 2),
                    "log odds": None if coefficient is None else round(coefficient.value, 4),
                    "error": None if coefficient is None else round(coefficient.standard_error, 4),
                    "p": None if coefficient is None else float(f"{coefficient.pvalue:.3g}"),
                    "settings": fits[0]["settings"],
                }
            )  # fmt: skip
        if analysed is not None:
            tables.append((set_name, rate, analysed))
    draw(found, name)
    note = f"{_note()}\n\n{_tables(tables)}\n\n![Accuracy of the policies by rate of missing values]({name}.png)"
    report.write(name, rows, note=note, key=("set", "rate %", "policy"))


def _note() -> str:
    return " ".join((__doc__ or "").split("\n\n")[2].split())


def _tables(analyses: list[tuple[str, int, DevianceAnalysis]]) -> str:
    """Write coefficients in the form of Table 4.1, and what policies take off the deviance."""
    text = []
    for name in dict.fromkeys(name for name, _, _ in analyses):
        of_set = [(rate, found) for other, rate, found in analyses if other == name]
        columns = list(dict.fromkeys(c.name for _, found in of_set for c in found.methods))
        lines = [
            f"**{name}**: change in the log odds of a right label from {of_set[0][1].baseline}; \\* p < 0.05, "
            f"\\*\\* p < 0.01, \\*\\*\\* p < 0.001. Deviance: what policies take off it.",
            "",
            "| missing rate | " + " | ".join(columns) + " | deviance | df | p |",
            "|" + " --- |" * (len(columns) + 4),
        ]
        for rate, found in of_set:
            by_name = {c.name: str(c).replace("*", r"\*") for c in found.methods}
            term = found.terms[1]
            cells = [f"{rate} %", *(by_name.get(c, "") for c in columns)]
            cells += [f"{term.deviance:.1f}", str(term.degrees), f"{term.pvalue:.2g}"]
            lines.append("| " + " | ".join(cells) + " |")
        text.append("\n".join(lines))
    return "\n\n".join(text)


def draw(found: dict[tuple[str, int], dict[str, list[dict[str, Any]]]], name: str) -> None:
    """Draw accuracy against the rate of missing values, a panel for each set, as in Figure 4.1."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    sets = list(dict.fromkeys(set_name for set_name, _ in found))
    if not sets:
        return
    figure, axes = plt.subplots(1, len(sets), figsize=(4.2 * len(sets), 3.8), layout="constrained", squeeze=False)
    for axis, set_name in zip(axes[0], sets, strict=True):
        for marker, policy in zip("osv^Dx", (*POLICIES, PEER), strict=True):
            points = [
                (rate, accuracies(by_policy[policy]).mean())
                for (other, rate), by_policy in found.items()
                if other == set_name and policy in by_policy
            ]
            if points:
                axis.plot(*zip(*points, strict=True), marker=marker, label=policy.replace("_", " "), alpha=0.85)
        axis.set_title(set_name)
        axis.set_xlabel("missing rate %")
        axis.set_ylabel("labels right %")
        axis.grid(alpha=0.3)
    axes[0][-1].legend(fontsize=8)
    figure.savefig(report.RESULTS / f"{name}.png", dpi=110)
    plt.close(figure)


# --------------------------------------------------------------------------------------------------------------- time


def round_seconds(model: TreeCRF, X: list[Any], y: list[Any]) -> np.ndarray:
    """Fit a model; return the processor time of each round but the first."""
    times: list[float] = []
    model.fit(X, y, callbacks=[lambda progress: times.append(time.process_time())])
    return np.diff(times)


def time_rounds(names: Sequence[str], policies: Sequence[str], *, quick: bool) -> None:
    """Measure the time per round of each policy against complete data, turn by turn in one process.

    A fit does the same work whenever it is repeated, so of each round the fastest turn counts.
    """
    n_rounds, repeats = (6, 1) if quick else (12, 4)
    rows = []
    for name in names:
        split = folds(name)[0]
        for trees in ("per_label", "shared"):
            ways: dict[tuple[int, str], tuple[list[Any], str]] = {(0, "complete"): (split.X_train, "direction")}
            for rate in (20, 40):
                X = damaged(name, split.X_train, rate, seed=0)
                ways |= {(rate, policy): (X, policy) for policy in policies}
            best: dict[tuple[int, str], Any] = dict.fromkeys(ways, np.inf)
            for turn in range(repeats + 1):  # the first compiles
                for way, (data, policy) in ways.items():
                    model = model_of(name, policy, trees=trees, max_iter=n_rounds, early_stopping=False)
                    seconds = round_seconds(model, data, split.y_train)
                    best[way] = np.minimum(best[way], seconds) if turn else best[way]
            complete = float(np.mean(best[0, "complete"]))
            for (rate, policy), turns in best.items():
                mean = float(np.mean(turns))
                row = {
                    "set": name, "trees": trees, "rate %": rate, "policy": policy,
                    "ms a round": round(1e3 * mean, 2), "of complete": round(mean / complete, 2),
                }  # fmt: skip
                print(row, flush=True)
                rows.append(row)
    if not quick:
        note = (
            "Processor time of a round of each policy for missing values, one thread, against that on complete data: "
            "means of rounds, of each the fastest of four."
        )
        command = "python benchmarks/missing.py --time"
        report.write("missing_time", rows, note=note, key=("set", "trees", "rate %", "policy"), command=command)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--policies", default=",".join((*POLICIES, PEER)))
    parser.add_argument("--rates", default="")
    parser.add_argument("--cache", type=Path, default=synthetic_folder().parent / "missing")
    parser.add_argument("--trees", default="per_label", help="per_label, as the source has it, or shared")
    parser.add_argument("--jobs", type=int, default=1, help="threads; two runs on different sets may share a cache")
    parser.add_argument("--quick", action="store_true", help="a few rounds at one rate, nothing written")
    parser.add_argument("--time", action="store_true", help="time per round instead")
    parser.add_argument("--write", action="store_true", help="write results from the fits there are, and fit nothing")
    arguments = parser.parse_args()
    COMMON.update(n_jobs=arguments.jobs, trees=arguments.trees)
    names = arguments.only.split(",") if arguments.only else list(TIMED if arguments.time else RATES)
    policies = arguments.policies.split(",")
    if arguments.time:
        use_one_thread()
        return time_rounds(names, [p for p in policies if p != PEER], quick=arguments.quick)
    results = "missing" if arguments.trees == "per_label" else f"missing_{arguments.trees}"
    cache = Cache(arguments.cache, arguments.trees, quick=arguments.quick)
    wanted = [int(rate) for rate in arguments.rates.split(",") if rate] or ([20] if arguments.quick else None)
    for name in names if not arguments.write else ():
        if name == "hyphen":
            check_gaps([*folds(name)[0].X_train, *folds(name)[0].X_test])
        for rate in (rate for rate in RATES[name] if wanted is None or rate in wanted):
            for number in range(N_SETS):
                for policy in policies:
                    if name == "rfid_activity":
                        rfid_fit(policy, rate, number, cache, quick=arguments.quick)
                    elif policy != PEER:
                        chapter_fit(name, policy, rate, number, cache, quick=arguments.quick)
        if not arguments.quick:
            write(cache, results)
    if arguments.write:
        write(cache, results)
    for (name, rate), by_policy in collect(cache).items():
        means = {policy: round(float(accuracies(fits).mean()), 2) for policy, fits in by_policy.items()}
        print(f"\n{name}, {rate} %: {means}\n{analysis(by_policy) or ''}", flush=True)
    return None


if __name__ == "__main__":
    main()
