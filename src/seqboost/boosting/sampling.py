"""Which regression examples a tree is fitted to.

An example is a cell (t, c): a position and a context. It is *positive* for label k if the labels say so, y_t = k after
context c, and *negative* otherwise: with K labels there are K² − 1 negative examples for every positive one. Where a
scheme draws cells, it draws the negative ones position by position (all contexts of a position or none): each cell has
the chance that the scheme gives it, and a tree still costs no more than the positions it is fitted to::

    positions of y_t = k        p share of them: the positive cell
    all positions               n share of them: the negative cells         fitted = the union of the two

Samplers are settings: plain values that scikit-learn can clone and search over.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.exceptions import ParameterError

__all__ = ["Everything", "Examples", "Goss", "Sample", "Sampler", "Sequences", "Stratified", "Trimmed", "Uniform"]

Generator = np.random.Generator


class Examples(NamedTuple):
    """What samplers know of the training sequences, whose positions are the first of all rows."""

    labels: NDArray[np.int32]  # (n_rows,) −1 = unobserved, or a lag is
    slot: NDArray[np.int32]  # (n_rows,) context that the labels give
    sequence: NDArray[np.int64]  # (n_rows,) number of the sequence
    n_fitted: int  # positions of training sequences
    n_rows: int  # those of validation sequences too


class Sample(NamedTuple):
    """What one tree is fitted to."""

    rows: NDArray[np.int32]  # every position once: first those of the sample, then the others, each in rising order
    n_fitted: int  # positions of the sample
    gradient: NDArray[np.float32]  # (n_rows, n_contexts) meaningful at the positions of the sample
    hessian: NDArray[np.float32]  # (n_rows, n_contexts)


class View(NamedTuple):
    """What a sampler looks at."""

    influence: NDArray[np.float32]  # (n_fitted, n_contexts) |Δ| of the training rows
    label: int  # of the tree; −1: of all labels
    examples: Examples
    rng: Generator


class Choice(NamedTuple):
    """What a sampler answers."""

    rows: NDArray[np.bool_]  # (n_fitted,) training rows that are fitted
    weight: NDArray[np.float32] | None = None  # (n_fitted, 1 or n_contexts) of their cells; None: all 1


class Sampler(ABC):
    """Draws what a tree is fitted to."""

    @abstractmethod
    def choose(self, view: View) -> Choice:
        """Choose training rows, and weights of their cells."""

    def draw(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        label: int,
        examples: Examples,
        rng: Generator,
    ) -> Sample:
        """Return the sample of a label's tree; ``gradient`` and ``hessian`` (n_rows, n_contexts) stay as they are."""
        chosen, weight = self.choose(View(np.abs(gradient[: examples.n_fitted]), label, examples, rng))
        rows, n_fitted = _arranged(chosen, examples)
        if weight is None:
            return Sample(rows, n_fitted, gradient, hessian)
        fitted = rows[:n_fitted]
        new_gradient, new_hessian = np.zeros_like(gradient), np.zeros_like(hessian)
        new_gradient[fitted] = gradient[fitted] * weight[fitted]
        new_hessian[fitted] = hessian[fitted] * weight[fitted]
        return Sample(rows, n_fitted, new_gradient, new_hessian)


def _arranged(chosen: NDArray[np.bool_], examples: Examples) -> tuple[NDArray[np.int32], int]:
    """Return all rows, the chosen training rows first, and the number of those; never none at all."""
    if not chosen.any():
        chosen = np.ones(examples.n_fitted, dtype=bool)
    first = np.flatnonzero(chosen)
    rest = np.flatnonzero(~chosen)
    held_out = np.arange(examples.n_fitted, examples.n_rows)
    return np.concatenate([first, rest, held_out]).astype(np.int32), len(first)


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
        return Choice(np.ones(view.examples.n_fitted, dtype=bool))

    def draw(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        label: int,
        examples: Examples,
        rng: Generator,
    ) -> Sample:
        """Return all rows as they are, without looking at them."""
        return Sample(np.arange(examples.n_rows, dtype=np.int32), examples.n_fitted, gradient, hessian)


