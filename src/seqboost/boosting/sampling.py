"""Which regression examples a tree is fitted to.

An example is a cell (t, c): a position and a context. It is *positive* for label k if the labels say so, y_t = k after
context c, and *negative* otherwise: with K labels there are K² − 1 negative examples for every positive one. Where a
scheme draws cells, it draws the negative ones position by position (all contexts of a position or none): each cell has
the chance that the scheme gives it, and a tree still costs no more than the positions it is fitted to::

    positions of y_t = k        p share of them: the positive cell
    all positions               n share of them: the negative cells         fitted = the union of the two

Where a share is drawn, just so many are, without replacement (:mod:`seqboost.boosting.drawing`).

Samplers are settings: plain values that scikit-learn can clone and search over.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import drawing
from seqboost.core.exceptions import ParameterError
from seqboost.core.offsets import sequence_numbers
from seqboost.trees import Fitted

__all__ = [
    "Everything",
    "Examples",
    "Goss",
    "Sample",
    "Sampler",
    "Sequences",
    "Stratified",
    "Trimmed",
    "Uniform",
]

SALT = 0xD1B54A32D192ED03  # sets the draws of a seed apart from the features that a tree draws by it


class Examples(NamedTuple):
    """What samplers know of the training sequences, whose positions are the first of all rows."""

    labels: NDArray[np.int32]  # (n_rows,) −1 = unobserved, or a lag is
    slot: NDArray[np.int32]  # (n_rows,) context that the labels give
    sequence: NDArray[np.int64]  # (n_rows,) number of the sequence
    n_fitted: int  # positions of training sequences
    n_rows: int  # those of validation sequences too

    @classmethod
    def of_sequences(
        cls, labels: NDArray[np.int32], slot: NDArray[np.int32], offsets: NDArray[np.int64], n_fitted: int
    ) -> Examples:
        """Return the examples of sequences that begin at ``offsets``."""
        return cls(labels, slot, sequence_numbers(offsets), n_fitted, len(labels))


class Sample(NamedTuple):
    """What one tree is fitted to."""

    gradient: NDArray[np.float32]  # (n_rows, n_contexts), or (n_labels, n_rows, n_contexts) of a tree for all labels
    hessian: NDArray[np.float32]  # of the same shape
    fitted: Fitted  # the rows, those of the sample first, and the weights of their cells


class View(NamedTuple):
    """What a sampler looks at."""

    gradient: NDArray[np.float32]  # (n_labels, n_rows, n_contexts) Δ; one label for a tree of one label
    label: int  # of the tree; −1: of all labels
    examples: Examples
    seed: np.uint64


class Choice(NamedTuple):
    """What a sampler answers."""

    rows: NDArray[np.int32]  # training rows that are fitted, in rising order
    weight: NDArray[np.float32] | None = None  # (rows.size, 1 or n_labels * n_contexts) of their cells; None: all 1


class Sampler(ABC):
    """Draws what a tree is fitted to."""

    @abstractmethod
    def choose(self, view: View) -> Choice:
        """Choose training rows, at least one, and weights of their cells."""

    def draw(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        label: int,
        examples: Examples,
        seed: int,
    ) -> Sample:
        """Return the sample of a label's tree, or (label −1, arrays with an axis of labels) of a tree for all."""
        cells = gradient.reshape(-1, *gradient.shape[-2:])
        chosen, weight = self.choose(View(cells, label, examples, np.uint64(seed ^ SALT)))
        if weight is None:
            weight = np.empty((chosen.size, 0), dtype=np.float32)
        rows = np.arange(examples.n_rows, dtype=np.int32)
        if chosen.size < examples.n_fitted:
            drawing.arrange(chosen, examples.n_fitted, rows)
        return Sample(gradient, hessian, Fitted(rows, chosen.size, weight))


def _all_rows(view: View) -> Choice:
    return Choice(np.arange(view.examples.n_fitted, dtype=np.int32))


def _wanted(share: float, n: int) -> int:
    """Return how many a share of ``n`` things are, at least one of them."""
    return min(n, max(1, round(share * n)))


def _taken(n: int, n_wanted: int, seed: np.uint64) -> NDArray[np.int32]:
    taken = np.empty(n, dtype=np.int32)
    drawing.take(n, n_wanted, seed, taken)
    return taken[:n_wanted]


