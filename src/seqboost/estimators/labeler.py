"""What every labeller of sequences has in common: the door, the coding of labels, and the faces after training.

A labeller of any kind is these few methods around its own model::

    fit(X, y)       _learned: the user's objects -> Dataset; classes_, n_features_in_, feature_names_in_
    predict         _codes(batch)       (n_rows,) codes of labels
    predict_proba   _marginals(batch)   (n_rows, n_labels)
    score           share of the codes that are right
    save, load      _to_arrays, _from_arrays: arrays and a header of plain values for the model file

Two kinds of them::

    Labeler
    ├── SequenceLabeler (prediction.py)  a chain of labels: scores -> seqboost.chain; path probabilities, k best paths
    │   └── TreeCRF, MEMM, HMM, LinearCRF, VotedPerceptron, FutureFeatureMEMM
    └── SlidingWindow, RecurrentSlidingWindow, IOHMM, OutputCoding
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from seqboost.core.exceptions import InputError
from seqboost.core.labelsets import UNKNOWN, LabelSets
from seqboost.core.parameters import Rule, check_parameters, one_of, plain_number
from seqboost.core.threads import thread_count
from seqboost.estimators.persistence import KINDS, load_estimator, save_estimator
from seqboost.estimators.query import Query, cheapest, cost_matrix
from seqboost.sequences import BatchSchema, LabelCoder, SequenceBatch, as_batch, sample_weights
from seqboost.sequences.containers import check_container, labels_in, probabilities_in
from seqboost.sequences.ordering import Roles
from seqboost.sequences.tables import label_column
from seqboost.sequences.torn import TrainingTable
from seqboost.training.dataset import Dataset

__all__ = ["MANY_LABELS", "Labeler"]

MANY_LABELS = 1000  # more are, as a rule, numbers or identifiers that were taken for classes


class Labeler(BaseEstimator):
    """Base class of estimators that label sequences.

    A subclass has the parameters ``sequence`` and ``time``; its ``fit`` calls :meth:`_learned`, and it has ``_codes``
    or ``_marginals``, ``_to_arrays`` and ``_from_arrays``.
    """

    sequence: str | list[str] | None
    time: str | None
    n_jobs: int | None

    classes_: NDArray[Any]
    _schema: BatchSchema
    _earlier_beam: int | None = None  # of prediction, in models from files of version 0.1
    _takes_sets: ClassVar[bool] = False  # whether labels of training may be sets: one of these, not known which
    _takes_position_weights: ClassVar[bool] = False

    def __init_subclass__(cls, *, is_base: bool = False, **options: Any) -> None:
        """Enter a labeller of this package into the list of those that a model file may name."""
        super().__init_subclass__(**options)
        is_whole = not is_base and hasattr(cls, "fit") and cls._from_arrays is not Labeler._from_arrays
        if is_whole and cls.__module__.startswith("seqboost."):
            KINDS[cls.__name__] = cls

    # Parameters that play a part in prediction, and may be changed after fit.
    _prediction_rules: ClassVar[Mapping[str, Rule]] = {}

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn: missing values and sparse rows are fine, y is required."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    @property
    def _n_threads(self) -> int:
        return thread_count(plain_number(self.n_jobs))

    @property
    def _label_limit(self) -> int | None:
        """The largest number of labels; None: any."""
        return None

    # ------------------------------------------------------------------------------------------------ the door

    def _learned(self, X: Any, y: Any, sample_weight: Any = None) -> Dataset:
        """Read X and y through the door, and learn columns and labels from them."""
        name, label = type(self).__name__, y if isinstance(y, str) else None
        y = self._labels(X, y)
        batch = as_batch(
            X, sequence=self.sequence, time=self.time, label=label,
            categorical_features=getattr(self, "categorical_features", None), estimator_name=name,
        )  # fmt: skip
        coder = LabelCoder()
        labels = coder.fit(y, batch, sets=self._takes_sets)
        if len(coder.classes_) < 2:
            raise InputError(
                f"y holds only one class, {coder.classes_.tolist()[0]!r}; {name} needs at least two different "
                f"labels to tell apart"
            )
        if self._label_limit is not None and len(coder.classes_) > self._label_limit:
            raise InputError(
                f"y holds {len(coder.classes_):,} different labels, such as {coder.classes_.tolist()[0]!r} and "
                f"{coder.classes_.tolist()[1]!r}; {name} takes at most {self._label_limit:,}, because time and memory "
                f"grow with their square. If they are numbers or identifiers, bin or group them; if they really are "
                f"classes, use TreeCRF(potentials='factored')"
            )
        self.classes_ = coder.classes_
        self._earlier_beam = None
        self._schema = batch.schema
        self._training_table = TrainingTable.of(batch.origin)
        self._set_feature_names(batch.schema)
        return self._dataset(batch, labels, sample_weight, "y", coder.sets_)

    def _known(self, X: Any, y: Any, sample_weight: Any, name: str = "y") -> Dataset:
        """Read X and y through the door, and hold them to the columns and labels that were learnt."""
        y = self._labels(X, y)
        batch = self._batch(X)
        coder = LabelCoder.from_classes(self.classes_)
        labels = coder.encode(y, batch, sets=self._takes_sets)
        return self._dataset(batch, labels, sample_weight, name, coder.sets_)

    def _dataset(
        self, batch: SequenceBatch, labels: NDArray[np.int32], sample_weight: Any, name: str, sets: LabelSets | None
    ) -> Dataset:
        """Return sequences that say something, with their labels and weights."""
        weights = sample_weights(sample_weight, batch)
        if weights.positions is not None and not self._takes_position_weights:
            raise InputError(
                f"sample_weight has weights of positions, but {type(self).__name__} takes one number for each of the "
                f"{batch.n_sequences} sequences; give these, or use TreeCRF"
            )
        given = Dataset(batch, labels, weights.sequences, name, position_weights=weights.positions, sets=sets)
        return given.informative()

    def _labels(self, X: Any, y: Any) -> Any:
        """Return labels: y, or the column of a table that y names."""
        return label_column(X, y, Roles(self.sequence, self.time)) if isinstance(y, str) else y

    def _set_feature_names(self, schema: BatchSchema) -> None:
        self.n_features_in_ = schema.n_features
        if schema.named:
            self.feature_names_in_ = np.array(schema.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _batch(self, X: Any, allow_missing_columns: bool = False) -> SequenceBatch:
        return as_batch(
            X, sequence=self.sequence, time=self.time, schema=self._schema, estimator_name=type(self).__name__,
            allow_missing_columns=allow_missing_columns,
        )  # fmt: skip

    def _opened(self, X: Any, allow_missing_columns: bool = False) -> SequenceBatch:
        """Read X for prediction: of a fitted labeller, with possible parameters."""
        check_is_fitted(self)
        check_parameters(type(self).__name__, vars(self), self._prediction_rules)
        check_parameters(
            "predict", {"allow_missing_columns": allow_missing_columns}, {"allow_missing_columns": one_of(True, False)}
        )
        batch = self._batch(X, allow_missing_columns)
        self._warn_if_torn(batch)
        return batch

    def _warn_if_torn(self, batch: SequenceBatch) -> None:
        """Warn, once, if sequences of the training table come back in part."""
        table: TrainingTable | None = getattr(self, "_training_table", None)  # a model from a file has none
        torn = [] if table is None or batch.origin.ids is None else table.torn(batch.origin)
        if torn:
            name, now, then = torn[0]
            columns: Any = self._schema.sequence
            columns = list(columns) if isinstance(columns, tuple) else columns
            warnings.warn(
                f"Sequences are torn apart: X does not hold all rows of {len(torn)} sequence(s) that "
                f"{type(self).__name__} was trained on; {name!r} has {now} rows here and had {then} in training. "
                f"Labels at the edges of a part lack their context, and scores are too good if one part is trained on "
                f"and another one is scored. Keep the rows of a sequence together, in cross-validation by "
                f"cv=SequenceKFold(5, sequence={columns!r}) of seqboost.evaluation. If these are other "
                f"sequences, give them ids of their own.",
                stacklevel=4,
            )

    def __getstate__(self) -> Any:
        """Leave out what is kept in memory only."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_training_table"}

    # --------------------------------------------------------------------------------------------- prediction

    def _marginals(self, batch: SequenceBatch) -> NDArray[Any]:
        """Return P(y_t = k | X), (n_rows, n_labels)."""
        raise NotImplementedError

    def _codes(self, batch: SequenceBatch) -> NDArray[np.int32]:
        """Return codes of labels, (n_rows,)."""
        codes: NDArray[np.int32] = np.argmax(self._marginals(batch), axis=1).astype(np.int32)
        return codes

    @property
    def _container(self) -> str:
        config: dict[str, str] = getattr(self, "_sklearn_output_config", {})
        return config.get("transform", "default")

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``predict`` and ``predict_proba`` return: arrays, or series and frames.

        The choice goes with clones and pickles, not with model files.

        Parameters
        ----------
        transform : {"default", "pandas", "polars", None}, default=None
            Default: arrays. Pandas, polars: labels as a series, named as the label column that ``fit`` was told of
            (else "label"), and probabilities as a frame with a column for each label; both with the index of a pandas
            table. None: as before.

        Returns
        -------
        self : the labeler itself

        Examples
        --------
        >>> import pandas as pd
        >>> from seqboost import TreeCRF
        >>> table = pd.DataFrame({"word": [0] * 6 + [1] * 6, "letter": list("bananatomato"), "vowel": [0, 1] * 6})
        >>> model = TreeCRF(max_iter=20, min_samples_leaf=1, sequence="word").set_output(transform="pandas")
        >>> model.fit(table, "vowel").predict(table).tail(2)
        10    0
        11    1
        Name: vowel, dtype: int64
        """
        if transform is not None:
            check_container(transform)
            self._sklearn_output_config = {"transform": transform}
        return self

    def predict(self, X: Any, *, costs: Any = None, allow_missing_columns: bool = False) -> Any:
        """Label sequences.

        Parameters
        ----------
        X : as in ``fit``
        costs : dict, DataFrame or array of shape (n_labels, n_labels), optional
            What it costs to predict a label for another one: ``{(true, predicted): cost}`` or ``{true: {predicted:
            cost}}`` (pairs left out cost 1, right labels 0), a DataFrame with true labels as index and predicted ones
            as columns, or an array in the order of ``classes_`` (row = true). The label of least expected cost is
            predicted, by the probabilities of ``predict_proba``.
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

        Returns
        -------
        list of ndarray, one array of labels per sequence; for a table one array, in the order of its rows;
            series instead of arrays if :meth:`set_output` asks for them

        Examples
        --------
        >>> from seqboost import TreeCRF
        >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
        >>> print(*model.predict(["manana"])[0])
        0 1 0 1 0 1
        """
        batch = self._opened(X, allow_missing_columns)
        if costs is None:
            codes = self._codes(batch)
        else:
            codes = cheapest(self._marginals(batch), Query(costs=cost_matrix(costs, self.classes_)))
        return labels_in(self._container, self.classes_[codes], batch)

    def predict_proba(self, X: Any, *, allow_missing_columns: bool = False) -> Any:
        """Return P(y_t = k | X).

        Parameters
        ----------
        X : as in ``fit``
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

        Returns
        -------
        list of ndarray of shape (n_elements, n_labels), columns in the order of ``classes_``; for a table one array;
            frames instead of arrays if :meth:`set_output` asks for them

        Examples
        --------
        >>> from seqboost import TreeCRF
        >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
        >>> model.predict_proba(["manana"])[0].shape
        (6, 2)
        """
        batch = self._opened(X, allow_missing_columns)
        return probabilities_in(self._container, self._marginals(batch), batch, self.classes_)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, allow_missing_columns: bool = False) -> float:
        """Return the share of elements that are labelled right; unobserved labels and sets of labels do not count.

        Labels that training did not have count as wrong; if there are no others, a warning says so.

        Parameters
        ----------
        X, y : as in ``fit``
        sample_weight : array-like, optional
            Weights of sequences, of shape (n_sequences,), or of positions, in the form of y.
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

        Returns
        -------
        float

        Examples
        --------
        >>> from seqboost import TreeCRF
        >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
        >>> model.score(["manana"], ["010101"])
        1.0
        """
        check_is_fitted(self)
        y = self._labels(X, y)
        batch = self._opened(X, allow_missing_columns)
        labels = LabelCoder.from_classes(self.classes_).encode(y, batch, unknown="mark", sets=True)
        weights = sample_weights(sample_weight, batch).of_rows(batch)
        counted = ((labels >= 0) | (labels == UNKNOWN)) & (weights > 0)
        if not counted.any():
            raise InputError(
                "y has no observed label to score against: every label is None or NaN, or has sample_weight 0"
            )
        if (labels[counted] == UNKNOWN).all():
            known, kinds = self.classes_.tolist(), sorted({type(label).__name__ for label in self.classes_.tolist()})
            warnings.warn(
                f"no label of y is one that {type(self).__name__} was trained with, so none can be right; it knows "
                f"{', '.join(map(repr, known[:5]))}{', ...' if len(known) > 5 else ''} ({' and '.join(kinds)}). Pass "
                f"labels of that kind: 0 and '0' are different labels",
                stacklevel=2,
            )
        return float(np.average((self._codes(batch) == labels)[counted], weights=weights[counted]))

    # --------------------------------------------------------------------------------------------- model file

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the model as arrays and a header of plain values."""
        raise NotImplementedError

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        """Take over what ``_to_arrays`` gave; labels and schema are there already."""
        raise NotImplementedError

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
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that was written by ``save``."""
        return load_estimator(cls, path)
