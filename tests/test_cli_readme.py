"""The stories of the README, run as they stand there."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import seqboost
from seqboost.cli import app
from seqboost.cli.console import EXIT_CODES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("## From files, without Python")[2].partition("\n## ")[0]
STORIES = [
    re.findall(r"^\$ (seqboost .*)$", block, flags=re.MULTILINE)
    for block in re.findall(r"```console\n(.*?)```", SECTION, flags=re.DOTALL)
]


def readings(path, n_trials, seed):
    """Write a table of sensor readings."""
    rng = np.random.default_rng(seed)
    spread = {"rest": 0.3, "walk": 1.0, "run": 2.0}
    lines = ["trial,accel,gyro,room,activity"]
    for trial in range(n_trials):
        for activity in rng.permutation(list(spread)):
            for _ in range(rng.integers(15, 30)):
                accel = "" if rng.random() < 0.02 else f"{rng.normal(0, spread[activity]):.3f}"
                lines.append(f"{trial},{accel},{rng.normal():.3f},{'AB'[rng.integers(2)]},{activity}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def sentences(path, n_sentences, seed):
    """Write a column file with chunks that a word's look gives away."""
    rng = np.random.default_rng(seed)
    nouns, verbs = (["".join(rng.choice(list("bcdfgklm"), 4)) + end for _ in range(60)] for end in ("tion", "ing"))
    lines = []
    for _ in range(n_sentences):
        for _ in range(rng.integers(1, 4)):
            noun, verb = nouns[rng.integers(60)], verbs[rng.integers(60)]
            lines += ["the B-NP", f"{noun} I-NP", f"{verb} B-VP", f"{rng.integers(9999)} O"]
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def words(path, n_words, seed):
    """Write words with a label for each character: vowel or not."""
    rng = np.random.default_rng(seed)
    made = ["".join(rng.choice(list("abdeilmnost"), rng.integers(3, 9))) for _ in range(n_words)]
    text = "".join(f"{word}\t{''.join('01'[c in 'aeio'] for c in word)}\n" for word in made)
    path.write_text(text, encoding="utf-8")


FILES = {
    "readings.csv": (readings, 60, 0), "test.csv": (readings, 8, 1), "new.csv": (readings, 3, 2),
    "train.conll": (sentences, 150, 0), "test.conll": (sentences, 30, 0), "new.conll": (sentences, 5, 0),
    "words.txt": (words, 200, 0), "test.txt": (words, 20, 2), "new.txt": (words, 10, 1),
}  # fmt: skip
RESULTS = {
    "readings.csv": ("activity.html", "labelled.csv"), "train.conll": ("chunks.html", "labelled.conll"),
    "words.txt": ("hyphens.html",),
}  # fmt: skip


def test_there_are_three_stories_of_at_most_three_commands():
    assert len(STORIES) == 3
    assert all(1 <= len(story) <= 3 for story in STORIES)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: shlex.split(story[0])[2])
def test_story(story, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (write, n, seed) in FILES.items():
        write(tmp_path / name, n, seed)
    for command in story:
        done = CliRunner().invoke(app, shlex.split(command)[1:])
        assert done.exit_code == 0, (command, done.output, done.exception)
    first = shlex.split(story[0])[2]
    page, *others = RESULTS[first]
    assert all((tmp_path / name).exists() for name in others)
    model = seqboost.load(next(tmp_path.glob("*.seqboost")))
    assert model.best_iteration_ > 0
    text = (tmp_path / page).read_text(encoding="utf-8")
    share = float(re.search(r"Of every 100 positions, the model labels <strong>([\d.]+)", text)[1])
    assert share > 80


def test_exit_codes_in_the_docs_are_those_of_the_program():
    docs = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", docs, flags=re.MULTILINE)}
    assert listed == set(EXIT_CODES)


def test_suffixes_in_the_docs_are_those_of_the_formats():
    from seqboost.files import FORMATS

    docs = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    for known in FORMATS.values():
        for suffix in known.suffixes:
            assert f"`{suffix}`" in docs, suffix
