"""The labeller that looks for patterns in later or earlier positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from scipy.special import expit

from seqboost.boosting import Callback
from seqboost.chain import Potentials
from seqboost.core.exceptions import ParameterError
from seqboost.core.parameters import (
    check_parameters,
    integer,
    one_of,
    plain_fields,
    random_state_rule,
    real,
    verbose_rule,
)
from seqboost.estimators.boosted import BoostedLabeler
from seqboost.estimators.future.growth import Growth, PatternConfig, with_held_out
from seqboost.estimators.future.model import LASTING, FutureModel
from seqboost.estimators.labeler import MANY_LABELS
from seqboost.estimators.prediction import PREDICTION_RULES, in_pieces
from seqboost.sequences import SequenceBatch
from seqboost.training import (
    ChainConfig,
    FeatureConfig,
    FitConfig,
    FitData,
    StoppingConfig,
    TreeConfig,
)
from seqboost.training.progress import fit_progress

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


class FutureFeatureMEMM(BoostedLabeler):
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
    decoding, categorical_features, sequence, time, random_state, verbose, n_jobs
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

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = ["".join(rng.choice(list("abx"), 12, p=[0.5, 0.4, 0.1])) for _ in range(200)]
    >>> y = [[c == "a" and "x" in word[t + 1 : t + 6] for t, c in enumerate(word)] for word in X]
    >>> model = FutureFeatureMEMM(order=0, random_state=0).fit(X, y)
    >>> print(*model.predict(["aabbbbxa"])[0])
    False True False False False False False False
    """

    _result: FutureModel
    init_ = "labels"

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
        sequence: str | list[str] | None = None,
        time: str | None = None,
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
        self.sequence = sequence
        self.time = time
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs

    @property
    def _label_limit(self) -> int | None:
        return MANY_LABELS

    def _config(self) -> FitConfig:
        check_parameters(type(self).__name__, vars(self), RULES)
        config = FitConfig(
            trees=TreeConfig(
                max_leaf_nodes=self.max_leaf_nodes,
                min_samples_leaf=self.min_samples_leaf,
                l2_regularization=self.l2_regularization,
            ),
            chain=ChainConfig(self.order, init="labels"),
            features=FeatureConfig(self.window, self.max_bins, categorical_features=self.categorical_features),
            stopping=StoppingConfig(True, self.validation_fraction, False, self.n_iter_no_change),
            learning_rate=self.learning_rate,
            max_iter=self.max_iter,
            verbose=self.verbose,
            seed=self._seed(),
            n_threads=self._n_threads,
        )
        return plain_fields(config)

    def _train(
        self, config: FitConfig, data: FitData, *, callbacks: Sequence[Callback], **unused: Any
    ) -> tuple[FutureModel, dict[str, list[Any]]]:
        if any(callback.sees_model for callback in callbacks):
            raise ParameterError(
                "a callback asks to see the model (sees_model), but FutureFeatureMEMM has none before both its levels "
                "are grown; use one that does not, or TreeCRF or MEMM"
            )
        patterns = PatternConfig(
            self.bag_size, self.direction, self.patterns, self.max_patterns, float(self.pattern_start)
        )
        if data.metrics or data.others:
            raise ParameterError(
                f"{type(self).__name__} takes one evaluation set and no eval_metric: the log-likelihood of that set "
                f"decides when to stop"
            )
        data = with_held_out(data, config)
        growth = Growth(config, plain_fields(patterns), data)
        with fit_progress(data, config.verbose) as progress, progress.training("boosting", config.max_iter) as bars:
            return growth.run([*bars, *callbacks])

    def _set_result(self, result: tuple[FutureModel, dict[str, list[Any]]]) -> None:
        self._result, self.history_ = result
        self.patterns_ = self._result.described(self.classes_.tolist())

    @property
    def _n_rounds(self) -> int:
        return max(self._result.forest.n_trees, len(self._result.patterns))

    # --------------------------------------------------------------------------------------------- prediction

    def _scored(self, batch: SequenceBatch) -> Potentials:
        return self._result.potentials(batch, self._n_threads)

    def _pieces(self, batch: SequenceBatch) -> list[SequenceBatch]:
        """Cut a batch into parts whose scores, with all contexts, fit into memory."""
        return in_pieces(batch, len(self.classes_) ** (1 + self._result.fitted["order"]))

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
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = ["".join(rng.choice(list("abx"), 12, p=[0.5, 0.4, 0.1])) for _ in range(200)]
        >>> y = [[c == "a" and "x" in word[t + 1 : t + 6] for t, c in enumerate(word)] for word in X]
        >>> model = FutureFeatureMEMM(order=0, random_state=0).fit(X, y)
        >>> int(model.pattern_probabilities(["aabbbbxa"])[0][:, 0].argmax())
        6
        """
        batch = self._opened(X)
        return batch.restore(expit(self._result.pattern_scores(batch, self._n_threads)))

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
        return batch.restore(self._result.future_features(batch, self._n_threads))

    # --------------------------------------------------------------------------------------------- model file

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, header = self._result.to_arrays()
        return arrays, {**header, "history": self.history_}

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        check_parameters(type(self).__name__, {name: header["fitted"][name] for name in LASTING}, LASTING)
        model = FutureModel.from_arrays(arrays, header, self._schema, len(self.classes_))
        self._set_result((model, header["history"]))