@dataclass(frozen=True)
class Uniform(Sampler):
    """Each position with the same chance (stochastic gradient boosting, Friedman 2002).

    Parameters
    ----------
    rate : float
        Share of the positions, above 0 and at most 1.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> TreeCRF(sampling=Uniform(0.5), window=2)
    TreeCRF(sampling=Uniform(rate=0.5), window=2)
    """

    rate: float

    def __post_init__(self) -> None:
        """Check the rate."""
        _check_share("rate of Uniform", self.rate)

    def choose(self, view: View) -> Choice:
        """Choose a share of the positions."""
        return Choice(view.rng.random(view.examples.n_fitted) < self.rate)


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
        of_row = view.examples.sequence[: view.examples.n_fitted]
        return Choice((view.rng.random(int(of_row[-1]) + 1) < self.rate)[of_row])


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
        n, n_contexts = view.influence.shape
        labels = view.examples.labels[:n]
        is_positive = labels == view.label
        draws = view.rng.random((2, n))
        takes_positive = is_positive & (draws[0] < self.positive)
        takes_negative = draws[1] < self._negative_rate(labels, view.label, int(is_positive.sum()), n_contexts)
        if not (takes_positive.any() and takes_negative.any()):  # a rare label in a small sample: nothing to contrast
            takes_positive, takes_negative = is_positive, np.ones(n, dtype=bool)
        weight_positive, weight_negative = 1.0, 1.0
        if self.balanced:
            n_positive = max(1, int(takes_positive.sum()))
            n_negative = max(1, int(takes_negative.sum()) * n_contexts - int((takes_negative & is_positive).sum()))
            half = (n_positive + n_negative) / 2
            weight_positive, weight_negative = half / n_positive, half / n_negative
        # all cells of a position as negative ones, then its one positive cell
        weight = np.repeat((takes_negative * weight_negative).astype(np.float32)[:, None], n_contexts, axis=1)
        positive = np.flatnonzero(is_positive)
        weight[positive, view.examples.slot[positive]] = takes_positive[positive] * weight_positive
        return Choice(takes_positive | takes_negative, weight)

    def _negative_rate(
        self, labels: NDArray[np.int32], label: int, n_positive: int, n_contexts: int
    ) -> NDArray[np.float64] | float:
        """Return the chance with which a position's negative cells are drawn, for all or by position."""
        n_negative = len(labels) * n_contexts - n_positive
        wanted = self.negative * n_negative if self.negative <= 1 else self.negative * n_positive
        if not self.by_label:
            return wanted / max(n_negative, 1)
        count = np.bincount(labels[labels >= 0], minlength=label + 1)
        n_present = max(1, int(np.count_nonzero(count)))
        rate_of = (wanted / n_present) / np.maximum(count * n_contexts, 1)
        rates: NDArray[np.float64] = np.where(
            labels >= 0, rate_of[np.maximum(labels, 0)], wanted / max(n_negative, 1)
        )
        return rates


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
        threshold = self.below if self.below is not None else self._threshold(view.influence)
        keeps: NDArray[np.bool_] = view.influence >= threshold
        if not keeps.any():
            return Choice(np.ones(len(keeps), dtype=bool))
        return Choice(np.any(keeps, axis=1), keeps.astype(np.float32))

    def _threshold(self, influence: NDArray[np.float32]) -> float:
        """Return the largest of 1,000 levels below which less than ``share`` of the total lies."""
        assert self.share is not None
        largest = float(influence.max(initial=0.0))
        if largest == 0:
            return 0.0
        flat = influence.ravel()
        level = (flat * np.float32(999 / largest)).astype(np.int64)
        below = np.cumsum(np.bincount(level, weights=flat, minlength=1000))
        n_levels = int(np.searchsorted(below, self.share * below[-1]))
        return n_levels * largest / 999


@dataclass(frozen=True)
class Goss(Sampler):
    """Gradient-based one-side sampling (Ke et al. 2017): all large gradients, and some others at a higher weight.

    Parameters
    ----------
    top : float, default=0.2
        Share of the positions with the largest Σ_c |Δ|, all of which are taken.
    other : float, default=0.1
        Share of all positions that is drawn from the rest, each with the weight (1 − top) / other: sums of gradients
        and curvatures are then right on average.
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
        influence = view.influence.sum(axis=1)
        n = len(influence)
        n_top = max(1, int(self.top * n))
        is_top = np.zeros(n, dtype=bool)
        is_top[np.argpartition(influence, n - n_top)[n - n_top :]] = True
        chance = self.other / (1 - self.top) if self.top < 1 else 1.0
        weight = np.where(is_top, 1.0, 1.0 / chance).astype(np.float32)[:, None]
        return Choice(is_top | (view.rng.random(n) < chance), weight)
