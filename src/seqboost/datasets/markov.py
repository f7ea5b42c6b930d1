"""Synthetic sequences of Markov chains, whose labels depend on the input, on the labels before, or on both."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from seqboost.core.exceptions import ParameterError

__all__ = ["make_cycle", "make_hmm", "make_rare_events"]

KINDS = {
    "transition": {"p_observe": 0.2, "n_observe": 8, "p_stay": 0.6, "n_next": 2},
    "both": {"p_observe": 0.6, "n_observe": 2, "p_stay": 0.6, "n_next": 2},
}

Sequences = tuple[list[NDArray[np.str_]], list[NDArray[np.int64]]]


def make_hmm(
    kind: str = "transition", *, n_sequences: int = 500, length: int = 20, n_labels: int = 40, random_state: Any = None
) -> Sequences:
    """Draw sequences from the hidden Markov model of Hao (2009), section 5.4.

    Label i emits observation i with probability p_o, and otherwise one of k_o others that were drawn for it; the next
    label is i again with probability p_l, and otherwise one of k_l others. As many observations as labels.

    Parameters
    ----------
    kind : {"transition", "both"}, default="transition"
        Transition: p_o = 0.2, k_o = 8, the input says little. Both: p_o = 0.6, k_o = 2. In both p_l = 0.6, k_l = 2.
    n_sequences, length : int
        How many sequences, of which length; the source does not tell its own numbers.
    n_labels : int, default=40
        Number of labels.
    random_state : int, RandomState or None, default=None
        Seed. The model is drawn first, so that a larger number of sequences from the same seed has the same model.

    Returns
    -------
    X : list of ndarray of str
        Observations, "o0", "o1", …
    y : list of ndarray of int
        Labels.

    References
    ----------
    Hao, G. (2009). Revisiting output coding for sequential supervised learning. MSc thesis, Oregon State University.

    Examples
    --------
    >>> from seqboost.datasets import make_hmm
    >>> X, y = make_hmm("both", n_sequences=2, length=4, random_state=0)
    >>> print(*X[0])
    o35 o35 o35 o31
    >>> print(*y[0])
    35 35 35 38
    """
    if kind not in KINDS:
        raise ParameterError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    p = KINDS[kind]
    if n_labels <= p["n_observe"]:
        raise ParameterError(f"the kind {kind!r} needs more than {p['n_observe']} labels, got n_labels={n_labels}")
    rng = check_random_state(random_state)
    others = [np.delete(np.arange(n_labels), i) for i in range(n_labels)]
    emitted = np.array([rng.permutation(rest)[: int(p["n_observe"])] for rest in others])
    following = np.array([rng.permutation(rest)[: int(p["n_next"])] for rest in others])
    X, y = [], []
    for _ in range(n_sequences):
        labels = np.empty(length, dtype=np.int64)
        labels[0] = rng.randint(n_labels)
        for t in range(1, length):
            labels[t] = labels[t - 1]
            if rng.rand() >= p["p_stay"]:
                labels[t] = following[labels[t - 1], rng.randint(following.shape[1])]
        told = rng.rand(length) < p["p_observe"]
        other = emitted[labels, rng.randint(emitted.shape[1], size=length)]
        X.append(np.array([f"o{v}" for v in np.where(told, labels, other)]))
        y.append(labels)
    return X, y


def make_cycle(
    *, n_sequences: int = 200, length: int = 12, spacing: int = 4, n_labels: int = 3, random_state: Any = None
) -> Sequences:
    """Draw sequences of the cycle of Hao (2009), section 3.3, 1 → 2 → 3 → 1 and so on.

    Each label follows from the one before, but of one bit of a code alone (is it label 1?) the next does not: after 0
    comes 0 or 1. Here and there the input tells the label, elsewhere it says "?".

    Parameters
    ----------
    n_sequences, length : int
        How many sequences, of which length; they begin anywhere in the cycle.
    spacing : int, default=4
        The input tells the label at every so many positions, beginning anywhere.
    n_labels : int, default=3
        Number of labels of the cycle.
    random_state : int, RandomState or None, default=None
        Seed.

    Returns
    -------
    X : list of ndarray of str
        "?", or the label.
    y : list of ndarray of int
        Labels, from 1 on.

    Examples
    --------
    >>> from seqboost.datasets import make_cycle
    >>> X, y = make_cycle(n_sequences=1, length=8, random_state=0)
    >>> print(*X[0])
    ? 2 ? ? ? 3 ? ?
    >>> print(*y[0])
    1 2 3 1 2 3 1 2
    """
    if min(n_labels, spacing, length, n_sequences) < 1 or n_labels < 2:
        raise ParameterError(
            f"make_cycle needs at least 2 labels, and at least 1 of all else; got n_labels={n_labels}, "
            f"spacing={spacing}, length={length}, n_sequences={n_sequences}"
        )
    rng = check_random_state(random_state)
    X, y = [], []
    for _ in range(n_sequences):
        labels = (rng.randint(n_labels) + np.arange(length)) % n_labels + 1
        told = (np.arange(length) + rng.randint(spacing)) % spacing == 0
        X.append(np.where(told, labels.astype(str), "?"))
        y.append(labels.astype(np.int64))
    return X, y


def make_rare_events(
    n_sequences: int = 100,
    *,
    length: int = 400,
    share: float = 0.01,
    duration: float = 10.0,
    shift: float = 1.6,
    n_columns: int = 3,
    random_state: Any = None,
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.int64]]]:
    """Draw noisy recordings with rare events, for the study of class weights.

    An event (label 1) begins at random and lasts ``duration`` positions on average; during events the first column is
    shifted. All columns have unit variance, and the others say nothing.

    Parameters
    ----------
    n_sequences, length : int
        How many sequences, and how long each of them is.
    share : float, default=0.01
        Expected share of positions within events.
    duration : float, default=10.0
        Mean length of an event.
    shift : float, default=1.6
        How far events move the first column, in standard deviations.
    n_columns : int, default=3
        Number of columns.
    random_state : int, RandomState or None, default=None
        Seed.

    Returns
    -------
    X : list of ndarray of shape (length, n_columns)
    y : list of ndarray of int
        0, or 1 within an event.

    Examples
    --------
    >>> from seqboost.datasets import make_rare_events
    >>> X, y = make_rare_events(50, random_state=0)
    >>> X[0].shape, round(float(np.mean(y)), 3)
    ((400, 3), 0.01)
    """
    if not (0 < share < 1 and duration >= 1 and min(n_sequences, length, n_columns) >= 1):
        raise ParameterError(
            f"make_rare_events needs 0 < share < 1, duration >= 1 and at least 1 of all else; got share={share}, "
            f"duration={duration}, n_sequences={n_sequences}, length={length}, n_columns={n_columns}"
        )
    rng = check_random_state(random_state)
    ends, begins = 1 / duration, share / (1 - share) / duration
    X, y = [], []
    for _ in range(n_sequences):
        labels = np.empty(length, dtype=np.int64)
        labels[0] = rng.rand() < share
        draws = rng.rand(length)
        for t in range(1, length):
            labels[t] = draws[t] >= ends if labels[t - 1] else draws[t] < begins
        values = rng.normal(size=(length, n_columns))
        values[:, 0] += shift * labels
        X.append(values)
        y.append(labels)
    return X, y
