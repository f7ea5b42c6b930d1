"""Hao (2009), "Revisiting output coding for sequential supervised learning" (MSc thesis)."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

from sklearn.base import clone

from reproduction.experiment import Cell, Experiment, Figure, Outcome, Row
from reproduction.tasks import bits, cut, load, right_words, share
from seqboost import Method, OutputCoding, TreeCRF, VotedPerceptron
from seqboost.datasets import Split, make_cycle, make_hmm

__all__ = [
    "BEAM",
    "EXACT",
    "EXPERIMENTS",
    "NETTALK",
    "PERCEPTRON",
    "PHRASES",
    "QUICK_LENGTHS",
    "SOURCE",
    "TREES",
    "measured",
    "panel_of",
]

SOURCE = "Hao (2009), MSc thesis"
EXACT, BEAM = "exact ", "beam "
CASCADES: dict[str, Any] = {
    "iid": 0,
    "i-SECOC": 0,
    "c-SECOC(1)": 1,
    "c-SECOC(5)": 5,
    "c-SECOC(20)": 20,
    "c-SECOC(all)": "all",
}
LENGTHS = (10, 20, 40, 80)
SHORT_LENGTHS = (10, 20, 40)
QUICK_LENGTHS = (10, 20)
QUICK_METHODS = ("iid", "i-SECOC", "c-SECOC(1)", "c-SECOC(5)")
TRANSITION, BOTH, NETTALK = ("transition", 1), ("both", 3), (("nettalk", 1), ("nettalk", 3))
PHRASES = (("noun phrases", 1), ("noun phrases", 3))
PANELS = {
    "coding-figure5.1": NETTALK,
    "coding-figure5.2": NETTALK,
    "coding-figure5.4": PHRASES,
    "coding-figure5.6": (TRANSITION, BOTH),
}
TREES, PERCEPTRON = "TreeCRF", "perceptron"
AS_GOOD = 0.5  # points
WARM = 20  # sequences of a fit before the clock
BASES = {
    None: "boosted trees as base (60 rounds at learning rate 0.5, 15 leaves); beside them TreeCRF on all labels at "
    "once, which the source could not run",
    PERCEPTRON: "the averaged perceptron as base (10 passes); beside them the same on all labels at once",
}
CYCLE = {"TreeCRF": None, "i-SECOC": 0, "c-SECOC(1)": 1, "c-SECOC(2)": 2}


# -------------------------------------------------------------------------------------------------- the counter-example


def _cycle_cells(quick: bool) -> list[Cell]:
    return [{"method": method} for method in CYCLE]


def _cycle(cell: Cell, quick: bool) -> Outcome:
    X, y = make_cycle(n_sequences=80 if quick else 150, spacing=5, random_state=0)
    X_test, y_test = make_cycle(n_sequences=100, spacing=5, random_state=1)
    base = TreeCRF(window=0, potentials="joint", random_state=0, max_iter=100, min_samples_leaf=5)
    history = CYCLE[cell["method"]]
    model: Any = base if history is None else OutputCoding(base, code="one_vs_rest", cascade=history)
    right = share(bits(model.fit(X, y).predict(X_test), y_test))
    source = {"i-SECOC": "substantial error", "TreeCRF": "predictable"}.get(cell["method"], "can follow it")
    return Outcome([{**cell, "labels right %": right, "source": source}])


def _cycle_agrees(rows: list[Row]) -> str:
    own = {row["method"]: row["labels right %"] for row in rows}
    holds = own["i-SECOC"] < 70 and min(own["TreeCRF"], own["c-SECOC(1)"]) > 90
    return (
        f"independent bits get {own['i-SECOC']} % right (chance is 33 %), one bit of history {own['c-SECOC(1)']} %, "
        f"the whole chain {own['TreeCRF']} %: the argument of the source "
        f"{'holds' if holds else 'does not show here'}."
    )


# --------------------------------------------------------------------------------------------- accuracy by code length


def _cells(name: str, base: str | None, quick: bool) -> list[Cell]:
    cells: list[Cell] = []
    for data, window in PANELS[name]:
        methods = [method for method in CASCADES if not (data == "noun phrases" and method == "c-SECOC(all)")]
        cells += [
            {"set": data, "window": window, "method": method, "bits": n}
            for method in (QUICK_METHODS if quick else methods)
            for n in _lengths(data, quick)
        ]
        cells.append({"set": data, "window": window, "method": EXACT + (base or TREES), "bits": 0})
    return cells if base is None else [{**cell, "base": base} for cell in cells]


def _lengths(data: str, quick: bool) -> tuple[int, ...]:
    if quick:
        return QUICK_LENGTHS
    return SHORT_LENGTHS if data == "noun phrases" else LENGTHS


@lru_cache(maxsize=1)
def _split(name: str, quick: bool) -> Split:
    if name == "nettalk":
        return cut(load("full"), 250, 250) if quick else load("full")
    if name == "noun phrases":
        return cut(load(name), 500, 200) if quick else load(name)
    n_train, n_test = (150, 100) if quick else (400, 200)
    X, y = make_hmm(name, n_sequences=n_train + n_test, length=20, random_state=0)
    return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def _model(cell: Cell, quick: bool) -> Any:
    """Return the labeller of a cell: of all labels at once, exactly or with a beam, or of the bits of a code."""
    method, side = cell["method"], (cell["window"] - 1) // 2
    base: Any
    if cell.get("base") == PERCEPTRON:
        base = VotedPerceptron(window=side, decoding="posterior", random_state=0)
    else:
        base = TreeCRF(
            max_iter=15 if quick else 60, learning_rate=0.5, max_leaf_nodes=15, early_stopping=False, window=side,
            random_state=0,
        )  # fmt: skip
    if method.startswith(EXACT):
        return base
    if method.startswith(BEAM):
        beam = int(method.removeprefix(BEAM))
        return (
            base.set_params(beam=beam) if cell.get("base") == PERCEPTRON else base.set_params(method=Method(beam=beam))
        )
    base.set_params(order=0 if method == "iid" else 1)
    return OutputCoding(base, n_bits=cell["bits"], cascade=CASCADES[method], random_state=0)


def measured(cell: Cell, quick: bool) -> Row:
    """Train and test what a cell says; what compiles on first use has compiled when the clock starts."""
    split, model = _split(cell["set"], quick), _model(cell, quick)
    clone(getattr(model, "estimator", model)).fit(split.X_train[:WARM], split.y_train[:WARM])
    began = time.process_time()
    model.fit(split.X_train, split.y_train)
    seconds = time.process_time() - began
    predicted = model.predict(split.X_test)
    return {
        "set": cell["set"], "window": cell["window"], "method": cell["method"], "bits": cell["bits"] or None,
        "labels right %": share(bits(predicted, split.y_test)),
        "sequences right %": round(100 * float(right_words(predicted, split.y_test).mean()), 1),
        "CPU s": max(round(seconds, 1), 0.1),  # nothing is zero on a logarithmic axis
    }  # fmt: skip


def panel_of(cell: Cell) -> str:
    """Return what stands above the picture of a set and window."""
    return f"{cell['set']}, window {cell['window']}"


def _coded(cell: Cell, quick: bool) -> Outcome:
    row, lengths = measured(cell, quick), _lengths(cell["set"], quick)
    places = (lengths[0], lengths[-1]) if not cell["bits"] else (cell["bits"],)  # a line across for what has no code
    shared = {"panel": panel_of(cell), "method": cell["method"], "labels right %": row["labels right %"]}
    return Outcome([row], [{**shared, "bits": n} for n in places])


def _verdict(iid: float, independent: float, cascade: float, data: str, window: int) -> str:
    if (data, window) == PHRASES[1]:
        is_as_good = iid >= max(independent, cascade) - AS_GOOD
        return f"iid is {'as good as the others' if is_as_good else 'behind the others'} (as good in the source)"
    if data == "both":
        spread = max(iid, independent, cascade) - min(iid, independent, cascade)
        return f"codes are {'alike' if spread < 2 else 'not alike'} ({spread:.1f} points apart; alike in the source)"
    holds = iid < independent < cascade
    return f"the source's order iid < i-SECOC < c-SECOC {'holds' if holds else 'does not hold'}"


def _coded_agrees(rows: list[Row]) -> str:
    told = []
    for data, window in dict.fromkeys((row["set"], row["window"]) for row in rows):
        own = [row for row in rows if (row["set"], row["window"]) == (data, window)]
        longest = max(row["bits"] or 0 for row in own)
        at = {row["method"]: row["labels right %"] for row in own if row["bits"] in (None, longest)}
        exact = next(right for method, right in at.items() if method.startswith(EXACT))
        cascades = {method: right for method, right in at.items() if method.startswith("c-")}
        best = max(cascades, key=lambda method: cascades[method])
        told.append(
            f"{data}, window {window}, {longest} bits: iid {at['iid']}, i-SECOC {at['i-SECOC']}, best cascade {best} "
            f"{cascades[best]}, exact chain {exact}; "
            + _verdict(at["iid"], at["i-SECOC"], cascades[best], data, window)
        )
    return "; ".join(told) + "."


def _figure(
    name: str, title: str, place: str, says: str, sets: str, quick: str, base: str | None = None,
    lengths: tuple[int, ...] = LENGTHS,
) -> Experiment:  # fmt: skip
    return Experiment(
        name=name,
        title=title,
        source=SOURCE,
        place=place,
        says=says,
        protocol=f"{sets}; random codes of {lengths[0]} to {lengths[-1]} bits, L1 decoding; {BASES[base]}. The curves "
        "of the source have no printed numbers.",
        quick=quick,
        cells=lambda quick: _cells(name, base, quick),
        run=_coded,
        agrees=_coded_agrees,
        figure=Figure("panel", "method", "bits", "labels right %"),
    )


EXPERIMENTS = (
    Experiment(
        name="coding-counterexample",
        title="a cycle that independent bits cannot follow",
        source=SOURCE,
        place="section 3.3",
        says="A cycle of three labels is perfectly predictable, but binary chains that are trained apart make "
        "substantial errors.",
        protocol="150 sequences of 12 positions, of which every fifth tells its label; one bit for each label; 100 "
        "test sequences.",
        quick="80 training sequences.",
        cells=_cycle_cells,
        run=_cycle,
        agrees=_cycle_agrees,
    ),
    _figure(
        "coding-figure5.1",
        "output coding on NETtalk, boosted trees",
        "Figure 5.1",
        "i-SECOC is better than iid, cascades are better by more than 10 points with window 1, and less so with "
        "window 3.",
        "1,000 words to train on, 1,000 to test on, 134 labels",
        "250 + 250 words, codes of 10 and 20 bits, 15 rounds, cascades of 1 and 5.",
    ),
    _figure(
        "coding-figure5.2",
        "output coding on NETtalk, perceptron",
        "Figure 5.2",
        "Cascades are better than i-SECOC here too, but need longer histories than with boosted trees, and "
        "stay behind them.",
        "1,000 words to train on, 1,000 to test on, 134 labels",
        "250 + 250 words, codes of 10 and 20 bits, cascades of 1 and 5.",
        base=PERCEPTRON,
    ),
    _figure(
        "coding-figure5.4",
        "output coding on noun phrases, perceptron",
        "Figure 5.4",
        "With window 1, i-SECOC is better than iid and cascades are a little better still; with window 3, iid is as "
        "good as any of them.",
        "CoNLL-2000, words alone, part of speech and place in a noun phrase as one of 121 labels; histories up to 20",
        "500 + 200 sentences, codes of 10 and 20 bits, cascades of 1 and 5.",
        base=PERCEPTRON,
        lengths=SHORT_LENGTHS,
    ),
    _figure(
        "coding-figure5.6",
        "output coding on made-up chains, boosted trees",
        "Figure 5.6",
        'On "transition" with window 1, i-SECOC is better than iid and cascades are better still; on "both" '
        "with window 3, all are alike.",
        "hidden Markov models with 40 labels, 400 sequences of 20 positions to train on and 200 to test on",
        "150 + 100 sequences, codes of 10 and 20 bits, 15 rounds, cascades of 1 and 5.",
    ),
)
