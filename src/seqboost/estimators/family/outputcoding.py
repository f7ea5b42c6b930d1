"""OutputCoding: many labels by many binary labellers, one for each bit of a code (SECOC).

    train     for each column b of the code:   a binary labeller of  b(y_1), .., b(y_T)
    predict   p_tb = P(bit b at t is 1 | X)    y_t = argmin_k Σ_b |p_tb − C_kb|

A binary chain sees little of how labels follow each other. In a *cascade* each bit also sees what the h bits before it
were said to be at the neighbouring positions, and the chain of the labels is pieced together from many views.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from seqboost.core.exceptions import ModelFileError, ParameterError
from seqboost.core.parameters import (
    Rule,
    check_parameters,
    integer,
    n_jobs_rule,
    plain_number,
    random_state_rule,
    real,
)
from seqboost.core.stored import Stored, part_of
from seqboost.core.threads import run_tasks
from seqboost.estimators.arguments import unchanged_on_failure
from seqboost.estimators.family import codes
from seqboost.estimators.family.bits import Constant, bit_columns, bit_probability, fit_bit, plain_batch, quiet
from seqboost.estimators.labeler import Labeler
from seqboost.estimators.persistence import KINDS, from_document, plain, to_document
from seqboost.estimators.treecrf import TreeCRF
from seqboost.sequences import SequenceBatch
from seqboost.training.dataset import Dataset
from seqboost.training.holdout import hold_out

__all__ = ["OutputCoding"]

HISTORIES: tuple[int | str, ...] = (0, 1, 5, 20, "all")
"""What ``cascade="auto"`` tries, if there are so many bits."""

MAX_OFFSET = 1000  # where bits before are seen
MAX_COLUMNS = 2**16  # of bits before a bit of a model file
VALIDATION_BITS = 40  # at most, for each history tried
BITS_PER_DOUBLING = 10  # n_bits=None: so many times log2 of the number of labels

CODES = ("random", "confusion", "exhaustive", "one_vs_rest")


def _cascade_rule() -> Rule:
    whole = integer(0)[0]
    return lambda value: value in ("auto", "all") if isinstance(value, str) else whole(value), (
        "an int of 0 or more, 'all' or 'auto'"
    )


RULES: dict[str, Rule] = {
    "random_state": random_state_rule(),
    "n_bits": integer(1, none=True),
    "cascade": _cascade_rule(),
    "n_folds": integer(2, none=True),
    "validation_fraction": real(0, 0.9, open_low=True),
    "n_jobs": n_jobs_rule(),
}


class OutputCoding(Labeler):
    """Label sequences with many labels by binary labellers, one for each bit of an error-correcting code.

    Parameters
    ----------
    estimator : labeller or None, default=None
        What is trained on each bit; None is ``TreeCRF()``. One of order 0 ("iid") sees no bits beside its own. Bits
        are many: what is "auto" is decided by rules, without tuning.
    code : {"random", "confusion", "exhaustive", "one_vs_rest"} or array of shape (n_labels, n_bits), default="random"
        Random: columns drawn at random. Confusion: columns are added one at a time, each of which divides the labels
        that the code so far confuses most. Exhaustive: all columns (up to 12 labels). Array: rows in the order of
        ``classes_``.
    n_bits : int or None, default=None
        Number of columns of a random or growing code; None is ten times log2 of the number of labels.
    cascade : int, "all" or "auto", default=0
        How many bits before are inputs of a bit; 0 trains all bits independently (and in parallel). Auto: that of 0, 1,
        5, 20 and "all" with the most labels right in sequences held out, by codes of at most 40 bits.
    offsets : tuple of int, default=(-1, 1)
        Where bits before are seen, beside the position itself.
    n_folds : int or None, default=None
        If given, inputs of a cascade are predictions for sequences that were left out of training, in so many folds: as
        unsure in training as they will be later, at the cost of training as many models more.
    validation_fraction : float, default=0.2
        Share of the sequences that ``cascade="auto"`` holds out.
    random_state : int, RandomState or None, default=None
        Seed of the code, of folds and of labellers that have none.
    sequence : str, list of str or None, default=None
        Name of the column that tells sequences apart, if X is a table; a list: columns that do so together.
    time : str or None, default=None
        Name of the column of the table (or of each table in a list) that orders the positions of a sequence: dates
        and times, or numbers. It is no feature; the gap to the position before, in seconds or as a difference, is one.
    n_jobs : int or None, default=None
        Number of threads: bits are trained side by side if they are independent; otherwise each gets all of them.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels.
    code_ : ndarray of shape (n_labels, n_bits)
        The code.
    cascade_ : int
        Bits before that a bit sees.
    cascade_scores_ : dict
        Shares of labels right by history, if ``cascade="auto"``.
    estimators_ : list of labellers
        The models of the bits.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    ``predict_proba`` gives exp(−distance), normalised: an order of labels that agrees with ``predict``, no calibrated
    probability. ``save`` works for bases of this package; models around others are kept with ``joblib``.

    References
    ----------
    Cohn, T., Smith, A. and Osborne, M. (2005). Scaling conditional random fields using error-correcting codes. ACL.

    Hao, G. (2009). Revisiting output coding for sequential supervised learning. MSc thesis, Oregon State University.

    Examples
    --------
    >>> from seqboost import HMM, OutputCoding
    >>> X, y = ["banana", "tomato", "melon"] * 3, ["bananb", "tonbtc", "nelon"] * 3
    >>> model = OutputCoding(HMM(), n_bits=12, cascade=1, random_state=0).fit(X, y)
    >>> model.code_.shape, len(model.estimators_)
    ((8, 12), 12)
    """

    _prediction_rules: ClassVar[Mapping[str, Rule]] = {"n_jobs": RULES["n_jobs"]}

    def __init__(
        self,
        estimator: Any = None,
        *,
        code: Any = "random",
        n_bits: int | None = None,
        cascade: int | str = 0,
        offsets: Any = (-1, 1),
        n_folds: int | None = None,
        validation_fraction: float = 0.2,
        random_state: Any = None,
        sequence: str | list[str] | None = None,
        time: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.code = code
        self.n_bits = n_bits
        self.cascade = cascade
        self.offsets = offsets
        self.n_folds = n_folds
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.sequence = sequence
        self.time = time
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OutputCoding:
        """Train on sequences.

        Parameters
        ----------
        X, y : as in :meth:`seqboost.TreeCRF.fit`
        sample_weight : array-like of shape (n_sequences,), optional
            Weights of sequences, if the labeller takes weights.

        Returns
        -------
        self : OutputCoding
        """
        check_parameters("OutputCoding", vars(self), RULES)
        base = TreeCRF() if self.estimator is None else self.estimator
        if not all(hasattr(base, name) for name in ("fit", "predict", "get_params")):
            raise ParameterError(
                f"The 'estimator' parameter of OutputCoding must be a labeller of sequences, or None for TreeCRF(). "
                f"Got {base!r:.80} instead."
            )
        self._check_offsets()
        with unchanged_on_failure(self), quiet():
            learned = self._learned(X, y, sample_weight)
            training = Dataset(plain_batch(learned.batch), learned.labels, learned.weights)
            seed = int(check_random_state(self.random_state).randint(2**31))
            code = self._fixed_code(seed)
            n_bits = self._length() if code is None else code.shape[1]
            trainer = _Trainer(base, tuple(self.offsets), self.n_folds, seed, self._n_threads)
            history, self.cascade_scores_ = self._history(trainer, training, n_bits, seed)
            if code is None:
                first = codes.random_code(len(self.classes_), self._fewest(), np.random.default_rng(seed))
                code, self.estimators_ = trainer.grow(training, first, n_bits, history)
            else:
                self.estimators_ = trainer.train(training, code, history)[0]
            self.code_, self.cascade_ = code, history
            self._offsets = tuple(int(o) for o in self.offsets)
        return self

    def _check_offsets(self) -> None:
        whole = integer(-MAX_OFFSET, MAX_OFFSET)[0]
        listed = isinstance(self.offsets, (tuple, list)) and len(self.offsets) > 0
        if not listed or not all(whole(plain_number(o)) for o in self.offsets) or 0 in self.offsets:
            raise ParameterError(
                f"The 'offsets' parameter of OutputCoding must be a tuple of ints other than 0, such as (-1, 1). "
                f"Got {self.offsets!r} instead."
            )

    def _fewest(self) -> int:
        return max(1, math.ceil(math.log2(len(self.classes_))))

    def _length(self) -> int:
        """Return the number of bits of a code that is not fixed by its kind."""
        n_labels = len(self.classes_)
        if self.n_bits is not None:
            return int(self.n_bits)
        return int(min(math.ceil(BITS_PER_DOUBLING * math.log2(n_labels)), codes.n_columns(n_labels)))

    def _fixed_code(self, seed: int) -> NDArray[np.uint8] | None:
        """Return the code, or None if it is to grow."""
        n_labels = len(self.classes_)
        if not isinstance(self.code, str):
            return codes.check_code(self.code, n_labels)
        if self.code not in CODES:
            raise ParameterError(
                f"The 'code' parameter of OutputCoding must be one of {', '.join(map(repr, CODES))}, or an array of 0 "
                f"and 1. Got {self.code!r} instead."
            )
        if self.code in ("random", "confusion"):
            code = codes.random_code(n_labels, self._length(), np.random.default_rng(seed))
            return code if self.code == "random" else None
        if self.code == "exhaustive" and n_labels > codes.MOST_EXHAUSTIVE:
            raise ParameterError(
                f"an exhaustive code of {n_labels} labels has {codes.n_columns(n_labels):.3g} columns; use "
                f"code='random', or at most {codes.MOST_EXHAUSTIVE} labels"
            )
        return codes.exhaustive_code(n_labels) if self.code == "exhaustive" else codes.one_vs_rest_code(n_labels)

    def _history(
        self, trainer: _Trainer, training: Dataset, n_bits: int, seed: int
    ) -> tuple[int, dict[int | str, float]]:
        """Return how many bits before a bit sees, and what was right with each number that was tried."""
        if self.cascade != "auto":
            return n_bits if self.cascade == "all" else int(plain_number(self.cascade)), {}
        if training.batch.n_sequences < 2:
            raise ParameterError("cascade='auto' needs sequences to hold out, but X has only one; give a number")
        n_labels, n_tried = len(self.classes_), min(n_bits, VALIDATION_BITS)
        code = codes.random_code(n_labels, max(n_tried, self._fewest()), np.random.default_rng(seed))
        kept, held = hold_out(training.batch.n_sequences, float(self.validation_fraction), seed)
        watched, rest = training.take(held), training.take(kept)
        scores: dict[int | str, float] = {}
        for tried in HISTORIES:
            history = n_bits if tried == "all" else int(tried)
            if tried != "all" and history >= code.shape[1]:
                continue
            models = trainer.train(rest, code, history)[0]
            bits = _probabilities(models, watched.batch, history, tuple(self.offsets))
            guess = codes.distances(bits, code).argmin(axis=1)
            seen = watched.labels >= 0
            scores[tried] = float(np.mean(guess[seen] == watched.labels[seen]))
        best = max(scores, key=lambda tried: scores[tried])  # the shortest of equals
        return (n_bits if best == "all" else int(best)), scores

    def _distances(self, batch: SequenceBatch) -> NDArray[np.float64]:
        bits = _probabilities(self.estimators_, plain_batch(batch), self.cascade_, self._offsets, self._n_threads)
        return codes.distances(bits, self.code_)

    def _codes(self, batch: SequenceBatch) -> NDArray[np.int32]:
        codes: NDArray[np.int32] = np.argmin(self._distances(batch), axis=1).astype(np.int32)
        return codes

    def _marginals(self, batch: SequenceBatch) -> NDArray[np.float64]:
        near = self._distances(batch)
        weight = np.exp(near.min(axis=1, keepdims=True) - near)
        shares: NDArray[np.float64] = weight / weight.sum(axis=1, keepdims=True)
        return shares

    # --------------------------------------------------------------------------------------------- model file

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        plain(self.estimator)  # complains about labellers of other packages
        arrays: dict[str, NDArray[Any]] = {"code": self.code_}
        models: list[Any] = []
        for b, model in enumerate(self.estimators_):
            if isinstance(model, Constant):
                models.append(model.value)
                continue
            document, own = to_document(model)
            models.append(document)
            arrays |= {f"bit{b}/{name}": array for name, array in own.items()}
        scores = [[tried, score] for tried, score in self.cascade_scores_.items()]
        header = {"bits": models, "cascade": self.cascade_, "offsets": list(self._offsets), "cascade_scores": scores}
        return arrays, header

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        stored = Stored("bits", arrays, header)
        bits, offsets = stored.field("bits", list), stored.field("offsets", list)
        stored.require(len(bits) >= 1, "there is none")
        self.code_ = stored.array("code", np.uint8, (None, None), low=0, high=1)
        if self.code_.shape != (len(self.classes_), len(bits)):
            raise ModelFileError("the code of this model does not fit its labels and bits; save it again")
        self.cascade_ = stored.integer("cascade", 0, 2**31 - 1)
        known = set(range(-MAX_OFFSET, MAX_OFFSET + 1)) - {0}
        stored.require(len(set(offsets)) == len(offsets) and set(offsets) <= known, "an offset is not a possible one")
        few = min(self.cascade_, len(bits)) * len(offsets) <= MAX_COLUMNS
        stored.require(few, f"a bit has more than {MAX_COLUMNS} columns of bits before it")
        self._offsets = tuple(map(int, offsets))
        scores = stored.field("cascade_scores", list)
        stored.require(all(tried in HISTORIES for tried, _ in scores), "'cascade_scores' holds others than histories")
        self.cascade_scores_ = {tried: float(score) for tried, score in scores}
        self.estimators_ = []
        for b, document in enumerate(bits):
            if not isinstance(document, dict):
                stored.require(document in (0, 1), f"bit {b} is neither a model nor always 0 or 1")
                self.estimators_.append(Constant(float(document)))
                continue
            model = from_document(KINDS[document["estimator"]], document, part_of(arrays, f"bit{b}/"))
            stored.require(model.classes_.tolist() == [0, 1], f"the labels of bit {b} are not 0 and 1")
            self.estimators_.append(model)


class _Trainer:
    """Trains the models of bits."""

    def __init__(self, base: Any, offsets: tuple[int, ...], n_folds: int | None, seed: int, n_threads: int) -> None:
        self._base, self._offsets, self._seed, self._n_threads = base, offsets, seed, n_threads
        self._n_folds = None if n_folds is None else int(n_folds)

    def train(self, training: Dataset, code: NDArray[np.uint8], history: int) -> tuple[list[Any], NDArray[np.float64]]:
        """Train a model for each column; return them, and what they say of the training sequences (cascades only)."""
        n_rows, n_bits = training.batch.n_rows, code.shape[1]
        said = np.zeros((n_rows, n_bits if history else 0))
        if history == 0:
            tasks = [(self._base, training, code[:, b], (), self._seed + b, 1) for b in range(n_bits)]
            return run_tasks(fit_bit, tasks, self._n_threads), said
        models = []
        for b in range(n_bits):
            model, said[:, b] = self._next(training, code[:, b], said, b, history, needed=b < n_bits - 1)
            models.append(model)
        return models, said

    def grow(
        self, training: Dataset, code: NDArray[np.uint8], n_bits: int, history: int
    ) -> tuple[NDArray[np.uint8], list[Any]]:
        """Add columns where the code so far confuses most, as the models of the columns so far see it."""
        rng = np.random.default_rng(self._seed + 1)
        said = np.zeros((training.batch.n_rows, n_bits))
        models: list[Any] = []
        n_labels, seen = len(code), training.labels >= 0
        for b in range(n_bits):
            if b >= code.shape[1]:
                near = codes.distances(said[seen, :b], code)
                weight = np.exp(near.min(axis=1, keepdims=True) - near)
                confusion = np.zeros((n_labels, n_labels))
                np.add.at(confusion, training.labels[seen], weight / weight.sum(axis=1, keepdims=True))
                code = np.column_stack([code, codes.confusing_column(confusion, code, rng)])
            model, said[:, b] = self._next(training, code[:, b], said, b, history, needed=True)
            models.append(model)
        return code, models

    def _next(
        self,
        training: Dataset,
        column: NDArray[np.uint8],
        said: NDArray[np.float64],
        b: int,
        history: int,
        needed: bool,
    ) -> tuple[Any, NDArray[np.float64]]:
        """Train the model of bit b; return it, and what is said of that bit in training if that is needed later."""
        batch, names = bit_columns(training.batch, said, range(max(0, b - history), b), self._offsets)
        cascaded = Dataset(batch, training.labels, training.weights)
        model = fit_bit(self._base, cascaded, column, names, self._seed + b, self._n_threads)
        if not needed:
            return model, np.zeros(batch.n_rows)
        if self._n_folds is None or batch.n_sequences < 2:
            return model, bit_probability(model, batch)
        return model, self._left_out(cascaded, column, names, b)

    def _left_out(
        self, training: Dataset, column: NDArray[np.uint8], names: tuple[str, ...], b: int
    ) -> NDArray[np.float64]:
        """Return what models that did not see a sequence say of it."""
        n_sequences = training.batch.n_sequences
        order = np.random.default_rng(self._seed).permutation(n_sequences)  # the same folds for all bits
        said = np.empty(training.batch.n_rows)
        for fold in np.array_split(order, min(self._n_folds or 2, n_sequences)):
            held = np.zeros(n_sequences, dtype=bool)
            held[fold] = True
            rows = np.repeat(held, training.batch.lengths)
            rest = training.take(np.flatnonzero(~held))
            model = fit_bit(self._base, rest, column, names, self._seed + b, self._n_threads)
            said[rows] = bit_probability(model, training.batch[np.flatnonzero(held)])
        return said


def _probabilities(
    models: list[Any], batch: SequenceBatch, history: int, offsets: tuple[int, ...], n_threads: int = 1
) -> NDArray[np.float64]:
    """Return P(bit = 1) at all positions, (n_rows, n_bits), from the first bit to the last."""
    said = np.zeros((batch.n_rows, len(models)))
    if history == 0:
        ask: Callable[..., NDArray[np.float64]] = bit_probability
        return np.column_stack(run_tasks(ask, [(model, batch) for model in models], n_threads))
    for b, model in enumerate(models):
        if isinstance(model, Constant):
            said[:, b] = model.value
            continue
        seen, _ = bit_columns(batch, said, range(max(0, b - history), b), offsets)
        said[:, b] = bit_probability(model, seen)
    return said
