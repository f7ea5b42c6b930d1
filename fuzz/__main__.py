"""Attack seqboost: seeded cases, run in processes of their own, for as long as there is time."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
import warnings
from itertools import count, islice
from pathlib import Path

from fuzz.driver import FINDINGS, PrepareError, Tally, attack
from fuzz.worker import import_target

TARGETS = ("model_files", "inputs", "data_files", "arguments")
_SEEDS = 10**9  # seeds of one --seed: case i has number S · 10⁹ + i
_COLUMNS = ("cases", "accepted", "refused", *FINDINGS, "peak_mib", "seconds")
_PACKAGES = ("numpy", "numba", "pandas", "polars", "pyarrow", "scikit-learn", "scipy")


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer; return 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    add = parser.add_argument
    add("targets", nargs="*", default=[*TARGETS], metavar="TARGET", help=", ".join(TARGETS) + " (default: all)")
    add("--cases", type=int, help="cases of each target (default: as many as there is time for)")
    add("--seed", type=int, default=0, help="which cases (default 0)")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes (default: one per core)")
    add("--seconds", type=float, help="time for all targets together (default 120; no limit with --cases)")
    add("--output", type=Path, metavar="FILE.json", help="write all counts and findings there")
    add("--case", type=int, metavar="SEED", help="run this case of one target here, and show what it raises")
    options = parser.parse_args(arguments)
    if options.case is not None:
        return _replay(options.targets[0], options.case)
    seconds = options.seconds or (float("inf") if options.cases else 120.0)
    tallies, failed = [], False
    for target in options.targets:
        seeds = islice(count(options.seed * _SEEDS), options.cases)
        try:
            share = seconds / len(options.targets)
            tally = attack(target, seeds, jobs=options.jobs, seconds=share, progress=_progress)
        except (PrepareError, ImportError) as error:
            print(f"{target}: cannot begin: {error}", file=sys.stderr)
            failed = True
            continue
        _clear()
        _print_findings(tally)
        tallies.append(tally)
    _print_table(tallies)
    if options.output:
        options.output.write_text(json.dumps(_report(tallies, options.seed), indent=1) + "\n")
    return int(failed or any(tally.findings for tally in tallies))


def _replay(target: str, seed: int) -> int:
    """Run one case in this process, so that a debugger can follow it."""
    module = import_target(target)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        print(module.run(module.prepare(Path(folder)), seed))
    return 0


def _progress(tally: Tally) -> None:
    """Write one line over the last one, on a terminal only."""
    if sys.stderr.isatty():
        counts = ", ".join(f"{tally.counts[kind]:,} {kind}" for kind in ("accepted", "refused", *FINDINGS))
        rate = tally.cases / max(tally.seconds, 1e-9)
        text = f"{tally.target}: {tally.cases:,} cases, {rate:.0f}/s; {counts}"
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _clear() -> None:
    """Remove the progress line."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)


def _print_findings(tally: Tally) -> None:
    """Print each group of findings with the command that replays its first case."""
    for (kind, label, group), first in tally.groups.items():
        print(f"{kind}: {first['cases']} × {group}{f' ({label})' if label else ''}\n    {first['replay']}")
        print("".join(f"    {line}\n" for line in first["detail"].splitlines()))


def _print_table(tallies: list[Tally]) -> None:
    """Print the counts of all targets."""
    rows = [("target", *(column.replace("_mib", " MiB") for column in _COLUMNS))]
    for tally in tallies:
        values = tally.to_json()
        rows.append((tally.target, *(f"{values[column]:,}" for column in _COLUMNS)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def _report(tallies: list[Tally], seed: int) -> dict[str, object]:
    """Return everything that was counted, and with which versions."""
    installed = {name: importlib.metadata.version(name) for name in _PACKAGES}
    installed["python"] = platform.python_version()
    settings = {"seed": seed, "boundscheck": os.environ.get("NUMBA_BOUNDSCHECK", "0"), "versions": installed}
    return {**settings, "targets": [tally.to_json() for tally in tallies]}


if __name__ == "__main__":
    sys.exit(main())
