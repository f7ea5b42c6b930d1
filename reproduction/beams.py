"""Hao (2009), "Revisiting output coding for sequential supervised learning": codes against beam search, in time."""

from __future__ import annotations

from reproduction.coding import (
    BEAM,
    EXACT,
    NETTALK,
    PERCEPTRON,
    PHRASES,
    QUICK_LENGTHS,
    SOURCE,
    TREES,
    measured,
    panel_of,
)
from reproduction.experiment import Cell, Experiment, Figure, Outcome, Row

__all__ = ["EXPERIMENTS"]

METHODS = ("i-SECOC", "c-SECOC(1)", "c-SECOC(5)", "c-SECOC(20)")
BEAMS = (1, 5, 20)


def _cells(panels: tuple[tuple[str, int], ...], bases: tuple[str, ...], n_bits: int, quick: bool) -> list[Cell]:
    cells: list[Cell] = []
    for data, window in panels:
        for base in bases:
            shared = {"set": data, "window": window, "base": base}
            methods = METHODS[:-1] if data == "noun phrases" else METHODS  # the last takes ten minutes there
            cells += [
                {**shared, "method": method, "bits": QUICK_LENGTHS[-1] if quick else n_bits}
                for method in (METHODS[:2] if quick else methods)
            ]
            cells += [{**shared, "method": f"{BEAM}{n}", "bits": 0} for n in (BEAMS[1:2] if quick else BEAMS)]
            cells.append({**shared, "method": EXACT + base, "bits": 0})
    return cells


def _run(cell: Cell, quick: bool) -> Outcome:
    row = measured(cell, quick)
    row = {"set": row.pop("set"), "window": row.pop("window"), "base": cell["base"], **row}
    kind = next((kind for kind in (EXACT, BEAM) if cell["method"].startswith(kind)), "codes")
    line = f"{cell['base']}, {kind.strip()}"
    return Outcome([row], [{"panel": panel_of(cell), "line": line, **{x: row[x] for x in ("CPU s", "labels right %")}}])


def _agrees(rows: list[Row]) -> str:
    told = []
    for data, window in dict.fromkeys((row["set"], row["window"]) for row in rows):
        own = [row for row in rows if (row["set"], row["window"]) == (data, window)]
        best: dict[tuple[str, bool], Row] = {}
        for row in sorted(own, key=lambda row: (float(row["labels right %"]), -float(row["CPU s"]))):
            if not row["method"].startswith(EXACT):
                best[row["base"], row["method"].startswith(BEAM)] = row
        parts = [
            f"{base} {row['labels right %']} by {row['method']} in {row['CPU s']:.0f} s"
            for (base, _), row in sorted(best.items())
        ]
        exact = [f"{row['base']} {row['labels right %']}" for row in own if row["method"].startswith(EXACT)]
        told.append(f"{data}, window {window}: {', '.join(parts)}; exactly {', '.join(exact)}; {_verdict(best)}")
    return "; ".join(told) + "."


def _verdict(best: dict[tuple[str, bool], Row]) -> str:
    """Tell whether the source's order holds, from the best codes (False) and the best beam (True) of each base."""
    beam = best[PERCEPTRON, True]
    if (TREES, True) not in best:
        codes = best[PERCEPTRON, False]
        pace = ", in more time" if float(beam["CPU s"]) > float(codes["CPU s"]) else ", in less time"
        return f"beam search is {_ahead(beam, codes)} codes{pace} (ahead, in the same time, in the source)"
    return (
        f"codes of trees are {_ahead(best[TREES, False], beam)} the perceptron's beam search, and that is "
        f"{_ahead(beam, best[TREES, True])} the beam search of trees (both so in the source)"
    )


def _ahead(one: Row, other: Row) -> str:
    return "ahead of" if float(one["labels right %"]) > float(other["labels right %"]) else "not ahead of"


def _race(
    name: str, title: str, says: str, protocol: str, quick: str,
    panels: tuple[tuple[str, int], ...], bases: tuple[str, ...], n_bits: int,
) -> Experiment:  # fmt: skip
    return Experiment(
        name=name,
        title=title,
        source=SOURCE,
        place=f"Figure {name.removeprefix('coding-figure')}",
        says=says,
        protocol=f"{protocol}; random codes of {n_bits} bits, L1 decoding, beams of 1, 5 and 20 labels in training and "
        "prediction; CPU seconds of training without compilation. The curves of the source have no printed numbers.",
        quick=quick,
        cells=lambda quick: _cells(panels, bases, n_bits, quick),
        run=_run,
        agrees=_agrees,
        figure=Figure("panel", "line", "CPU s", "labels right %", is_log=True),
    )


EXPERIMENTS = (
    _race(
        "coding-figure5.3",
        "output coding against beam search on NETtalk",
        "With beam search, boosted trees are significantly worse than the perceptron; codes with boosted trees are "
        "significantly better than the perceptron with beam search.",
        "1,000 words to train on, 1,000 to test on, 134 labels; boosted trees (60 rounds at learning rate 0.5, 15 "
        "leaves) and the averaged perceptron (10 passes); histories up to 20",
        "250 + 250 words, codes of 20 bits, 15 rounds, a beam of 5, cascades of 1.",
        NETTALK,
        (TREES, PERCEPTRON),
        200,
    ),
    _race(
        "coding-figure5.5",
        "output coding against beam search on noun phrases",
        "Within the same time of training, beam search is much better than codes with the perceptron as base.",
        "CoNLL-2000, words alone, part of speech and place in a noun phrase as one of 121 labels; the averaged "
        "perceptron (10 passes); histories up to 5",
        "500 + 200 sentences, codes of 20 bits, a beam of 5, cascades of 1.",
        PHRASES,
        (PERCEPTRON,),
        40,
    ),
)