def _check_share(name: str, value: float, *, above_one: bool = False) -> None:
    """Raise ParameterError unless ``value`` is a share, above 0 and at most 1."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not value > 0 or not (above_one or value <= 1) or not np.isfinite(value):
        limit = "above 0" if above_one else "above 0 and at most 1"
        raise ParameterError(f"{name} must be a number {limit}, got {value!r}")


@dataclass(frozen=True)
class Everything(Sampler):
    """All examples: no sampling."""

    def choose(self, view: View) -> Choice:
        """Choose all training rows."""
        return _all_rows(view)


@dataclass(frozen=True)
class Uniform(Sampler):
    """Each position with the same chance (stochastic gradient boosting, Friedman 2002).

    Parameters
    ----------
    rate : float
        Share of the positions, above 0 and at most 1.

    Examples
    --------
    >>> from seqboost import Method
    >>> Method(sampling=Uniform(0.5))
    Method(sampling=Uniform(rate=0.5))
    """

    rate: float

    def __post_init__(self) -> None:
        """Check the rate."""
        _check_share("rate of Uniform", self.rate)

    def choose(self, view: View) -> Choice:
        """Choose a share of the positions."""
        n = view.examples.n_fitted
        return Choice(_taken(n, _wanted(self.rate, n), view.seed))


@dataclass(frozen=True)
class Sequences(Sampler):
    """Each whole sequence with the same chance.

    Parameters
    ----------
    rate : float
        Share of the sequences, above 0 and at most 1.
    """

    rate: float

    def __post_init__(self) -> None:
        """Check the rate."""
        _check_share("rate of Sequences", self.rate)

    def choose(self, view: View) -> Choice:
        """Choose the positions of a share of the sequences."""
        n = view.examples.n_fitted
        n_sequences = int(view.examples.sequence[n - 1]) + 1
        rows = np.empty(n, dtype=np.int32)
        chosen = _taken(n_sequences, _wanted(self.rate, n_sequences), view.seed)
        return Choice(rows[: drawing.take_marked(view.examples.sequence, chosen, rows)])


@dataclass(frozen=True)
class Stratified(Sampler):
    """Positive and negative examples at rates of their own (Gutmann & Kersting 2007, "stratified gradient boosting").

    A rate of at most 1 is a share of its stratum; a larger ``negative`` is the number of negative examples for each
    positive one: ``Stratified(1, 3)``, written "1p/3n" as in the paper, takes all positive examples and three times as
    many negative ones. Trees see the drawn examples as they are: the shift towards positive ones is the purpose.

    Parameters
    ----------
    positive : float, default=1.0
        Share of the positive examples, above 0 and at most 1.
    negative : float, default=1.0
        Share of the negative examples, or (above 1) their number for each positive one.
    by_label : bool, default=False
        Draw as many negative examples from the positions of each label, however rare it is.
    balanced : bool, default=False
        Weigh the examples so that positive and negative ones have the same sum of weights (Kersting & Gutmann 2006).

    Examples
    --------
    >>> Stratified.parse("1p/3n")
    Stratified(positive=1.0, negative=3.0, by_label=False, balanced=False)
    """

    positive: float = 1.0
    negative: float = 1.0
    by_label: bool = False
    balanced: bool = False

    def __post_init__(self) -> None:
        """Check the rates."""
        _check_share("positive of Stratified", self.positive)
        _check_share("negative of Stratified", self.negative, above_one=True)

    @classmethod
    def parse(cls, text: str) -> Stratified:
        """Read the paper's notation, such as "1p/3n" or "0.5p/0.5n"."""
        number = r"(\d+(?:\.\d*)?|\.\d+)"
        match = re.fullmatch(rf"\s*{number}\s*p\s*/\s*{number}\s*n\s*", text)
        if match is None:
            raise ParameterError(f"expected a sampling scheme such as '1p/3n' or '0.5p/0.5n', got {text!r}")
        return cls(float(match[1]), float(match[2]))

    def choose(self, view: View) -> Choice:
        """Choose the positive cells of some positions and the negative cells of others."""
        n, n_contexts, label = view.examples.n_fitted, view.gradient.shape[2], view.label
        labels = view.examples.labels[:n]
        count = np.bincount(labels + 1, minlength=label + 2)  # first those without a label
        n_positive = int(count[label + 1])
        if n_positive == 0 or (self.positive == self.negative == 1 and not (self.by_label or self.balanced)):
            return _all_rows(view)  # nothing to contrast with, or nothing to draw
        wanted, left = self.rows_wanted(count, n_positive, n_contexts)
        n_negative = int(wanted.sum()) * n_contexts
        wanted_positive = _wanted(self.positive, n_positive)
        rows, part = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.uint8)
        n_drawn, n_both = drawing.take_strata(
            labels, label, (wanted_positive, n_positive), wanted, left, view.seed, rows, part
        )
        weights = (1.0, 1.0)
        if self.balanced:
            counts = wanted_positive, max(1, n_negative - n_both)
            half = sum(counts) / 2
            weights = half / counts[0], half / counts[1]
        rows, part = rows[:n_drawn], part[:n_drawn]
        weight = np.empty((n_drawn, n_contexts), dtype=np.float32)
        drawing.weigh_strata(labels, view.examples.slot, label, rows, part, weights, weight)
        return Choice(rows, weight)

    def rows_wanted(
        self, count: NDArray[np.int64], n_positive: int, n_contexts: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many positions are drawn for their negative cells, and of how many: of all, or by label + 1.

        ``count`` has the positions of each label, first those without one.
        """
        n = int(count.sum())
        n_negative = n * n_contexts - n_positive
        wanted = self.negative * n_negative if self.negative <= 1 else self.negative * n_positive
        rate = wanted / max(n_negative, 1)
        if not self.by_label:
            return np.array([_wanted(rate, n)], dtype=np.int64), np.array([n], dtype=np.int64)
        n_present = max(1, int(np.count_nonzero(count[1:])))
        rates = (wanted / n_present) / np.maximum(count * n_contexts, 1)
        rates[0] = rate
        return np.array([_wanted(r, c) for r, c in zip(rates.tolist(), count.tolist(), strict=True)]), count


@dataclass(frozen=True)
class Trimmed(Sampler):
    """Leave out the examples that hardly matter (influence trimming, Friedman, Hastie & Tibshirani 2000).

    Parameters
    ----------
    below : float, optional
        Leave out examples with |Δ| below this.
    share : float, optional
        Leave out the smallest |Δ| that together hold less than this share of Σ|Δ|. One of the two must be given.
    """

    below: float | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        """Check that one of the two is there."""
        if (self.below is None) == (self.share is None):
            raise ParameterError("Trimmed needs either `below` or `share`")
        _check_share("below or share of Trimmed", self.below if self.below is not None else self.share or 0.0)

    def choose(self, view: View) -> Choice:
        """Choose the positions with at least one example that matters, and of their examples those that do."""
        n, (n_labels, _, n_contexts) = view.examples.n_fitted, view.gradient.shape
        threshold = self.below if self.below is not None else self.threshold(view.gradient, n)
        rows, weight = np.empty(n, dtype=np.int32), np.empty((n, n_labels * n_contexts), dtype=np.float32)
        n_kept = drawing.trim(view.gradient, threshold, rows, weight)
        return Choice(rows[:n_kept], weight[:n_kept]) if n_kept > 0 else _all_rows(view)

    def threshold(self, gradient: NDArray[np.float32], n_fitted: int) -> float:
        """Return the largest of 1,000 levels below which less than ``share`` of the total lies."""
        assert self.share is not None
        sums = np.empty(drawing.N_LEVELS)
        largest = drawing.trimming_levels(gradient, n_fitted, sums)
        below = np.cumsum(sums)
        n_levels = int(np.searchsorted(below, self.share * below[-1])) if largest > 0 else 0
        return n_levels * largest / (drawing.N_LEVELS - 1)


@dataclass(frozen=True)
class Goss(Sampler):
    """Gradient-based one-side sampling (Ke et al. 2017): all large gradients, and some others at a higher weight.

    Parameters
    ----------
    top : float, default=0.2
        Share of the positions with the largest Σ_c |Δ|, all of which are taken.
    other : float, default=0.1
        Share of all positions that is drawn from the rest, each with a weight of about (1 − top) / other, their number
        over the number drawn: sums of gradients and curvatures are then right on average.
    """

    top: float = 0.2
    other: float = 0.1

    def __post_init__(self) -> None:
        """Check the shares."""
        _check_share("top of Goss", self.top)
        _check_share("other of Goss", self.other)
        if self.top + self.other > 1:
            raise ParameterError(f"top and other of Goss must not exceed 1 together, got {self.top} and {self.other}")

    def choose(self, view: View) -> Choice:
        """Choose the positions with large gradients and a weighted share of the others."""
        n = view.examples.n_fitted
        n_top = max(1, int(self.top * n))
        n_rest = n - n_top
        n_other = min(n_rest, max(1, round(self.other * n)))
        if n_other == n_rest:
            return _all_rows(view)
        influence = np.empty(n, dtype=np.float32)
        drawing.row_influence(view.gradient, influence)
        bits = influence.view(np.uint32)
        top = drawing.kth_largest(bits, n_top, np.empty(drawing.DIGIT, dtype=np.int64))
        rows, weight = np.empty(n, dtype=np.int32), np.empty((n, 1), dtype=np.float32)
        drawing.take_goss(bits, top, (n_other, n_rest), n_rest / n_other, view.seed, rows, weight)
        return Choice(rows[: n_top + n_other], weight[: n_top + n_other])
