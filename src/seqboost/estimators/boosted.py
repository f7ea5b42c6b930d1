"""What TreeCRF, MEMM and the future-feature labelers share: ``fit``, step by step."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from sklearn.utils import check_random_state

from seqboost.boosting import Callback, as_metrics
from seqboost.core.parameters import (
    Rule,
)
from seqboost.estimators.arguments import (
    CallbackSupportMixin,
    callback_list,
    evaluation_sets,
    scikit_callbacks,
    set_names,
    unchanged_on_failure,
    where,
    with_callbacks,
)
from seqboost.estimators.prediction import SequenceLabeler
from seqboost.sequences import class_weights
from seqboost.training import (
    FitConfig,
    FitData,
)
from seqboost.training.dataset import Dataset
from seqboost.training.interrupt import StopOnInterrupt

__all__ = ["BoostedLabeler"]

NO_ROUNDS = (
    "{} keeps no round of boosting: none raised the log-likelihood (or the first eval_metric) of the held-out "
    "sequences (or of the training sequences, without any held out), so labels are predicted from {} alone. Check that "
    "y belongs to X; try a lower learning_rate or a larger window."
)
STARTS = {"labels": "their transitions", "linear": "the linear start (init_ is 'linear')"}
INTERRUPTED = "Training was interrupted: {} keeps the best model so far, of {} rounds."


class BoostedLabeler(CallbackSupportMixin, SequenceLabeler):
    """Base class of labelers whose potentials are boosted trees: ``fit``, step by step.

    A subclass has ``_config``, ``_train`` and ``_set_result``.
    """

    random_state: Any
    verbose: int
    warm_start: bool = False
    class_weight: Any = None

    _rules: ClassVar[Mapping[str, Rule]]

    def _config(self) -> FitConfig:
        """Return the configuration, with parameters checked."""
        raise NotImplementedError

    _train: Callable[..., Any]  # as seqboost.training.train

    def _with_result(self, result: Any) -> Self:
        """Return a copy that is fitted with another result."""
        fitted = copy.copy(self)
        fitted._set_result(result)
        return fitted

    def _set_result(self, result: Any) -> None:
        """Set the attributes of a fitted labeler."""
        raise NotImplementedError

    @property
    def _n_rounds(self) -> int:
        """Rounds that were kept."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether fit has been called."""
        return hasattr(self, "_result")

    def _seed(self) -> int:
        """Draw the seed of a fit."""
        return int(check_random_state(self.random_state).randint(2**31))

    @with_callbacks
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
        eval_names: Any = None,
        eval_metric: Any = None,
        callbacks: Sequence[Callback | Callable[..., Any]] = (),
    ) -> Self:
        """Train on sequences.

        Parameters
        ----------
        X : list of sequences, table or SequenceBatch
            Sequences: 2-D arrays, lists of dicts, lists of values, strings (each character an element), sparse
            matrices; or a table whose sequence column is named by ``sequence``. Of an element that is a tuple, or a
            list with other values than strings, each place is a column; a *list of strings* is a bag of attributes, as
            in CRFsuite, in which places mean nothing. What lists mean is settled here: ``predict`` goes by it.
        y : list of label sequences
            A label for each element; None, NaN or masked = unobserved. A set or frozenset of labels = one of them, not
            known which; the likelihood sums over them. For a table: a column of labels, or the name of the column that
            holds them.
        sample_weight : array-like, optional
            Weights of sequences, of shape (n_sequences,); or weights v of positions, in the form of y. Those need
            ``Method(objective="position_likelihood")``, Σ_t v_t log P(y_t | X), which they bring by themselves: a
            likelihood of whole sequences has no terms that could carry them.
        X_val, y_val, sample_weight_val : as X, y and sample_weight, optional
            Validation sequences.
        eval_set : list of (X, y) pairs, optional
            The same, as other boosting libraries have it. The first pair stops training; others are evaluated after
            each round, and ``sample_weight_val`` is then a list with the weights of each.
        eval_names : list of str, optional
            Names of the pairs in ``evals_result_``; "validation" for a single one, "valid_0", "valid_1", … for several.
        eval_metric : str, callable or list of these, optional
            Metrics to take after each round, of the evaluation sets or held-out sequences (else of the training
            sequences); the first one stops training, instead of the log-likelihood. Names are "macro_f1",
            "weighted_f1", "balanced_accuracy", "cohen_kappa", "matthews_corrcoef", "sequence_accuracy", "log_loss",
            "log_likelihood" and "accuracy". A function is called as ``metric(y_true, y_pred)`` with two lists that hold
            an array of labels for each sequence, without unobserved positions; it returns a number, where more is
            better, or ``(name, value, is_higher_better)``. Labels are those of the posterior, weighted by
            ``class_weight``.
        callbacks : sequence of Callback or callable, optional
            Called after every round with a :class:`~seqboost.Progress`; a true answer stops training. Some are in
            :mod:`seqboost.callbacks`. With others that may stop nothing is tuned: they see the one training there is.
            Others get the rounds of the training that is kept afterwards (:class:`~seqboost.Callback`).

        Returns
        -------
        self : the labeler itself
        """
        config, called = self._config(), callback_list(callbacks)
        metrics = as_metrics(eval_metric)
        evaluated = evaluation_sets(X_val, y_val, sample_weight_val, eval_set)
        names = set_names(eval_names, len(evaluated))
        earlier = self._result if self.warm_start and hasattr(self, "_result") else None
        with (
            scikit_callbacks(self, X, y, sample_weight, config.max_iter) as hooks,
            unchanged_on_failure(self),
        ):
            data = self._read(X, y, sample_weight, known=earlier is not None)
            sets = self._read_sets(evaluated)
            data = replace(
                data, validation=sets[0] if sets else None, others=tuple(sets[1:]), set_names=names, metrics=metrics
            )
            with StopOnInterrupt() as interrupt:
                watching = [*called, *hooks, interrupt]
                result = self._train(config, data, callbacks=watching, earlier=earlier, present=self._with_result)
            self._set_result(result)
        if interrupt.is_asked:
            warnings.warn(INTERRUPTED.format(type(self).__name__, self._n_rounds), stacklevel=2)
        elif self._n_rounds == 0:
            warnings.warn(NO_ROUNDS.format(type(self).__name__, STARTS[self.init_]), stacklevel=2)
        return self

    def _read(self, X: Any, y: Any, sample_weight: Any, *, known: bool) -> FitData:
        """Read training sequences; hold them to columns and labels of the last fit if these are ``known``."""
        training = (self._known if known else self._learned)(X, y, sample_weight)
        weights = None
        if self.class_weight is not None:
            weights = class_weights(self.class_weight, self.classes_, training.labels)
        return FitData(training, self.classes_, None, weights)

    def _read_sets(self, evaluated: Sequence[tuple[Any, Any, Any]]) -> list[Dataset]:
        """Read evaluation sets, each given as X, y and weights."""
        sets = []
        for number, (X, y, weights) in enumerate(evaluated):
            place = "the validation data" if len(evaluated) == 1 else f"eval_set[{number}]"
            with where(f"In {place}"):
                sets.append(self._known(X, y, weights, "y_val" if len(evaluated) == 1 else f"{place}[1]"))
        return sets
