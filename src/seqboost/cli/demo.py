"""Hyphenate English words that the model has never seen.

A word is a sequence of characters; the label of a letter is 1 where a hyphen may follow it. The truth comes from the
TeX patterns in ``pyphen``, the words from ``wonderwords``; nothing is downloaded.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

import seqboost
from seqboost.cli.console import Console, table_of
from seqboost.core.exceptions import MissingExtraError

__all__ = ["MissingExtraError", "run_demo"]

SHOWN = (
    "algorithm", "butterfly", "crocodile", "dinosaur", "elephant", "generosity", "harmony", "independence",
    "kindergarten", "landscape", "mathematics", "orchestra", "personality", "saxophone", "technology", "umbrella",
)  # fmt: skip
Labels = list[NDArray[np.int64]]


@dataclass(frozen=True)
class Words:
    """Words to learn from and words never seen, with their breaks."""

    train: list[str]
    train_breaks: Labels
    test: list[str]
    test_breaks: Labels


def load_words(n_words: int, seed: int) -> Words:
    """Draw words and split them four to one, no family on both sides.

    A family is the words that share their first five letters (*hyphen*, *hyphenate*): learning one and being tested on
    the other would be too easy.
    """
    try:
        import pyphen
        from wonderwords import RandomWord
    except ImportError as error:
        raise MissingExtraError(
            f'the demo needs the package {error.name!r}, which is not installed: pip install "seqboost[demo]"'
        ) from error

    parts = ["nouns", "verbs", "adjectives"]
    vocabulary = sorted(set(RandomWord().filter(include_parts_of_speech=parts, regex="[a-z]{4,}")))
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(vocabulary)[:n_words].tolist()
    families = sorted({word[:5] for word in drawn})
    unseen = set(rng.permutation(families)[: len(families) // 5].tolist()) | {word[:5] for word in SHOWN}
    train = [word for word in drawn if word[:5] not in unseen]
    test = [word for word in drawn if word[:5] in unseen]
    hyphenator = pyphen.Pyphen(lang="en_US")

    def breaks(word: str) -> NDArray[np.int64]:
        labels = np.zeros(len(word), dtype=np.int64)
        labels[[position - 1 for position in hyphenator.positions(word)]] = 1
        return labels

    return Words(train, [breaks(word) for word in train], test, [breaks(word) for word in test])


def fit_letter_windows(words: Sequence[str], labels: Labels, reach: int = 2) -> Callable[[str], NDArray[np.int64]]:
    """Return a baseline: the commonest label of the letters around a gap, of fewer letters where those are new."""
    counts: dict[str, Counter[int]] = defaultdict(Counter)

    def windows(word: str, position: int) -> list[str]:
        padded = " " * reach + word + " " * reach
        gap = position + reach + 1
        return [f"{padded[gap - size : gap]}|{padded[gap : gap + size]}" for size in range(reach, -1, -1)]

    for word, word_labels in zip(words, labels, strict=True):
        for position, label in enumerate(word_labels):
            for window in windows(word, position):
                counts[window][int(label)] += 1

    def predict(word: str) -> NDArray[np.int64]:
        known = (next(w for w in windows(word, i) if w in counts) for i in range(len(word)))
        return np.array([counts[window].most_common(1)[0][0] for window in known])

    return predict


def scores(truth: Labels, predicted: Sequence[NDArray[np.int64]]) -> tuple[float, float, float]:
    """Return the share of letters right, of words wholly right, and F1 of the breaks."""
    flat, flat_predicted = np.concatenate(truth), np.concatenate(list(predicted))
    words_right = np.mean([np.array_equal(a, b) for a, b in zip(truth, predicted, strict=True)])
    hits = np.sum((flat == 1) & (flat_predicted == 1))
    f1 = 2 * hits / max(1, np.sum(flat == 1) + np.sum(flat_predicted == 1))
    return float(np.mean(flat == flat_predicted)), float(words_right), float(f1)


def score_table(rows: dict[str, tuple[float, float, float]]) -> Table:
    """Lay out the scores of the model and its baselines."""
    columns = ("", "letters right", "words wholly right", "F1 of the breaks")
    shares = ((name, *(f"{100 * value:.1f} %" for value in values)) for name, values in rows.items())
    return table_of("On words never seen", columns, shares, n_left=1)


def hyphenate(word: str, labels: NDArray[np.int64]) -> str:
    """Put a hyphen after each letter labelled 1."""
    return "".join(letter + "-" * int(label) for letter, label in zip(word, labels, strict=True))


def example_table(words: Sequence[str], truth: Labels, predicted: Labels, probabilities: list[NDArray]) -> Table:
    """Show words with the probability of a break after each letter where it is not negligible."""
    rows = []
    for word, correct, found, probability in zip(words, truth, predicted, probabilities, strict=True):
        chances = "  ".join(f"{word[: i + 1]}· {p:.0%}" for i, p in enumerate(probability) if p >= 0.05)
        style = "green" if np.array_equal(correct, found) else "red"
        rows.append((Text(hyphenate(word, found), style=style), hyphenate(word, correct), chances or "nowhere"))
    title = "A few of them, with the probability of a break"
    return table_of(title, ("model", "patterns", "break after"), rows, n_left=3)


def run_demo(n_words: int = 6000, seed: int = 0, console: Console | None = None) -> float:
    """Train, score against two baselines and show a few words; return the model's share of letters right."""
    console = console or Console()
    words = load_words(n_words, seed)
    console.print(
        f"Learning where English words may be hyphenated, from {len(words.train):,} words "
        f"({sum(map(len, words.train)):,} letters); {len(words.test):,} others are kept unseen."
    )
    start = time.perf_counter()
    model = seqboost.TreeCRF(window=5, potentials="joint", verbose=1, random_state=seed)
    model.fit(words.train, words.train_breaks)
    seconds = time.perf_counter() - start

    predicted = model.predict(words.test)
    baseline = fit_letter_windows(words.train, words.train_breaks)
    rows = {
        "never a break": scores(words.test_breaks, [np.zeros_like(y) for y in words.test_breaks]),
        "commonest for 2 + 2 letters": scores(words.test_breaks, [baseline(word) for word in words.test]),
        "TreeCRF": scores(words.test_breaks, predicted),
    }
    console.print(f"Trained in {seconds:.1f} s, compilation included.")
    console.print()
    console.print(score_table(rows))

    shown = [i for i, word in enumerate(words.test) if word in SHOWN] or list(range(min(10, len(words.test))))
    examples = [words.test[i] for i in shown]
    column = int(np.flatnonzero(np.asarray(model.classes_) == 1)[0])
    chances = [probability[:, column] for probability in model.predict_proba(examples)]
    console.print(
        example_table(examples, [words.test_breaks[i] for i in shown], [predicted[i] for i in shown], chances)
    )
    return rows["TreeCRF"][0]
