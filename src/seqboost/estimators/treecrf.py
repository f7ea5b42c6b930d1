"""TreeCRF: a conditional random field whose potentials are sums of regression trees."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from seqboost._jit import thread_count
from seqboost.boosting import Callback, Stopping
from seqboost.chain import Posterior, Potentials, k_best, log_partition, posterior, viterbi
from seqboost.estimators.arguments import callback_list, unchanged_on_failure, validation_pair, where
from seqboost.estimators.labellings import log_partition_of
from seqboost.estimators.parameters import (
    check_parameters,
    check_unchanged,
    integer,
    n_jobs_rule,
    one_of,
    plain_number,
    real,
    verbose_rule,
)
from seqboost.estimators.persistence import load_estimator, save_estimator
from seqboost.estimators.progress import compile_notice, progress_bar
from seqboost.estimators.training import Labelled, Settings, Trained, hold_out, train
from seqboost.exceptions import InputError, ParameterError
from seqboost.sequences import BatchSchema, LabelCoder, SequenceBatch, as_batch, class_weights, sequence_weights

__all__ = ["TreeCRF"]

AUTO_STOPPING_SEQUENCES = 20
MOST = 2**31 - 1  # kernels count rows in 32 bits

# What a warm start cannot change, because the trees that are there already were grown with it.
LASTING = ("order", "potentials", "window", "max_bins", "categorical_features", "transitions", "class_weight")

RULES = {
    "learning_rate": real(0, 1000, open_low=True),
    "max_iter": integer(1),
    "max_leaf_nodes": integer(2, 32767),
    "max_depth": integer(1, MOST, none=True),
    "min_samples_leaf": integer(1, MOST),
    "l2_regularization": real(0),
    "min_gain": real(0),
    "max_features": real(0, 1, open_low=True),
    "max_bins": integer(2, 255),
    "categorical_splits": one_of("subset", "one_vs_rest"),
    "order": integer(0, 8),
    "potentials": one_of("auto", "joint", "factored"),
    "decoding": one_of("posterior", "viterbi"),
    "curvature": one_of("mixing", "newton", "count"),
    "beam": integer(1, none=True),
    "early_stopping": one_of("auto", True, False),
    "validation_fraction": real(0, 0.9, open_low=True),
    "n_iter_no_change": integer(1),
    "tol": real(0),
    "warm_start": one_of(True, False),
    "verbose": verbose_rule(),
    "n_jobs": n_jobs_rule(),
}
PREDICTION_RULES = {name: RULES[name] for name in ("decoding", "beam", "n_jobs")}


class TreeCRF(BaseEstimator):
    """Label every element of sequences with boosted trees inside a conditional random field.

    The trees are the potentials, not the graph: the labels form a chain, and the score of a label given the labels
    before it and a window of the input is a sum of regression trees,

        P(Y | X) ∝ exp Σ_t F^{y_t}(y_{t−1}, …, y_{t−m}, w_t(X)).

    Parameters
    ----------
    learning_rate : float, default=0.3
        Factor on the values of leaves.
    max_iter : int, default=300
        Largest number of rounds; a round grows one tree per label.
    max_leaf_nodes : int, default=31
        Largest number of leaves of a tree.
    max_depth : int or None, default=None
        Largest depth of a tree; None leaves it to ``max_leaf_nodes``.
    min_samples_leaf : int, default=10
        Smallest number of positions in a leaf.
    l2_regularization : float, default=1.0
        λ in the value of a leaf, G / (H + λ).
    min_gain : float, default=0.0
        A node is divided only if that gains more.
    max_features : float, default=1.0
        Share of the window features that are drawn at random for each node.
    max_bins : int, default=255
        Largest number of bins of a numeric column.
    categorical_features : None, list of columns or boolean mask, default=None
        Numeric columns to be treated as categories. Columns of strings always are.
    categorical_splits : {"subset", "one_vs_rest"}, default="subset"
        Divide categories into any two groups, ordered by their gradients, or one category against all others.
    window : int, tuple, list or dict, default=0
        Which positions around t a tree may look at: ``w`` means −w … w, ``(l, r)`` means −l … r, a list holds the
        offsets themselves, and a dict has one of these for each column (``"*"`` for all others).
    order : int, default=1
        How many labels back a label depends on.
    potentials : {"auto", "joint", "factored"}, default="auto"
        Joint: trees see the labels before. Factored: trees see the window only and a table holds the scores of
        transitions; needs a fraction of memory and time when there are many labels. Auto: joint for up to 10 labels if
        half of the available memory is enough for it, factored otherwise.
    decoding : {"posterior", "viterbi"}, default="posterior"
        What ``predict`` returns: at each position the most probable label, which makes the fewest errors, or the most
        probable labelling as a whole. With ``transitions``, posterior decoding keeps to the allowed ones.
    curvature : {"mixing", "newton", "count"}, default="mixing"
        H in the value of a leaf: a bound under which the log-likelihood never falls, p(1 − p), or the number of
        examples (as in the papers).
    transitions : "any", "seen", name of a scheme, or array of shape (n_labels, n_labels), default="any"
        Which label may follow which (row = from, column = to): those seen in fit, those of a scheme ("IOB2",
        "BIOES", …), or those that an array allows.
    beam : int or None, default=None
        Prediction keeps only so many contexts at each position.
    early_stopping : "auto" or bool, default="auto"
        Stop when the log-likelihood of held-out sequences no longer rises, and keep the best round. Auto: if validation
        data are given or there are at least 20 sequences.
    validation_fraction : float, default=0.1
        Share of the sequences to hold out, if no validation data are given.
    n_iter_no_change : int, default=20
        Rounds without improvement that are waited for.
    tol : float, default=1e-6
        What counts as improvement, in log-likelihood per position.
    class_weight : None, "balanced" or dict, default=None
        Multiplies the odds of labels (logit adjustment, Menon et al. 2021).
    sequence : str or None, default=None
        Name of the column that tells sequences apart, if X is a table.
    warm_start : bool, default=False
        Go on from the last fit, up to ``max_iter`` rounds in all.
    random_state : int, RandomState or None, default=None
        Seed of held-out sequences and of features drawn at nodes.
    verbose : int, default=0
        0: silent; 1: progress bar; 2: a line per round.
    n_jobs : int or None, default=None
        Number of threads; None and −1: all cores. The model does not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of columns, if X has names.
    n_iter_ : int
        Rounds done.
    best_iteration_ : int
        Rounds kept: those with the best validation score, or all.
    best_score_ : float
        Validation score (without validation data: training score) of the kept rounds, log-likelihood per position.
    history_ : dict of lists
        Scores and accuracies by round; entry 0 is the start.
    evals_result_ : dict of dicts
        The same under LightGBM's name, by data set.
    potentials_ : {"joint", "factored"}
        What "auto" came to.
    transition_scores_ : ndarray of shape (n_labels, n_labels)
        For order 1: scores of transitions before the trees speak (row = from, column = to).

    See Also
    --------
    seqboost.load : Read a model that was written by ``save``.

    References
    ----------
    Dietterich, T. G., Ashenfelter, A. and Bulatov, Y. (2004). Training conditional random fields via gradient tree
    boosting. ICML.

    Dietterich, T. G., Hao, G. and Ashenfelter, A. (2008). Gradient tree boosting for training conditional random
    fields. JMLR 9.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> words, syllables = ["banana", "tomato", "panama"] * 9, ["010101", "010101", "010101"] * 9
    >>> model = TreeCRF(window=1, max_iter=20).fit(words, syllables)
    >>> print("".join(model.predict(["manana"])[0]))
    010101
    """

    classes_: NDArray[Any]
    _schema: BatchSchema
    _trained: Trained
    _seed: int
    _lasting: dict[str, Any]

    def __init__(
        self,
        *,
        learning_rate: float = 0.3,
        max_iter: int = 300,
        max_leaf_nodes: int = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 10,
        l2_regularization: float = 1.0,
        min_gain: float = 0.0,
        max_features: float = 1.0,
        max_bins: int = 255,
        categorical_features: Any = None,
        categorical_splits: str = "subset",
        window: Any = 0,
        order: int = 1,
        potentials: str = "auto",
        decoding: str = "posterior",
        curvature: str = "mixing",
        transitions: Any = "any",
        beam: int | None = None,
        early_stopping: str | bool = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        tol: float = 1e-6,
        class_weight: Any = None,
        sequence: str | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.min_gain = min_gain
        self.max_features = max_features
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.categorical_splits = categorical_splits
        self.window = window
        self.order = order
        self.potentials = potentials
        self.decoding = decoding
        self.curvature = curvature
        self.transitions = transitions
        self.beam = beam
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.class_weight = class_weight
        self.sequence = sequence
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn: missing values and sparse rows are fine, y is required."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        eval_set: Any = None,
        callbacks: Sequence[Callback] = (),
    ) -> TreeCRF:
        """Train on sequences.

        Parameters
        ----------
        X : list of sequences, table or SequenceBatch
            Sequences: 2-D arrays, lists of dicts, lists of values, strings, sparse matrices; or a table whose sequence
            column is named by ``sequence``.
        y : list of label sequences
            A label for each element; None or NaN = unobserved. For a table: a column of labels.
        sample_weight : array-like of shape (n_sequences,), optional
            Weights of sequences.
        X_val, y_val, sample_weight_val : as X, y and sample_weight, optional
            Validation sequences.
        eval_set : list of one (X, y) pair, optional
            The same, as other boosting libraries have it.
        callbacks : sequence of callables, optional
            Called after every round with a :class:`~seqboost.boosting.Progress`; a true answer stops training.

        Returns
        -------
        self : TreeCRF
        """
        # numpy's numbers would have kernels compiled for their types
        parameters = {name: plain_number(value) for name, value in self.get_params(deep=False).items()}
        check_parameters("TreeCRF", parameters, RULES)
        callbacks = callback_list(callbacks)
        X_val, y_val = validation_pair(X_val, y_val, sample_weight_val, eval_set)
        is_warm = self.warm_start and hasattr(self, "_trained")
        if is_warm:
            check_unchanged("TreeCRF", self._lasting, parameters)
        with unchanged_on_failure(self):
            training = self._labelled(X, y, sample_weight, is_warm)
            if not is_warm:
                self._seed = int(check_random_state(self.random_state).randint(2**31))
                self._lasting = {name: parameters[name] for name in LASTING}
            weights_of_classes = class_weights(self.class_weight, self.classes_, training.labels)
            training, validation = self._divided(training, X_val, y_val, sample_weight_val, self._seed)
            may_stop = validation is not None and self.early_stopping is not False
            stopping = Stopping(self.n_iter_no_change, self.tol) if may_stop else None
            with compile_notice(self.verbose), progress_bar(parameters["max_iter"], self.verbose) as bars:
                settings = Settings(
                    parameters, self.classes_, weights_of_classes, self._n_threads, self._seed, stopping,
                    [*bars, *callbacks],
                )  # fmt: skip
                self._set_trained(train(training, validation, settings, self._trained if is_warm else None))
        return self

    def _labelled(self, X: Any, y: Any, sample_weight: Any, is_warm: bool) -> Labelled:
        """Read X and y through the door; learn columns and labels, or hold them to those of the earlier fit."""
        schema = self._schema if is_warm else None
        batch = as_batch(
            X, sequence=self.sequence, categorical_features=self.categorical_features, schema=schema,
            estimator_name="TreeCRF",
        )  # fmt: skip
        if is_warm:
            labels = LabelCoder.from_classes(self.classes_).encode(y, batch)
        else:
            coder = LabelCoder()
            labels = coder.fit(y, batch)
            if len(coder.classes_) < 2:
                raise InputError(
                    f"y holds only one class, {coder.classes_.tolist()[0]!r}; TreeCRF needs at least two different "
                    f"labels to tell apart"
                )
            self.classes_ = coder.classes_
            self._schema = batch.schema
            self._set_feature_names(batch)
        return Labelled(batch, labels, sequence_weights(sample_weight, batch)).informative()

    def _set_feature_names(self, batch: SequenceBatch) -> None:
        self.n_features_in_ = batch.schema.n_features
        if batch.schema.named:
            self.feature_names_in_ = np.array(batch.schema.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _divided(
        self, training: Labelled, X_val: Any, y_val: Any, sample_weight_val: Any, seed: int
    ) -> tuple[Labelled, Labelled | None]:
        """Return training and validation sequences: those given, or some held out, or none."""
        if X_val is not None:
            with where("In the validation data"):
                batch = self._batch(X_val)
                labels = LabelCoder.from_classes(self.classes_).encode(y_val, batch)
                weights = sequence_weights(sample_weight_val, batch)
                return training, Labelled(batch, labels, weights, "y_val").informative()
        n_sequences = training.batch.n_sequences
        wants = n_sequences >= AUTO_STOPPING_SEQUENCES if self.early_stopping == "auto" else self.early_stopping
        if not wants:
            return training, None
        if n_sequences < 2:
            raise ParameterError(
                "early_stopping=True needs sequences to hold out, but X has only one; give X_val and y_val, or set "
                "early_stopping=False"
            )
        kept, held = hold_out(n_sequences, self.validation_fraction, seed)
        return training.take(kept), training.take(held)

    def _set_trained(self, trained: Trained) -> None:
        history = trained.history.to_dict()
        self._trained = trained
        self.history_ = history
        self.n_iter_ = len(history["train_score"]) - 1
        self.best_iteration_ = trained.best_iteration
        self.best_score_ = history.get("validation_score", history["train_score"])[trained.best_iteration]
        self.evals_result_ = {
            part: {"log_likelihood": history[f"{name}_score"], "accuracy": history[f"{name}_accuracy"]}
            for part, name in (("training", "train"), ("validation", "validation"))
            if f"{name}_score" in history
        }
        model = trained.model
        self.potentials_ = "joint" if model.forest.order == model.order else "factored"

    @property
    def transition_scores_(self) -> NDArray[np.float64]:
        """Scores of transitions (row = from, column = to) before the trees speak; order 1 only."""
        check_is_fitted(self)
        if self._trained.model.order != 1:
            raise AttributeError("transition_scores_ is there for order=1 only")
        return self._trained.model.table[1:].copy()

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether fit has been called."""
        return hasattr(self, "_trained")

    @property
    def _n_threads(self) -> int:
        return thread_count(plain_number(self.n_jobs))

    @property
    def _beam(self) -> int | None:
        beam: int | None = plain_number(self.beam)
        return beam

    def _batch(self, X: Any) -> SequenceBatch:
        return as_batch(X, sequence=self.sequence, schema=self._schema, estimator_name="TreeCRF")

    def _potentials(self, X: Any) -> tuple[SequenceBatch, Potentials]:
        check_is_fitted(self)
        check_parameters("TreeCRF", vars(self), PREDICTION_RULES)
        batch = self._batch(X)
        model, n_threads = self._trained.model, self._n_threads
        return batch, model.scored(model.binner.transform(batch, n_threads=n_threads), n_threads)

    def _posterior(self, potentials: Potentials) -> Posterior:
        return posterior(potentials, beam=self._beam, n_threads=self._n_threads)

    def predict(self, X: Any) -> Any:
        """Label sequences.

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        list of ndarray, one array of labels per sequence; for a table one array, in the order of its rows
        """
        batch, potentials = self._potentials(X)
        return batch.restore(self.classes_[self._decode(potentials)])

    def _decode(self, potentials: Potentials) -> NDArray[np.int32]:
        model, n_threads = self._trained.model, self._n_threads
        if self.decoding == "viterbi":
            return viterbi(potentials, beam=self._beam, n_threads=n_threads).labels
        found = self._posterior(potentials)
        if not model.is_constrained:
            return found.decode()
        # Of the allowed labellings, the one with the most correct labels to be expected.
        nodes = np.ascontiguousarray(found.node_marginals().T[:, :, None])
        allowed = Potentials(nodes, model.constraints(), potentials.offsets, potentials.order, potentials.end)
        return viterbi(allowed, n_threads=n_threads).labels

    def predict_proba(self, X: Any) -> Any:
        """Return P(y_t = k | X).

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        list of ndarray of shape (n_elements, n_labels), columns in the order of ``classes_``; for a table one array
        """
        batch, potentials = self._potentials(X)
        return batch.restore(self._posterior(potentials).node_marginals())

    def predict_marginals(self, X: Any) -> Any:
        """Return P(y_{t−1}, …, y_{t−m}, y_t | X): probabilities of contexts and labels together.

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        list of ndarray of shape (n_elements, n_labels ** order, n_labels)
            For order 1, entry [t, a, b] is the probability of label b after label a. A context is numbered
            y_{t−1} + n_labels · y_{t−2} + …; labels before the start of a sequence count as number 0.
        """
        batch, potentials = self._potentials(X)
        n_contexts = potentials.space.n_contexts
        if potentials.scores.shape[2] != n_contexts:
            shape = (*potentials.scores.shape[:2], n_contexts)
            scores = np.ascontiguousarray(np.broadcast_to(potentials.scores, shape))
            potentials = Potentials(scores, potentials.table, potentials.offsets, potentials.order, potentials.end)
        found = posterior(potentials, n_threads=self._n_threads)
        return batch.restore(np.ascontiguousarray(found.marginals.transpose(1, 2, 0)))

    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[NDArray[Any], float]]]:
        """Return the ``k`` most probable labellings of each sequence.

        Parameters
        ----------
        X : as in ``fit``
        k : int, default=5
            Number of labellings; fewer are returned if fewer are possible.

        Returns
        -------
        list of lists of (labels, log-probability), best first
        """
        check_parameters("predict_kbest", {"k": k}, {"k": integer(1, 1_000_000)})
        batch, potentials = self._potentials(X)
        k = min(int(k), len(self.classes_) ** int(batch.lengths.max()))
        n_threads = self._n_threads
        log_z = log_partition(potentials, n_threads=n_threads)
        return [
            [(self.classes_[path], float(min(score - z, 0.0))) for path, score in zip(*found, strict=True)]
            for found, z in zip(k_best(potentials, k, n_threads=n_threads), log_z, strict=True)
        ]

    def log_prob(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Return log P(y | X) of each sequence; labels that are None or NaN are summed over.

        A labelling that ``transitions`` forbids has −inf.

        Parameters
        ----------
        X, y : as in ``fit``

        Returns
        -------
        ndarray of float64 of shape (n_sequences,)
        """
        batch, potentials = self._potentials(X)
        labels = LabelCoder.from_classes(self.classes_).encode(y, batch)
        n_threads = self._n_threads
        score = log_partition_of(labels, potentials, n_threads)
        return np.minimum(score - log_partition(potentials, n_threads=n_threads), 0.0)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of elements that are labelled right; unobserved labels do not count.

        Parameters
        ----------
        X, y : as in ``fit``
        sample_weight : array-like of shape (n_sequences,), optional
            Weights of sequences.

        Returns
        -------
        float
        """
        batch, potentials = self._potentials(X)
        labels = LabelCoder.from_classes(self.classes_).encode(y, batch, unknown="mark")
        weights = np.repeat(sequence_weights(sample_weight, batch), batch.lengths)
        counted = (labels != -1) & (weights > 0)
        if not counted.any():
            raise InputError(
                "y has no observed label to score against: every label is None or NaN, or has sample_weight 0"
            )
        return float(np.average((self._decode(potentials) == labels)[counted], weights=weights[counted]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, without pickle; ``seqboost.load`` reads it.

        Parameters
        ----------
        path : str or path
            A file that exists is replaced, in one step.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TreeCRF:
        """Read a model that was written by ``save``."""
        return load_estimator(cls, path)
