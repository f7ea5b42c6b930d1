"""States and arcs of the back-off chain: the contexts that were seen, and what stands in for all others.

Legend
------
K labels, order m.  A *history* is what came before a position: up to m symbols, oldest first, of which the oldest may
be the start symbol ⊥ (code K), which stands before the first label and nowhere else.  The *states* are

    ε, the K single labels, ⊥, and the histories of up to m symbols that labels followed in training (not too rarely)

so with every state all its parts are states too.  A position is in the longest state that its history ends with, hence
after label k in state s it moves to the longest end of s·k that is a state.  An *arc* (s, k) is there if label k
followed history s in training (likewise), and for all k at ε.  back(s) is s without its oldest symbol.  The score of
label k is

    T(s, k) = θ(s, k) + T(back(s), k)      (s, k) is an arc                                  T(ε, k) = θ(ε, k)
    T(s, k) = β(s)    + T(back(s), k)      it is not, and k is treated as after back(s)

θ of arcs and β of states are the parameters of the chain, together one vector ``table`` (arcs, then states; β(ε) = 0 is
never used).  Because T(s, ·) differs from T(back(s), ·) at the arcs of s alone, sums over all K labels of all S states
need only the arcs (failure transitions).

Near the start, ⊥ makes histories of fewer than m labels states of their own, as in :mod:`seqboost.chain.contexts`; an
unseen one shares the state of its end, which may be seen anywhere.  If all K**m contexts were seen, the chain is that
of all contexts.

References
----------
Ye, N., Lee, W. S., Chieu, H. L. and Wu, D. (2009). Conditional random fields with high-order features for sequence
labeling. NIPS. (States are the prefixes of the label patterns that occur.)

Cuong, N. V., Ye, N., Lee, W. S. and Chieu, H. L. (2014). Conditional random field with high-order dependencies for
sequence labeling and segmentation. JMLR 15.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError
from seqboost.core.jit import inner, jit
from seqboost.core.offsets import positions, starts_of
from seqboost.core.stored import MAX_CELLS

__all__ = ["Graph", "SeenContexts", "find_arc", "reachable"]


class Graph(NamedTuple):
    """States and arcs as kernels read them.

    States of j labels are numbered ``level[j]:level[j + 1]`` and those of j symbols with the start symbol
    ``start_level[j]:start_level[j + 1]``, so back(s) comes before s.  At position t of a sequence only the states below
    ``level[min(t, m) + 1]`` and those with the start symbol and t + 1 symbols can be reached.
    """

    newest: NDArray[np.int32]  # (S,) newest symbol of a state; 0 for ε
    backoff: NDArray[np.int32]  # (S,) back(s); ε for ε
    level: NDArray[np.int64]  # (m + 2,)
    start_level: NDArray[np.int64]  # (m + 2,)
    arc_start: NDArray[np.int64]  # (S + 1,) arcs of state s: arc_start[s]:arc_start[s + 1], by label
    arc_label: NDArray[np.int32]  # (A,)
    arc_to: NDArray[np.int32]  # (A,) the state it leads to
    arc_parent: NDArray[np.int32]  # (A,) the arc (back(s), k); −1 at ε
    rest_start: NDArray[np.int64]  # (S + 1,)
    rest_arc: NDArray[np.int32]  # arcs of back(s) whose label does not follow s; none for states of one symbol


@inner
def reachable(level: NDArray[np.int64], start_level: NDArray[np.int64], t: int) -> tuple[int, int, int]:
    """Return n, begin, end: the states below n and those from begin to end can be reached at position t."""
    order = level.size - 2
    n = level[min(t, order) + 1]
    return (n, start_level[t + 1], start_level[t + 2]) if t < order else (n, start_level[-1], start_level[-1])


@jit
def find_arc(graph: Graph, s: int, k: int) -> int:
    """Return the arc of label k at state s, -1 if there is none."""
    low, high = graph.arc_start[s], graph.arc_start[s + 1]
    while low < high:
        middle = (low + high) // 2
        if graph.arc_label[middle] < k:
            low = middle + 1
        else:
            high = middle
    return low if low < graph.arc_start[s + 1] and graph.arc_label[low] == k else -1


@dataclass(frozen=True, eq=False)
class SeenContexts:
    """The states and arcs of a chain.

    Parameters
    ----------
    n_labels, order : int
        K and m >= 1.
    prefix, newest : int32 arrays (S,)
        State s is state ``prefix[s]`` followed by the symbol ``newest[s]`` (⊥ = K).  ε is state 0 (both 0), label k is
        state 1 + k; further states by number of symbols, first all without and then all with ⊥.
    arc_start : int64 array (S + 1,)
        Where the arcs of each state begin.
    arc_label : int32 array (A,)
        Labels of arcs, ascending within a state.
    allowed : bool array (K + 1, K)
        ``allowed[a, b]``: label b may follow label a; row K: may open a sequence.

    Examples
    --------
    >>> labels, offsets = np.array([0, 1, 0, 1, 1], np.int32), np.array([0, 3, 5])
    >>> contexts = SeenContexts.from_labels(labels, offsets, n_labels=2, order=2)
    >>> [contexts.history(s) for s in range(contexts.n_states)]
    [(), (0,), (1,), (0, 1), (2,), (2, 0), (2, 1)]
    >>> contexts.n_arcs, contexts.n_parameters
    (10, 17)
    """

    n_labels: int
    order: int
    prefix: NDArray[np.int32]
    newest: NDArray[np.int32]
    arc_start: NDArray[np.int64]
    arc_label: NDArray[np.int32]
    allowed: NDArray[np.bool_]

    @classmethod
    def from_labels(
        cls,
        labels: NDArray[np.int32],
        offsets: NDArray[np.int64],
        n_labels: int,
        order: int,
        *,
        min_count: int = 1,
        allowed: NDArray[np.bool_] | None = None,
    ) -> SeenContexts:
        """Collect the histories and the labels after them.

        Those of two and more symbols must occur at least ``min_count`` times.  From 2 on, what occurs less often in
        training stands for what will not have occurred at all: β is learned from it.

        Parameters
        ----------
        labels : int32 array (N,)
            Label codes, -1 = unobserved: no history holds such a one.
        offsets : int64 array (n_sequences + 1,)
            Where sequences begin.
        n_labels, order : int
            K and m.
        min_count : int
            Least number of occurrences of histories of two or more symbols, and of labels after them.
        allowed : bool array (K + 1, K), optional
            Constraint; by default everything is allowed.
        """
        position = positions(offsets)
        follows = np.flatnonzero((position > 0) & (np.append(-1, labels[:-1]) >= 0))
        of_length = np.where(position == 0, n_labels + 1, -1)  # ⊥ is state K + 1 for now
        of_length[follows] = 1 + labels[follows - 1]
        prefix, newest = np.zeros(n_labels + 2, np.int64), np.arange(-1, n_labels + 1)
        newest[0] = 0
        seen = labels >= 0
        kept = seen & (of_length >= 0)
        pairs = [of_length[kept] * n_labels + labels[kept]]
        for _ in range(2, order + 1):
            longer = np.full_like(of_length, -1)
            grows = follows[of_length[follows - 1] >= 0]
            key = of_length[grows - 1] * n_labels + labels[grows - 1]
            known, place, count = np.unique(key[seen[grows]], return_inverse=True, return_counts=True)
            number = np.where(count >= min_count, len(prefix) - 1 + np.cumsum(count >= min_count), -1)
            longer[grows[seen[grows]]] = number[place]
            prefix = np.append(prefix, known[count >= min_count] // n_labels)
            newest = np.append(newest, known[count >= min_count] % n_labels)
            of_length = longer
            kept = of_length >= 0
            pairs.append(of_length[kept] * n_labels + labels[kept])
        arcs, count = np.unique(np.concatenate(pairs), return_counts=True)
        often = (count >= min_count) | (arcs < (n_labels + 2) * n_labels)  # of more than one symbol
        arcs = np.append(np.arange(n_labels), arcs[often])  # those of ε come first
        new = _numbering(prefix, newest, n_labels)
        state, label = new[arcs // n_labels], arcs % n_labels
        order_of_arcs = np.lexsort((label, state))
        old = np.argsort(new)
        return cls(
            n_labels,
            order,
            new[prefix[old]].astype(np.int32),
            newest[old].astype(np.int32),
            np.searchsorted(state[order_of_arcs], np.arange(len(new) + 1)).astype(np.int64),
            label[order_of_arcs].astype(np.int32),
            np.ones((n_labels + 1, n_labels), bool) if allowed is None else allowed,
        )

    @property
    def n_states(self) -> int:
        """S, ε included."""
        return len(self.prefix)

    @property
    def n_arcs(self) -> int:
        """A."""
        return len(self.arc_label)

    @property
    def n_parameters(self) -> int:
        """Length of the table: A + S."""
        return self.n_arcs + self.n_states

    @property
    def start(self) -> int:
        """State of the first position, ⊥."""
        return int(self.graph.start_level[1])

    @property
    def is_constrained(self) -> bool:
        """Whether some transition is forbidden."""
        return not bool(self.allowed.all())

    def history(self, state: int) -> tuple[int, ...]:
        """Symbols of a state, oldest first; ⊥ = K."""
        symbols: list[int] = []
        while state:
            symbols.append(int(self.newest[state]))
            state = int(self.prefix[state])
        return tuple(reversed(symbols))

    @cached_property
    def graph(self) -> Graph:
        """What kernels read; ParameterError if states and arcs do not fit together."""
        return _graph(self)

    @cached_property
    def open(self) -> NDArray[np.float64]:
        """1 where label k is allowed after state r of one symbol (row K: ⊥) but has no arc there, shape (K + 1, K)."""
        rows = self.allowed.astype(np.float64)
        for row, state in enumerate([*range(1, self.n_labels + 1), self.start]):
            rows[row, self.arc_label[self.arc_start[state] : self.arc_start[state + 1]]] = 0.0
        return rows

    def constraints(self) -> NDArray[np.float64]:
        """Return the constraint as a table of order 1, 0 or -inf: first ⊥, then the labels, shape (1 + K, K)."""
        return np.where(np.roll(self.allowed, 1, axis=0), 0.0, -np.inf)

    def transition_scores(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return T(a, b) of label b after label a alone, -inf where forbidden, shape (K, K)."""
        n = self.n_labels
        scores = table[self.n_arcs + 1 : self.n_arcs + 1 + n, None] + table[None, :n]
        for a in range(n):
            arcs = slice(int(self.arc_start[1 + a]), int(self.arc_start[2 + a]))
            scores[a, self.arc_label[arcs]] = table[arcs] + table[self.arc_label[arcs]]
        return np.where(self.allowed[:-1], scores, -np.inf)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that make the chain."""
        names = ("prefix", "newest", "arc_start", "arc_label", "allowed")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], n_labels: int, order: int) -> SeenContexts:
        """Rebuild a chain; KeyError if an array is missing, ParameterError if they do not fit together."""
        dtypes = {"prefix": np.int32, "newest": np.int32, "arc_start": np.int64, "arc_label": np.int32}
        for name, dtype in (dtypes | {"allowed": np.bool_}).items():
            if arrays[name].dtype != dtype or arrays[name].ndim != (2 if name == "allowed" else 1):
                raise _unfit(f"{name} is of type {arrays[name].dtype} and {arrays[name].ndim} dimensions")
        contexts = cls(n_labels, order, **{name: arrays[name] for name in (*dtypes, "allowed")})
        if contexts.n_states * n_labels > MAX_CELLS:
            raise _unfit(f"{contexts.n_states} states of {n_labels} labels are more than a file may hold")
        _ = contexts.graph  # checks everything
        return contexts


def _numbering(prefix: NDArray[np.int64], newest: NDArray[np.int64], n_labels: int) -> NDArray[np.int64]:
    """Return the final number of each state: without ⊥ first, then by number of symbols; parents come before."""
    length, with_start = np.zeros(len(prefix), np.int64), np.zeros(len(prefix), bool)
    for s in range(1, len(prefix)):
        length[s] = length[prefix[s]] + 1
        with_start[s] = newest[s] == n_labels or with_start[prefix[s]]
    number = np.empty(len(prefix), np.int64)
    number[np.lexsort((np.arange(len(prefix)), length, with_start))] = np.arange(len(prefix))
    return number


def _graph(contexts: SeenContexts) -> Graph:
    """Derive what follows from prefixes and arcs, checking that every state's parts are there."""
    n_labels, order = contexts.n_labels, contexts.order
    prefix, newest = contexts.prefix.astype(np.int64), contexts.newest.astype(np.int64)
    level, start_level = _levels(prefix, newest, n_labels, order)
    n_states, start = len(prefix), int(start_level[1])
    key = prefix * n_labels + newest  # of children by label: ascending from state 1 on, but for ⊥
    keys = {int(k): s for s, k in enumerate(key) if s not in (0, start)}
    if len(keys) != n_states - 2:
        raise _unfit("a history stands there twice")
    backoff = np.zeros(n_states, np.int64)
    for s in range(n_labels + 1, n_states):
        if s != start:
            backoff[s] = keys.get(int(backoff[prefix[s]]) * n_labels + int(newest[s]), -1)
    if (backoff < 0).any():
        raise _unfit(f"the history {contexts.history(int(np.argmin(backoff)))} is there without its end")
    arc_start, arc_label = contexts.arc_start, contexts.arc_label.astype(np.int64)
    _check_arcs(contexts, arc_start, arc_label)
    arc_state = np.repeat(np.arange(n_states), np.diff(arc_start))
    arc_key = arc_state * n_labels + arc_label
    followed = np.array([k for k in keys if k >= n_labels], np.int64)
    if not np.isin(followed, arc_key).all():
        raise _unfit("a history lacks the arc that leads to it")
    parent_key = backoff[arc_state] * n_labels + arc_label
    arc_parent = np.minimum(np.searchsorted(arc_key, parent_key), len(arc_key) - 1)
    if not np.array_equal(arc_key[arc_parent], parent_key):
        raise _unfit("an arc has no arc to back off to")
    arc_parent[:n_labels] = -1
    arc_to = np.empty(len(arc_label), np.int64)
    for a, k in enumerate(arc_key.tolist()):
        arc_to[a] = keys[k] if k in keys else arc_to[arc_parent[a]]
    rest_start, rest_arc = _rests(arc_start, arc_parent, backoff)
    return Graph(
        newest.astype(np.int32), backoff.astype(np.int32), level, start_level, arc_start,
        contexts.arc_label, arc_to.astype(np.int32), arc_parent.astype(np.int32), rest_start, rest_arc,
    )  # fmt: skip


