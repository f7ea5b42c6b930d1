"""Command lines: all commands and options, sensible and absurd values, odd names of files, columns and labels."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from fuzz.outcome import Finding
from seqboost.cli import app
from seqboost.cli.console import EXIT_CODES

__all__ = ["label", "prepare", "run"]

COMMANDS = (
    "train", "predict", "evaluate", "compare", "inspect", "report", "convert", "reproduce", "demo", "warmup", "",
)  # fmt: skip
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ODD = (
    "", "-", "--", "[red]x[/red]", "[/]", "\x1b[31mred", "\x9b2J", "a\nb", "\u202eabc", "a b", "ü", "%s{0}", "../..",
    "/", "/dev/null/x", "x" * 300, "\udcff", "None", "nan", "true", "[1,", "{}", "0", "-1", "1e999", "-0.0", "9" * 40,
    "0x10", "²",
)  # fmt: skip
FILES = (
    "d.csv", "d.csv", "d.csv", "d.csv", "d.csv", "d.csv", "odd.csv", "d.tsv", "d.conll", "d.jsonl", "d.txt",
    "d.sparse", "d.crfsuite", "d.parquet", "[bold].csv", "\x1b[31m.csv", "missing.csv", "folder", "empty.csv",
    "noise.csv", "m.seqboost", "d.csv.gz", "odd.csv",
)  # fmt: skip
MODELS = ("m.seqboost", "m.seqboost", "m.seqboost", "odd.seqboost", "broken.seqboost", "d.csv", "missing", "folder")
TARGETS = (
    "out.csv", "out.seqboost", "out.html", "out.parquet", "out.jsonl", "none/out.csv", "folder", "[x].conll", "out",
)  # fmt: skip
NAMES = ("id", "speed", "room", "state", "[b]", "x0", "1", "-1", "none")
FORMATS = ("csv", "tsv", "parquet", "arrow", "conll", "crf++", "crfsuite", "jsonl", "sparse", "text", "CSV")
NUMBERS = (
    "0", "1", "2", "3", "10", "-1", "-2147483649", "4294967296", "9" * 25, "1e3", "0.5", "nan", "inf", "1e-320", "x",
)  # fmt: skip
PARAMETERS = (
    "max_iter", "window", "order", "max_leaf_nodes", "min_samples_leaf", "l2_regularization", "learning_rate", "tol",
    "init", "potentials", "trees", "contexts", "sampling", "max_bins", "validation_fraction", "early_stopping",
    "class_weight",
    "categorical_features", "missing", "sequence", "random_state", "n_jobs", "verbose", "refit", "beam", "transitions",
    "curvature", "max_depth", "n_iter_no_change", "warm_start", "objective", "smoothing", "hmm.order", "hmm.smoothing",
    "treecrf.order", "nothing", "", "hmm.", ".order",
)  # fmt: skip
SETTINGS = (
    *NUMBERS, "null", "true", "false", '"auto"', "auto", "[]", "[1]", "{}", '{"a": 1}', "linear", "seen", "all",
    "joint", "factored", "shared", "balanced", "IOB2", "goss", "any", "1p/3n", "[[1,1],[0,1]]", "", "[1,2,3,4]",
    '{"speed": [2, 0]}',
)  # fmt: skip
READING = {
    "--format": FORMATS, "--label": NAMES, "--sequence": NAMES, "--categorical": NAMES, "--drop": NAMES,
    "--missing": NAMES, "--columns": ("a,b", "speed,room,state", ","), "--no-header": (),
    "--delimiter": (",", "\\t", "tab", ";", " ", "ab"),
    "--encoding": ("utf-8", "latin-1", "utf-16", "idna", "base64", "none"), "--features": ("words", "none"),
    "--skip-bad": (), "--quiet": (), "--json": (),
}  # fmt: skip
TRAINING = {
    "--window": (*NUMBERS, "3,0", "[1,2]", "{}"), "--seed": NUMBERS, "--n-jobs": ("1", "1", "0", "-1", "x", "9" * 12),
}  # fmt: skip
OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "train": {
        **READING, **TRAINING, "--order": ("0", "1", "2", "-1", "9" * 12, "x"), "--learning-rate": NUMBERS,
        "--transitions": ("any", "seen", "IOB2", "x"), "--decoding": ("viterbi", "x"), "--plot": ("out.png", "x.y"),
        "--validation": FILES,
    },
    "predict": {
        **READING, "--output": TARGETS, "--proba": (), "--kbest": NUMBERS, "--decoding": ("posterior", "viterbi", "x"),
    },
    "evaluate": {**READING, "--scheme": ("IOB2", "x"), "--against": FILES, "--decoding": ("viterbi", "x")},
    "compare": {**READING, **TRAINING, "--table": ("text", "markdown", "x")},
    "inspect": {
        "--sequence": NUMBERS, "--top": NUMBERS, "--against": ("go", "stop", "x"), "--format": FORMATS, "--json": (),
        "--sequence-column": NAMES, "--skip-bad": (), "--plot": ("out.png", "x.y"),
    },
    "report": {
        **READING, "--output": TARGETS, "--title": ODD, "--scheme": ("IOB2", "x"), "--max-sequences": NUMBERS,
        "--decoding": ("viterbi", "x"),
    },
    "convert": {
        **READING, "--to": FORMATS, "--from-scheme": ("IOB1", "IOB2", "BIOES", "x"), "--to-scheme": ("IOB1", "BIOES",
        "x"),
    },
    "reproduce": {"--quick": (), "--json": (), "--quiet": ()},
    "demo": {"--words": NUMBERS, "--seed": NUMBERS},
    "warmup": {},
    "": {},
}  # fmt: skip


@dataclass(frozen=True)
class State:
    """A folder of small files, made anew before each case that may have written to it."""

    folder: Path
    files: Path


def label(seed: int) -> str:
    """Name the command of a case."""
    return COMMANDS[seed % len(COMMANDS)]


def prepare(folder: Path) -> State:
    """Write small files of several formats, and train a model."""
    files = folder / "files"
    (files / "folder").mkdir(parents=True)
    rows = [(f"s{i // 6}", f"{i * i % 5}.5", "AB"[i % 2], ("go", "stop")[i % 3 > 0]) for i in range(36)]
    table = "id,speed,room,state\n" + "".join(",".join(row) + "\n" for row in rows)
    odd = table.replace("go", "[red]").replace("stop", "\x1b[31m[/]").replace("room", "[b]\x1b]0;")
    odd = odd.replace(",A", ",\x9b2J")
    texts = {
        "d.csv": table, "[bold].csv": table, "\x1b[31m.csv": table, "odd.csv": odd, "d.tsv": table.replace(",", "\t"),
        "d.conll": "".join(f"{row[2]} {row[1]} {row[3]}\n" + "\n" * (i % 6 == 5) for i, row in enumerate(rows)),
        "d.jsonl": json.dumps({"x": [{"speed": 1.5, "room": "[A]"}] * 3, "y": ["go", "stop", "go"]}) + "\n",
        "d.txt": "banana\t010101\nfig\t010\n", "d.sparse": "1 2 9\n1 1 2 3 5 0\n1 2 1 4 1\n",
        "d.crfsuite": "go\tspeed:1\troom=A\nstop\tspeed:2\n\n", "empty.csv": "",
        "broken.seqboost": "PK\x03\x04header.json",
    }  # fmt: skip
    for name, text in texts.items():
        (files / name).write_text(text, encoding="utf-8")
    (files / "noise.csv").write_bytes(np.random.default_rng(0).bytes(500))
    common = ["--sequence", "id", "--label", "state", "--max-iter", "2", "--quiet", "--n-jobs", "1"]
    os.chdir(files)
    for data, model in (("d.csv", "m.seqboost"), ("odd.csv", "odd.seqboost")):
        _called(["train", data, "--model", model, *common])
    for target in ("d.csv.gz", "d.parquet"):
        _called(["convert", "d.csv", "--sequence", "id", "--label", "state", "--output", target])
    return State(folder / "case", files)


def _called(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, arguments)
    if done.exit_code:
        raise RuntimeError(f"{arguments}: {done.output}")


def run(state: State, seed: int) -> str:
    """Run one command line."""
    os.chdir(state.files)
    shutil.rmtree(state.folder, ignore_errors=True)
    shutil.copytree(state.files, state.folder)
    os.chdir(state.folder)
    command = label(seed)
    arguments = _arguments(command, np.random.default_rng(seed))
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code not in EXIT_CODES:
        raise Finding(f"exit code {done.exit_code} of {arguments}")
    # labelled data go to a pipe as they are; everything else is for people
    shown = done.stderr if command == "predict" else done.stdout + done.stderr
    if found := OBEYED.search(shown):
        raise Finding(f"{found[0]!r} in the output of {arguments}")
    if done.exit_code and not done.stderr.strip() and not done.stdout.strip():
        raise Finding(f"{arguments} ended with code {done.exit_code} and without a word")
    litter = [name for name in os.listdir() if name.endswith(".tmp")]
    if litter:
        raise Finding(f"{litter} were left by {arguments}")
    return "refused" if done.exit_code else "accepted"


def _arguments(command: str, rng: np.random.Generator) -> list[str]:
    """Draw a command line that is complete more often than not."""

    def drawn(values: tuple[str, ...], odd: float = 0.04) -> str:
        values = ODD if rng.random() < odd else values
        return values[rng.integers(len(values))]

    if not command:
        return [ODD[rng.integers(len(ODD))] for _ in range(int(rng.integers(3)))]
    arguments = [command]
    if command in ("predict", "evaluate", "inspect", "report"):
        arguments.append(drawn(MODELS))
    if command == "reproduce":
        arguments.append(("list", "nothing", "page list", "[x]")[rng.integers(4)])
    elif command not in ("demo", "warmup") and not (command == "inspect" and rng.random() < 0.5):
        arguments += [drawn(FILES) for _ in range(1 + (rng.random() < 0.1))]
    if command in ("train", "compare", "convert", "evaluate") and rng.random() < 0.7:
        arguments += ["--sequence", "id", "--label", "state"]
    options = OPTIONS[command]
    for _ in range(int(rng.geometric(0.5)) - 1 if options else 0):
        name = list(options)[rng.integers(len(options))]
        arguments.append(name)
        if options[name]:
            arguments.append(drawn(options[name]))
    if command in ("train", "compare"):
        for _ in range(int(rng.geometric(0.6)) - 1):
            arguments += ["--set", f"{drawn(PARAMETERS)}={drawn(SETTINGS)}"]
    if command == "train":  # what comes last counts: no case may train for long
        arguments += ["--model", drawn(TARGETS), "--max-iter", drawn(("1", "2", "2", "2", "0", "-1", "x"))]
    if command == "compare":
        arguments += ["--test", drawn(FILES), "--models", ("hmm", "hmm", "hmm,x", "x", "")[rng.integers(5)]]
    if command == "convert":
        arguments += ["--output", drawn(TARGETS)]
    if command in ("demo", "warmup") or rng.random() < 0.02:
        arguments += [("--nothing", "--help", "more")[rng.integers(3)]]
    return arguments
