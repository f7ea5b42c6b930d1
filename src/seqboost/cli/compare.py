"""``seqboost compare``: labellers side by side on the same files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import seqboost
from seqboost.cli.console import print_json, say, show
from seqboost.cli.data import load_data
from seqboost.cli.options import parsed
from seqboost.cli.train import described
from seqboost.core.exceptions import ParameterError
from seqboost.evaluation import compare

__all__ = ["LABELLERS", "labellers_of", "run_compare"]

LABELLERS = {
    "treecrf": "TreeCRF", "memm": "MEMM", "hmm": "HMM", "iohmm": "IOHMM", "sliding_window": "SlidingWindow",
    "recurrent": "RecurrentSlidingWindow", "linear_crf": "LinearCRF", "perceptron": "VotedPerceptron",
    "output_coding": "OutputCoding", "future": "FutureFeatureMEMM",
}  # fmt: skip
TEXT, MARKDOWN = "text", "markdown"


def labellers_of(names: tuple[str, ...], common: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """Make labellers by name.

    Parameters
    ----------
    names : tuple of str
        Keys of ``LABELLERS``.
    common : dict
        Parameters of all labellers that have them; None = not given.
    settings : list of str
        ``name=value`` for all labellers that have the parameter, ``model.name=value`` for one of them.
    """
    unknown = [name for name in names if name not in LABELLERS]
    if unknown or not names:
        came = ", ".join(unknown) if unknown else "no name"
        raise ParameterError(f"--models: expected some of {', '.join(LABELLERS)} (a,b,c); got {came}")
    made = {name: getattr(seqboost, LABELLERS[name])() for name in dict.fromkeys(names)}
    for parameter, value in common.items():
        for labeller in made.values():
            if value is not None and parameter in labeller.get_params(deep=False):
                labeller.set_params(**{parameter: value})
    for setting in settings:
        target, equals, text = setting.partition("=")
        model, dot, parameter = target.rpartition(".")
        chosen = [made[model]] if model in made else list(made.values())
        fitting = [labeller for labeller in chosen if _place(labeller, parameter)]
        if not equals or (dot and model not in made) or not fitting:
            raise ParameterError(
                f"--set {setting}: expected name=value or model.name=value, with a parameter of one of "
                f"{', '.join(made)}, e.g. --set max_iter=100 or --set {next(iter(made))}.window=3"
            )
        for labeller in fitting:
            labeller.set_params(**{_place(labeller, parameter): parsed(text, f"set {parameter}")})
    return made


def _place(labeler: Any, parameter: str) -> str:
    """Return the name by which a labeler knows a parameter, that of its method among them; empty if it has none."""
    if parameter in labeler.get_params():
        return parameter
    is_boosted = isinstance(labeler, (seqboost.TreeCRF, seqboost.MEMM))
    return f"method__{parameter}" if is_boosted and parameter in seqboost.Method().get_params() else ""


def run_compare(
    paths: list[Path],
    test: list[Path],
    names: tuple[str, ...],
    reading: Any,
    common: dict[str, Any],
    settings: list[str],
    *,
    form: str,
    skip_bad: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Read, train every labeller, and print one table."""
    if form not in (TEXT, MARKDOWN):
        raise ParameterError(f"--table {form}: expected {TEXT} or {MARKDOWN}")
    labellers = labellers_of(names, common, settings)
    quiet = quiet or as_json
    data = load_data(paths, reading, labels="required", skip_bad=skip_bad, quiet=quiet)
    held = load_data(test, data.reading, labels="required", skip_bad=skip_bad, quiet=quiet)
    held = held.with_labels_of(data.label_names)
    if not quiet:
        say(f"to train on: {described(data)}")
        say(f"to test on: {held.batch.n_sequences:,} sequences, {held.batch.n_rows:,} positions")
    found = compare(
        labellers, data.batch, data.y, held.batch, held.y,
        tell=None if quiet else lambda name, seconds: say(f"{name}: {seconds:.1f} s"),
    )  # fmt: skip
    if as_json:
        rows = [
            {
                name: None if isinstance(value, float) and math.isnan(value) else value
                for name, value in vars(row).items()
            }
            for row in found.rows
        ]
        print_json({"rows": rows, "sequences": held.batch.n_sequences, "positions": held.batch.n_rows})
    else:
        show(found.to_markdown() if form == MARKDOWN else str(found))
