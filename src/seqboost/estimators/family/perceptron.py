"""VotedPerceptron: weights learn from mistakes of decoding, and all weights that were ever held have a vote.

    for each sequence, again and again:   Ŷ = argmax_Y w·Φ(X, Y);   if Ŷ ≠ Y:  w += Φ(X, Y) − Φ(X, Ŷ)

After n sequences there were n vectors w_1 .. w_n. *Voted*: each decodes, and positions go to the label with the most
votes. *Averaged*: their mean decodes once, which is nearly as good and n times cheaper. Between the two, consecutive
vectors make up a group whose mean has as many votes as the group has vectors: one group is the averaged perceptron, as
many groups as vectors are the voted one.

A mean is taken from two sums. Let a group begin after visit s; a mistake δ made at its i-th visit, i = 0 .. g−1, is in
g − i of its g vectors, so

    mean = w_end − (1/g) Σ_mistakes i·δ                     ``aged`` of the kernels is Σ i·δ
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from seqboost.chain import Lattice, beam_sequence, make_beam, viterbi, viterbi_chunk
from seqboost.core.contexts import ContextSpace
from seqboost.core.parameters import Rule, integer, one_of, plain_number, random_state_rule
from seqboost.core.stored import Stored
from seqboost.estimators.family.linear import LinearLabeler
from seqboost.estimators.family.mistakes import learn_features, learn_transitions
from seqboost.estimators.prediction import PREDICTION_RULES
from seqboost.estimators.query import NO_QUERY, Query, cheapest
from seqboost.linear import LinearChain, LinearColumns, LinearRows, LinearWeights
from seqboost.linear.kernels import linear_scores
from seqboost.sequences import SequenceBatch

__all__ = ["VotedPerceptron"]

MAX_VOTES = 2**40  # of a voter of a model file

RULES: dict[str, Rule] = {
    "random_state": random_state_rule(),
    "method": one_of("averaged", "voted"),
    "n_voters": integer(1),
    "max_iter": integer(1),
    "order": integer(0, 8),
    "beam": integer(1, none=True),
    **PREDICTION_RULES,
}


class VotedPerceptron(LinearLabeler):
    """Label sequences with the structured perceptron of Collins (2002), averaged or voted.

    Parameters
    ----------
    method : {"averaged", "voted"}, default="averaged"
        Whether the mean of all weights labels, or groups of them vote.
    n_voters : int, default=100
        With ``method="voted"``: number of groups; as many as there are sequences times passes, or more, let every
        vector of weights vote for itself. Memory and time of prediction grow with it.
    max_iter : int, default=10
        Passes over the training sequences; a pass without mistakes is the last one.
    order : int, default=1
        How many labels back a label depends on.
    window : "auto", int, tuple, list or dict, default="auto"
        As in :class:`~seqboost.TreeCRF`.
    decoding : {"posterior", "viterbi"}, default="viterbi"
        As in :class:`~seqboost.TreeCRF`. Voters always vote for their best labellings.
    beam : int or None, default=None
        Training and prediction keep only so many contexts at each position.
    random_state : int, RandomState or None, default=None
        Seed of the order of sequences.
    categorical_features, sequence, time, n_jobs
        As in :class:`~seqboost.HMM`; training has one thread.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels.
    mistakes_ : list of int
        Wrongly decoded sequences in each pass.
    n_iter_ : int
        Passes done.
    window_ : int, tuple, list or dict
        What "auto" came to.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    Scores have no scale of their own, so probabilities (of ``predict_proba``, ``log_prob`` …) are those of a chain
    with the averaged weights, as the literature uses them, and too sure as a rule. With ``method="voted"``,
    ``predict_proba`` gives shares of votes.

    References
    ----------
    Collins, M. (2002). Discriminative training methods for hidden Markov models: theory and experiments with
    perceptron algorithms. EMNLP.

    Freund, Y. and Schapire, R. (1999). Large margin classification using the perceptron algorithm. Machine Learning 37.

    Examples
    --------
    >>> from seqboost import VotedPerceptron
    >>> model = VotedPerceptron(window=0, random_state=0).fit(["banana", "tomato"], ["010101", "010101"])
    >>> print("".join(model.predict(["manana"])[0]))
    010101
    """

    _rules = RULES

    def __init__(
        self,
        *,
        method: str = "averaged",
        n_voters: int = 100,
        max_iter: int = 10,
        order: int = 1,
        window: Any = "auto",
        decoding: str = "viterbi",
        beam: int | None = None,
        random_state: Any = None,
        categorical_features: Any = None,
        sequence: str | list[str] | None = None,
        time: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.n_voters = n_voters
        self.max_iter = max_iter
        self.order = order
        self.window = window
        self.decoding = decoding
        self.beam = beam
        self.random_state = random_state
        self.categorical_features = categorical_features
        self.sequence = sequence
        self.time = time
        self.n_jobs = n_jobs

    def _train(self, columns: LinearColumns, rows: LinearRows, labels: NDArray[np.int32]) -> None:
        n_visits = (len(rows.offsets) - 1) * int(self.max_iter)
        n_groups = min(int(self.n_voters), n_visits) if self.method == "voted" else 1
        learner = _Learner(columns, rows, labels, self._space, self._beam)
        rng = check_random_state(self.random_state)
        self.mistakes_ = learner.learn(rng, int(self.max_iter), -(-n_visits // n_groups))
        self.n_iter_ = len(self.mistakes_)
        self._voters = learner.voters
        self._votes = np.array(learner.votes, dtype=np.int64)
        self._chain = _mean(self._voters, self._votes)

    @property
    def _space(self) -> ContextSpace:
        return ContextSpace(len(self.classes_), int(plain_number(self.order)))

    def _shares(self, batch: SequenceBatch, query: Query) -> NDArray[np.float64]:
        """Return the share of votes that each label gets, (n_rows, K)."""
        rows, n_threads = self._chain.rows(batch), self._n_threads
        share = np.zeros((batch.n_rows, len(self.classes_)))
        for voter, votes in zip(self._voters, self._votes, strict=True):
            potentials = query.allowed(voter.scored(rows, n_threads))
            path = viterbi(potentials, beam=self._beam_of(query), n_threads=n_threads).labels
            share[np.arange(len(path)), path] += votes
        shares: NDArray[np.float64] = share / self._votes.sum()
        return shares

    def _marginals(self, batch: SequenceBatch, query: Query = NO_QUERY) -> NDArray[Any]:
        return self._shares(batch, query) if len(self._voters) > 1 else super()._marginals(batch, query)

    def _codes(self, batch: SequenceBatch, query: Query = NO_QUERY) -> NDArray[np.int32]:
        if len(self._voters) == 1:
            return super()._codes(batch, query)
        return cheapest(self._shares(batch, query), query)

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, header = self._chain.to_arrays()
        if len(self._voters) > 1:
            arrays["voters.value"] = np.stack([voter.weights.value for voter in self._voters])
            arrays["voters.table"] = np.stack([voter.table for voter in self._voters])
        return arrays | {"votes": self._votes}, header | {"mistakes": self.mistakes_}

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        self._chain = LinearChain.from_arrays(arrays, header, self._schema, len(self.classes_))
        stored = Stored("voters", arrays, header)
        self._voters = [self._chain]
        if "voters.value" in arrays:
            weights, table = self._chain.weights, self._chain.table
            values = stored.array("voters.value", np.float32, (None, *weights.value.shape))
            tables = stored.scores("voters.table", (len(values), *table.shape))
            stored.require(len(values) > 1, "there is only one")
            self._voters = [
                LinearChain(weights.checked(value), own, self._chain.order)
                for value, own in zip(values, tables, strict=True)
            ]
        self._votes = stored.array("votes", np.int64, (len(self._voters),), low=1, high=MAX_VOTES)
        mistakes = stored.field("mistakes", list)
        stored.require(all(type(n) is int for n in mistakes), "'mistakes' holds others than whole numbers")
        self.mistakes_, self.n_iter_ = mistakes, len(mistakes)


def _mean(voters: list[LinearChain], votes: NDArray[np.int64]) -> LinearChain:
    """Return the mean of the voters."""
    if len(voters) == 1:
        return voters[0]
    share = votes / votes.sum()
    value = sum(s * voter.weights.value.astype(np.float64) for s, voter in zip(share, voters, strict=True))
    table = sum(s * voter.table for s, voter in zip(share, voters, strict=True))
    return LinearChain(voters[0].weights.with_value(np.asarray(value)), np.asarray(table), voters[0].order)


class _Learner:
    """Weights while they learn.

    Attributes
    ----------
    voters : list of LinearChain
        Means of the groups that are finished.
    votes : list of int
        How many vectors each of them stands for.
    """

    def __init__(
        self,
        columns: LinearColumns,
        rows: LinearRows,
        labels: NDArray[np.int32],
        space: ContextSpace,
        beam: int | None,
    ) -> None:
        self._columns, self._rows, self._labels, self._space = columns, rows, labels, space
        self._weights = np.zeros((columns.n_features, space.n_labels))
        self._shape = LinearWeights.dense(columns, self._weights)  # a weight of each feature for each label
        self._table = np.zeros((space.n_extended, space.n_labels))
        self._turned = np.zeros((space.n_labels, space.n_extended))
        self._aged, self._aged_table = np.zeros_like(self._weights), np.zeros_like(self._table)
        self._age = 0  # visits of the group so far
        self._beam = beam if beam is not None and beam < space.n_contexts else None
        self._end = np.zeros(space.n_labels)
        longest = int(np.diff(rows.offsets).max())
        self._total = np.empty(space.n_labels)
        self._cells = np.empty(space.n_labels * longest, dtype=np.float32)
        self._path, self._score = np.empty(longest, dtype=np.int32), np.empty(1)
        self._choice = np.empty((longest, space.n_contexts if self._beam is None else 0), dtype=np.uint16)
        self._memory = make_beam(longest, self._beam or 0, space.n_contexts)
        self.voters: list[LinearChain] = []
        self.votes: list[int] = []

    def learn(self, rng: Any, max_iter: int, group: int) -> list[int]:
        """Pass over the sequences in random orders; return the number of wrongly decoded ones in each pass."""
        mistakes = []
        for _ in range(max_iter):
            wrong = 0
            for s in rng.permutation(len(self._rows.offsets) - 1).tolist():
                wrong += self._visit(s)
                if self._age == group:
                    self._finish_group()
            mistakes.append(wrong)
            if wrong == 0:
                break
        if self._age:
            self._finish_group()
        return mistakes

    def _visit(self, s: int) -> bool:
        """Decode a sequence and learn from it; return whether it was wrong."""
        rows, columns = self._rows, self._columns
        begin, stop = int(rows.offsets[s]), int(rows.offsets[s + 1])
        seen = (rows.indptr, rows.column, rows.value, columns.offsets, columns.feature_of, columns.boundary)
        scores = self._cells[: self._space.n_labels * (stop - begin)].reshape(-1, stop - begin)
        linear_scores(
            (s, s + 1, begin), rows.offsets, *seen, self._shape.start, self._shape.label, self._weights.reshape(-1),
            self._total, scores,
        )  # fmt: skip
        guess = self._decoded(scores[:, :, None])
        age = float(self._age)
        self._age += 1
        if not learn_features((begin, stop), *seen, self._labels, guess, age, self._weights, self._aged):
            return False
        truth, base = self._labels[begin:stop], self._space.base
        learn_transitions(truth, guess, base, age, self._table, self._turned, self._aged_table)
        return True

    def _decoded(self, scores: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the best labels of a sequence with these scores, (K, T, 1)."""
        length, base = scores.shape[1], self._space.base
        path = self._path[:length]
        lattice = Lattice(scores, self._table, self._end, np.array([0, length], dtype=np.int64), base)
        if self._beam is None:
            viterbi_chunk(lattice, self._turned, 0, 1, self._choice, path, self._score)
        else:
            no_marginals, no_pairs = np.empty((0, 0, 0), np.float32), np.empty((0, 0, 0))
            beam_sequence(lattice, 0, length, self._memory, path, no_marginals, np.empty(0, np.int64), no_pairs)
        return path

    def _finish_group(self) -> None:
        """Keep the mean of the group's vectors, and begin a new group."""
        mean = self._weights - self._aged / self._age
        table = self._table - self._aged_table / self._age
        self.voters.append(LinearChain(self._shape.with_value(mean.reshape(-1)), table, self._space.order))
        self.votes.append(self._age)
        self._aged[:], self._aged_table[:], self._age = 0.0, 0.0, 0
