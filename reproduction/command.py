"""``seqboost reproduce``: the sources' tables and figures, made anew."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from reproduction import EXPERIMENTS, Experiment, Step, Store, as_text, chosen, page, rows_of, run, write
from seqboost.cli.console import Interrupted, print_json, say, show
from seqboost.exceptions import ParameterError, SeqboostError

__all__ = ["run_reproduce"]

LIST, PAGE = "list", "page"


def run_reproduce(
    names: list[str], output: Path, target: Path | None, *, quick: bool, again: bool, quiet: bool, as_json: bool
) -> None:
    """List, run, or write the page."""
    store = Store()
    if LIST in names:
        return _list(store, as_json)
    if PAGE in names and len(names) > 1:
        raise ParameterError(f"page runs nothing and stands alone; got {' '.join(names)}")
    experiments = [] if names == [PAGE] else chosen(names, EXPERIMENTS)
    quiet = quiet or as_json
    refusals: list[Exception] = []

    def refused(experiment: Experiment, error: Exception) -> None:
        refusals.append(error)
        say(f"seqboost: {experiment.name} was left out: {error}")

    _run(experiments, store, output, quick=quick, again=again, quiet=quiet, as_json=as_json, refused=refused)
    target = output / "results.md" if target is None else target
    wanting = page(EXPERIMENTS, store, target, output)
    if not quiet:
        say(f"all results: {target}" + (f" (not run yet: {', '.join(wanting)})" if wanting else ""))
    if refusals:
        if len(refusals) == len(experiments) == 1:
            raise refusals[0]
        raise SeqboostError(f"{len(refusals)} of {len(experiments)} experiments were left out; {refusals[0]}")
    return None


def _run(experiments: list[Experiment], store: Store, output: Path, *, quick: bool, again: bool, quiet: bool,
         as_json: bool, refused: Any) -> None:  # fmt: skip
    """Run experiments one after the other, each shown as soon as it is complete."""
    documents = []
    n_cells = sum(len(one.cells(quick)) for one in experiments)
    kept = (
        0 if again else sum(store.get(one, cell, quick) is not None for one in experiments for cell in one.cells(quick))
    )
    if kept and not quiet:
        say(f"{kept} of {n_cells} parts were run before and are kept (--again runs them anew)")

    def complete(one: Experiment, outcomes: Any) -> None:
        files = [str(path) for path in write(one, outcomes, output, quick=quick)]
        rows = rows_of(one, outcomes)
        if as_json:
            documents.append(
                {"name": one.name, "quick": quick, "rows": rows, "agrees": one.agrees(rows), "files": files}
            )
        else:
            show(_shown(one, rows, quick))
            if not quiet:
                say(f"written: {', '.join(files)}")
                say("")

    try:
        run(
            experiments, quick=quick, store=store, again=again, tell=None if quiet else _tell, refused=refused,
            complete=complete,
        )  # fmt: skip
    except KeyboardInterrupt as error:
        raise Interrupted(
            "interrupted; parts that are done are kept, and the same command goes on from there",
            getattr(error, "number", signal.SIGINT),
        ) from None
    if as_json:
        print_json({"experiments": documents})


def _list(store: Store, as_json: bool) -> None:
    rows = [
        {
            "name": one.name, "what": one.title, "source": f"{one.source}, {one.place}",
            "run": _state(one, store),
        }
        for one in EXPERIMENTS
    ]  # fmt: skip
    if as_json:
        print_json({"experiments": rows})
    else:
        show(as_text(rows))


def _state(one: Experiment, store: Store) -> str:
    if store.complete(one, quick=False) is not None:
        return "full"
    return "quick" if store.complete(one, quick=True) is not None else ""


def _shown(one: Experiment, rows: list[dict[str, Any]], quick: bool) -> str:
    title = f"{one.name}: {one.title}" + (" (quick version)" if quick else "")
    return f"{title}\n{one.source}, {one.place}\n\n{as_text(rows)}\n\nWhat agrees: {one.agrees(rows)}\n"


def _tell(step: Step) -> None:
    what = ", ".join(str(value) for value in step.cell.values())
    left = f"; about {_time(step.left)} left" if step.done < step.total else ""
    say(f"[{step.done}/{step.total}] {step.experiment.name}: {what} ({_time(step.seconds)}){left}")


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
