"""Experiments run cell by cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from reproduction.experiment import Cell, Experiment, Outcome
from reproduction.store import Kept, Store
from seqboost.exceptions import DataFileError, MissingExtraError, ParameterError

__all__ = ["Step", "chosen", "run"]


class Step(NamedTuple):
    """What is told after each cell."""

    experiment: Experiment
    cell: Cell
    done: int
    total: int
    seconds: float
    left: float
    """Seconds that the remaining cells will take, if they take as long as those so far."""


def chosen(names: Sequence[str], known: Sequence[Experiment]) -> list[Experiment]:
    """Return experiments by name; ``all`` is all of them, and a beginning those that begin so."""
    found: list[Experiment] = []
    for name in names:
        exact = [one for one in known if one.name == name]
        fitting = exact or [one for one in known if name == "all" or one.name.startswith(name)]
        if not fitting:
            names_known = ", ".join(one.name for one in known)
            raise ParameterError(
                f"there is no experiment {name!r}; expected 'all', a name or the beginning of one of: {names_known}"
            )
        found += [one for one in fitting if one not in found]
    if not found:
        raise ParameterError("no experiment is named; see `seqboost reproduce list`")
    return found


def run(
    experiments: Sequence[Experiment],
    *,
    quick: bool,
    store: Store,
    again: bool = False,
    tell: Callable[[Step], object] | None = None,
    refused: Callable[[Experiment, Exception], object] | None = None,
    complete: Callable[[Experiment, list[Outcome]], object] | None = None,
) -> dict[str, list[Outcome]]:
    """Run all cells that nothing is kept of.

    Parameters
    ----------
    experiments : sequence of Experiment
    quick : bool
        The small version of each.
    store : Store
        Where cells are kept.
    again : bool, default=False
        Run cells anew that are kept.
    tell : callable, optional
        Called with a Step after each cell that was run.
    refused : callable, optional
        Called with an experiment that lacks its data, or a package, and the error; the others go on. Without it, the
        error is raised.
    complete : callable, optional
        Called with an experiment and its outcomes as soon as they are complete.

    Returns
    -------
    dict of str to list of Outcome
        Outcomes of all cells, by name of the experiment.
    """
    # What is kept is read once: another run, perhaps of another version, may write the same files meanwhile.
    known = {
        one.name: [None if again else store.get(one, cell, quick) for cell in one.cells(quick)] for one in experiments
    }
    total, done, began = sum(kept.count(None) for kept in known.values()), 0, time.perf_counter()
    found = {}
    for one in experiments:
        outcomes = []
        try:
            for cell, kept in zip(one.cells(quick), known[one.name], strict=True):
                if kept is not None:
                    outcomes.append(kept.outcome)
                    continue
                start = time.perf_counter()
                outcome = one.run(cell, quick)
                now = time.perf_counter()
                store.put(one, cell, quick, Kept(outcome, now - start))
                outcomes.append(outcome)
                done += 1
                if tell is not None:
                    tell(Step(one, cell, done, total, now - start, (now - began) / done * (total - done)))
        except (DataFileError, MissingExtraError) as error:
            if refused is None:
                raise
            total -= known[one.name].count(None)
            refused(one, error)
            continue
        found[one.name] = outcomes
        if complete is not None:
            complete(one, outcomes)
    return found