def _levels(
    prefix: NDArray[np.int64], newest: NDArray[np.int64], n_labels: int, order: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where states of each length begin, without and with ⊥."""
    n_states = len(prefix)
    fits = order >= 1 and n_labels >= 1 and n_states >= n_labels + 2 and len(newest) == n_states
    singles = np.append(0, np.arange(n_labels))
    if not fits or not np.array_equal(newest[: n_labels + 1], singles) or prefix[: n_labels + 1].any():
        raise _unfit("the states of single labels are not there")
    if (prefix[1:] < 0).any() or (prefix[1:] >= np.arange(1, n_states)).any() or (newest < 0).any():
        raise _unfit("a history does not come after its beginning")
    rank = np.zeros(n_states, np.int64)  # number of symbols, plus m + 1 with ⊥
    for s in range(1, n_states):
        is_start = newest[s] == n_labels and prefix[s] == 0
        rank[s] = order + 2 if is_start else rank[prefix[s]] + 1
    starts = np.flatnonzero(newest >= n_labels)
    if len(starts) != 1 or newest[starts[0]] != n_labels or prefix[starts[0]] != 0:
        raise _unfit("expected exactly one start state")
    plain = rank[: starts[0]]
    if (np.diff(rank) < 0).any() or plain.max() > order or rank.max() > 2 * order + 1 or rank[starts[0]] < order + 2:
        raise _unfit("the histories do not stand in the order of their lengths, or are longer than the order")
    level = np.searchsorted(rank, np.arange(order + 2))
    start_level = np.searchsorted(rank, order + 1 + np.arange(order + 2))
    level[-1] = start_level[0] = start_level[1] = starts[0]
    return level.astype(np.int64), start_level.astype(np.int64)


def _check_arcs(contexts: SeenContexts, arc_start: NDArray[np.int64], arc_label: NDArray[np.int64]) -> None:
    n_labels = contexts.n_labels
    shape = (n_labels + 1, n_labels)
    if contexts.allowed.shape != shape:
        raise ParameterError(f"allowed must have shape {shape}, got {contexts.allowed.shape}")
    rises = len(arc_start) == contexts.n_states + 1 and arc_start[0] == 0 and (np.diff(arc_start) >= 0).all()
    if not rises or arc_start[-1] != len(arc_label) or not np.array_equal(arc_label[: arc_start[1]], range(n_labels)):
        raise _unfit("the arcs do not belong to the states")
    state = np.repeat(np.arange(contexts.n_states), np.diff(arc_start))
    in_range = ((arc_label >= 0) & (arc_label < n_labels)).all()
    if not in_range or (np.diff(state * n_labels + arc_label) <= 0).any():
        raise _unfit("the labels of the arcs do not rise")
    if not contexts.allowed[contexts.newest[state[n_labels:]], arc_label[n_labels:]].all():
        raise _unfit("a forbidden transition was seen")


def _rests(
    arc_start: NDArray[np.int64], arc_parent: NDArray[np.int64], backoff: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return, for states of two or more symbols, the arcs of back(s) that are parents of no arc of s."""
    rests = []
    for s, back in enumerate(backoff.tolist()):
        if back == 0:
            rests.append(np.empty(0, np.int64))
        else:
            of_back = np.arange(arc_start[back], arc_start[back + 1])
            own = arc_parent[arc_start[s] : arc_start[s + 1]]
            rests.append(np.delete(of_back, own - arc_start[back]))
    sizes = np.array([len(rest) for rest in rests])
    return starts_of(sizes), np.concatenate(rests).astype(np.int32)


def _unfit(what: str) -> ParameterError:
    return ParameterError(f"the seen contexts do not fit together: {what}")
