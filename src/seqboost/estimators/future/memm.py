"""The labeller that looks for patterns in later or earlier positions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils import check_random_state

from seqboost.chain import Potentials
from seqboost.core.exceptions import ParameterError
from seqboost.estimators.arguments import unchanged_on_failure, validation_pair, where
from seqboost.estimators.future.growth import Growth
from seqboost.estimators.future.model import LASTING, FutureModel
from seqboost.estimators.holdout import has_blocks, hold_out, hold_out_blocks
from seqboost.estimators.labeler import MANY_LABELS
from seqboost.estimators.labelled import Labelled
from seqboost.estimators.parameters import (
    check_parameters,
    integer,
    one_of,
    plain_number,
    random_state_rule,
    real,
    verbose_rule,
)
from seqboost.estimators.pieces import in_pieces
from seqboost.estimators.prediction import PREDICTION_RULES, SequenceLabeler
from seqboost.estimators.progress import logged_fit, progress_bar
from seqboost.estimators.treecrf import NO_ROUNDS, STARTS
from seqboost.sequences import SequenceBatch

__all__ = ["FutureFeatureMEMM"]

RULES = {
    "random_state": random_state_rule(),
    **PREDICTION_RULES,
    **LASTING,
    "patterns": one_of("per_label", "shared"),
    "max_patterns": integer(0, 100),
    "learning_rate": real(0.0, 1000.0, open_low=True),
    "max_iter": integer(1),
    "max_leaf_nodes": integer(2, 2**16),
    "min_samples_leaf": integer(1, 2**31 - 1),
    "l2_regularization": real(0.0),
    "max_bins": integer(2, 255),
    "validation_fraction": real(0.0, 0.9, open_low=True),
    "n_iter_no_change": integer(1),
    "verbose": verbose_rule(),
}


class FutureFeatureMEMM(SequenceLabeler):
    """A left-to-right labeller that learns patterns in later (or earlier) positions by itself.

    An MEMM chooses labels one after another and cannot take back what a later position makes wrong. This one looks for
    patterns, anywhere in the next positions, that tell something about the label at hand, and uses them as features.

    Parameters
    ----------
    order : int, default=1
        Labels before that a label depends on; 0: a sliding window with patterns.
    bag_size : int or None, default=5
        How many positions ahead (or behind, or both) a pattern may lie; None: anywhere to the end of the sequence.
    direction : {"future", "past", "both"}, default="future"
        Where patterns are looked for.
    patterns : {"per_label", "shared"}, default="per_label"
        A pattern for each label in turn, or one at a time with a weight for every label; with two labels it is the
        same. Held-out sequences of NETtalk stress prefer the former (benchmarks/future.py).
    max_patterns : int, default=10
        Most patterns to find; the search ends when a pattern does not help held-out sequences.
    pattern_start : float, default=-5.0
        Score G of a position before anything is learnt of a pattern; at −5 a position is one with 0.7 %.
    window : int, tuple, list or dict, default=0
        Neighbouring positions that trees of either level see; as in :class:`TreeCRF`.
    learning_rate, max_iter, max_leaf_nodes, min_samples_leaf, l2_regularization, max_bins
        As in :class:`TreeCRF`; ``max_iter`` rounds at most each time that trees of level 1 are grown.
    validation_fraction : float, default=0.2
        Share of sequences held out, by which rounds and patterns are chosen, if ``fit`` is given none.
    n_iter_no_change : int, default=10
        Rounds without improvement on held-out sequences after which trees of level 1 are complete.
    decoding, beam, categorical_features, sequence, random_state, verbose, n_jobs
        As in :class:`TreeCRF`.

    Attributes
    ----------
    classes_ : ndarray
        Labels.
    patterns_ : list of FuturePattern
        What was found, in that order; see also :meth:`pattern_probabilities`.
    history_ : dict of lists
        ``validation_score``: mean log-likelihood of held-out labels after each time that level 1 or a pattern was
        grown; ``level`` ("labels" or "pattern") and ``rounds`` tell what it was.

    References
    ----------
    Hao, G. (2009). Efficient training and feature induction in sequential supervised learning. PhD thesis, Oregon State
    University. (Chapter 5.)

    Examples
    --------
    Whether an "a" is big depends on whether an "x" follows within five letters:

    >>> rng = np.random.default_rng(0)
    >>> X = ["".join(rng.choice(list("abx"), 12, p=[0.5, 0.4, 0.1])) for _ in range(200)]
    >>> y = [[c == "a" and "x" in word[t + 1 : t + 6] for t, c in enumerate(word)] for word in X]
    >>> model = FutureFeatureMEMM(order=0, random_state=0).fit(X, y)
    >>> print(*model.predict(["aabbbbxa"])[0])
    False True False False False False False False
    """

    def __init__(
        self,
        order: int = 1,
        *,
        bag_size: int | None = 5,
        direction: str = "future",
        patterns: str = "per_label",
        max_patterns: int = 10,
        pattern_start: float = -5.0,
        window: Any = 0,
        learning_rate: float = 0.25,
        max_iter: int = 200,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int = 20,
        l2_regularization: float = 10.0,
        max_bins: int = 255,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 10,
        categorical_features: Any = None,
        decoding: str = "posterior",
        beam: int | None = None,
        sequence: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.order = order
        self.bag_size = bag_size
        self.direction = direction
        self.patterns = patterns
        self.max_patterns = max_patterns
        self.pattern_start = pattern_start
        self.window = window
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.categorical_features = categorical_features
        self.decoding = decoding
        self.beam = beam
        self.sequence = sequence
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs

    @property
    def _label_limit(self) -> int | None:
        return MANY_LABELS

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> FutureFeatureMEMM:
        """Train on sequences.

        Parameters
        ----------
        X, y, sample_weight, X_val, y_val, sample_weight_val
            As in :meth:`TreeCRF.fit`. A position whose label, or one of the ``order`` labels before it, is unobserved
            is not trained on.

        Returns
        -------
        self : FutureFeatureMEMM
        """
        parameters = {name: plain_number(value) for name, value in self.get_params(deep=False).items()}
        check_parameters(type(self).__name__, parameters, RULES)
        X_val, y_val = validation_pair(X_val, y_val, sample_weight_val, None)
        with unchanged_on_failure(self):
            training = self._learned(X, y, sample_weight)
            seed = int(check_random_state(self.random_state).randint(2**31))
            training, held_out = self._divided(training, (X_val, y_val, sample_weight_val), seed)
            growth = Growth(parameters, (training, held_out), len(self.classes_), seed, self._n_threads)
            with logged_fit(self, training, parameters), progress_bar(parameters["max_iter"], self.verbose) as bars:
                model, history = growth.run(bars)
            self._set_model(model)
            self.history_ = history
            if model.forest.n_trees == 0 and not model.patterns:
                warnings.warn(NO_ROUNDS.format(type(self).__name__, STARTS["labels"]), stacklevel=2)
        return self

    def _divided(self, training: Labelled, validation: tuple[Any, Any, Any], seed: int) -> tuple[Labelled, Labelled]:
        """Return training and held-out sequences."""
        X_val, y_val, weights_val = validation
        if X_val is not None:
            with where("In the validation data"):
                return training, self._known(X_val, y_val, weights_val, "y_val")
        n_sequences = training.batch.n_sequences
        if n_sequences < 2 and has_blocks(training.batch.offsets):
            return hold_out_blocks(training, self.validation_fraction, seed)
        if n_sequences < 2:
            raise ParameterError(
                f"{type(self).__name__} needs sequences to hold out, by which patterns are chosen, but X has only one; "
                f"give X_val and y_val"
            )
        kept, held_out = hold_out(n_sequences, self.validation_fraction, seed)
        return training.take(kept), training.take(held_out)

    # --------------------------------------------------------------------------------------------- prediction

    def _set_model(self, model: FutureModel) -> None:
        self._model = model
        self.patterns_ = model.described(self.classes_.tolist())

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether fit has been called."""
        return hasattr(self, "_model")

    def _scored(self, batch: SequenceBatch) -> Potentials:
        return self._model.potentials(batch, self._n_threads)

    def _pieces(self, batch: SequenceBatch) -> list[SequenceBatch]:
        """Cut a batch into parts whose scores, with all contexts, fit into memory."""
        return in_pieces(batch, len(self.classes_) ** (1 + self._model.fitted["order"]))

    def _marginals(self, batch: SequenceBatch) -> NDArray[np.float32]:
        return np.concatenate([super(FutureFeatureMEMM, self)._marginals(piece) for piece in self._pieces(batch)])

    def _codes(self, batch: SequenceBatch) -> NDArray[np.int32]:
        return np.concatenate([super(FutureFeatureMEMM, self)._codes(piece) for piece in self._pieces(batch)])

    def pattern_probabilities(self, X: Any) -> Any:
        """Return how surely each position is one of the patterns: p = σ(G).

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        list of ndarray of shape (n_elements, n_patterns); for a table one array

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = ["".join(rng.choice(list("abx"), 12, p=[0.5, 0.4, 0.1])) for _ in range(200)]
        >>> y = [[c == "a" and "x" in word[t + 1 : t + 6] for t, c in enumerate(word)] for word in X]
        >>> model = FutureFeatureMEMM(order=0, random_state=0).fit(X, y)
        >>> int(model.pattern_probabilities(["aabbbbxa"])[0][:, 0].argmax())
        6
        """
        batch = self._opened(X)
        return batch.restore(expit(self._model.pattern_scores(batch, self._n_threads)))

    def future_features(self, X: Any) -> Any:
        """Return how surely the bag of each position holds each of the patterns: Q.

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        list of ndarray of shape (n_elements, n_patterns); for a table one array
        """
        batch = self._opened(X)
        return batch.restore(self._model.future_features(batch, self._n_threads))

    # --------------------------------------------------------------------------------------------- model file

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, header = self._model.to_arrays()
        return arrays, {**header, "history": self.history_}

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        check_parameters(type(self).__name__, {name: header["fitted"][name] for name in LASTING}, LASTING)
        model = FutureModel.from_arrays(arrays, header, self._schema, len(self.classes_))
        self.history_ = header["history"]
        self._set_model(model)
