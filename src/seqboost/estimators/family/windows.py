"""Sliding windows: each position on its own, with any classifier of scikit-learn; and with the labels before it.

    SlidingWindow            P(y_t | w_t(X))
    RecurrentSlidingWindow   P(y_t | y_{t-1}, .., y_{t-m}, w_t(X)),  y_{t-1}.. true in training, predicted afterwards

The recurrent one is read greedily: what was said of y_{t-1} is never taken back. Sequences are read side by side, so a
prediction asks the classifier as many times as the longest sequence has positions.

References
----------
Dietterich, T. G. (2002). Machine learning for sequential data: a review. SSPR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from seqboost.core.exceptions import InputTypeError, ParameterError
from seqboost.core.parameters import Rule, check_parameters, integer, one_of
from seqboost.estimators.arguments import unchanged_on_failure
from seqboost.estimators.family.matrices import CodeWindows, IndicatorWindows, WindowMatrix, neighbours, with_columns
from seqboost.estimators.labeler import Labeler
from seqboost.features import FeatureBinner
from seqboost.linear import LinearColumns
from seqboost.sequences import SequenceBatch
from seqboost.training.dataset import Dataset
from seqboost.training.defaults import automatic_window

__all__ = ["RecurrentSlidingWindow", "SlidingWindow"]

LEFT_TO_RIGHT, RIGHT_TO_LEFT = "left_to_right", "right_to_left"

WINDOW_RULES: dict[str, Rule] = {"encoding": one_of("auto", "codes", "indicators")}


F = TypeVar("F", bound=Callable[..., Any])


def _only_if(check: Callable[[Any], bool]) -> Callable[[F], F]:
    """Return scikit-learn's decorator of methods that some estimators lack."""
    decorator: Callable[[F], F] = available_if(check)
    return decorator


def _can_weigh(model: Any) -> bool:
    """Return whether the classifier gives probabilities."""
    estimator = getattr(model, "estimator_", None) or model.estimator
    return estimator is None or hasattr(estimator, "predict_proba")


class _WindowLabeler(Labeler):
    """What both labellers share: the windows, the classifier inside, and its answers for all labels."""

    estimator: Any
    window: Any
    encoding: str
    categorical_features: Any

    _windows: WindowMatrix
    estimator_: Any

    n_jobs = None  # the classifier has its own

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on sequences.

        Parameters
        ----------
        X, y : as in :meth:`seqboost.TreeCRF.fit`
        sample_weight : array-like of shape (n_sequences,), optional
            Weights of sequences, if the classifier takes weights.

        Returns
        -------
        self : the labeller itself
        """
        estimator = self._checked()
        with unchanged_on_failure(self):
            training = self._learned(X, y, sample_weight)
            self._fit_windows(training, estimator)
            self.estimator_ = self._fitted(estimator, self._windows.transform(training.batch), training)
        return self

    def _fitted(self, estimator: Any, matrix: Any, training: Dataset) -> Any:
        """Return the classifier, trained on the matrix of windows."""
        raise NotImplementedError

    def _checked(self) -> Any:
        """Return the classifier to train, unfitted."""
        check_parameters(type(self).__name__, vars(self), self._rules)
        # Without a penalty it diverges where labels are many and rare: 4 % of NETtalk's training letters right.
        default = HistGradientBoostingClassifier(l2_regularization=10.0, random_state=0)
        estimator = default if self.estimator is None else self.estimator
        if not hasattr(estimator, "fit") or not is_classifier(estimator):
            raise ParameterError(
                f"The 'estimator' parameter of {type(self).__name__} must be a classifier of scikit-learn, or None for "
                f"HistGradientBoostingClassifier. Got {estimator!r:.80} instead."
            )
        return clone(estimator)

    _rules: ClassVar[Mapping[str, Rule]] = WINDOW_RULES

    def _fit_windows(self, training: Dataset, estimator: Any) -> None:
        """Learn columns and windows, encoded as suits the classifier."""
        batch = training.batch
        self.window_ = automatic_window(self.window, batch)
        binner = FeatureBinner.fit(batch, window=self.window_)
        encoding = self.encoding
        if encoding == "auto":
            has_categories = bool(batch.categories) or batch.sparse is not None
            knows_codes = "categorical_features" in estimator.get_params() or not has_categories
            encoding = "codes" if knows_codes and get_tags(estimator).input_tags.allow_nan else "indicators"
        if encoding == "codes":
            self._windows = CodeWindows.fit(batch, binner)
        else:
            self._windows = IndicatorWindows(LinearColumns.fit(batch, binner))

    def _trained_on(self, estimator: Any, matrix: Any, is_category: Any, training: Dataset) -> Any:
        """Return the classifier, trained on the rows whose labels are observed."""
        rows = np.flatnonzero(training.labels >= 0)
        asked = estimator.get_params(deep=False).get("categorical_features", False)
        if is_category.any() and (asked is None or asked == "from_dtype"):
            estimator.set_params(categorical_features=is_category)
        weights = np.repeat(training.weights, training.batch.lengths)[rows]
        arguments = {}
        if (weights != 1.0).any():
            if not has_fit_parameter(estimator, "sample_weight"):
                raise InputTypeError(
                    f"sample_weight was given, but {type(estimator).__name__}.fit takes none; leave it out, or use "
                    f"another estimator"
                )
            arguments["sample_weight"] = weights
        observed = matrix[rows]
        if not sp.issparse(observed):  # columns without a single value: HistGradientBoostingClassifier fails at them
            observed[:, np.isnan(observed).all(axis=0)] = 0.0
        return estimator.fit(observed, training.labels[rows], **arguments)

    def _probabilities(self, estimator: Any, matrix: Any) -> NDArray[np.float64]:
        """Return probabilities of all labels; of a classifier without any: 1 for the label that it predicts."""
        answer = np.zeros((matrix.shape[0], len(self.classes_)))
        if hasattr(estimator, "predict_proba"):
            answer[:, estimator.classes_] = estimator.predict_proba(matrix)
        else:
            answer[np.arange(len(answer)), estimator.predict(matrix)] = 1.0
        return answer

    @_only_if(_can_weigh)
    def predict_proba(self, X: Any, *, allow_missing_columns: bool = False) -> Any:
        """Return P(y_t = k | X); only if the classifier has ``predict_proba``.

        Parameters
        ----------
        X : as in ``fit``
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

        Returns
        -------
        list of ndarray of shape (n_elements, n_labels), columns in the order of ``classes_``; for a table one array
        """
        return super().predict_proba(X, allow_missing_columns=allow_missing_columns)

    def save(self, path: Any) -> None:
        """Refuse: what is inside is a model of scikit-learn, which joblib or pickle keep.

        Parameters
        ----------
        path : str or path
        """
        check_is_fitted(self)
        raise InputTypeError(
            f"{type(self).__name__} holds a classifier of scikit-learn, {type(self.estimator_).__name__}, which a "
            f"model file without pickle cannot hold; keep it with joblib.dump(model, path), and read only files that "
            f"you trust"
        )


class SlidingWindow(_WindowLabeler):
    """Label each position by a window around it, with any classifier of scikit-learn.

    Parameters
    ----------
    estimator : classifier or None, default=None
        What labels a window; None is ``HistGradientBoostingClassifier(l2_regularization=10.0)``.
    window : "auto", int, tuple, list or dict, default="auto"
        As in :class:`~seqboost.TreeCRF`.
    encoding : {"auto", "codes", "indicators"}, default="auto"
        How windows become a matrix. Codes: numbers as they are, NaN where they are missing or beyond the end of the
        sequence, categories as codes (the 252 most frequent). Indicators: a sparse matrix of indicators and
        standardised numbers, without any NaN. Auto: codes for classifiers that take NaN and, if there are categories,
        have a parameter ``categorical_features``; indicators for all others.
    categorical_features : None, list of columns or boolean mask, default=None
        Numeric columns to be treated as categories. Columns of strings always are.
    sequence : str, list of str or None, default=None
        Name of the column that tells sequences apart, if X is a table; a list: columns that do so together.
    time : str or None, default=None
        Name of the column of the table (or of each table in a list) that orders the positions of a sequence: dates
        and times, or numbers. It is no feature; the gap to the position before, in seconds or as a difference, is one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels.
    estimator_ : classifier
        The classifier, trained on codes of labels.
    window_ : int, tuple, list or dict
        What "auto" came to.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    There is no ``save``: the classifier inside is not ours to write to a file; use ``joblib``.

    Examples
    --------
    >>> from seqboost import SlidingWindow
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = SlidingWindow(DecisionTreeClassifier(), window=1).fit(["banana", "tomato"], ["010101", "010101"])
    >>> print("".join(model.predict(["manana"])[0]))
    010101
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        window: Any = "auto",
        encoding: str = "auto",
        categorical_features: Any = None,
        sequence: str | list[str] | None = None,
        time: str | None = None,
    ) -> None:
        self.estimator = estimator
        self.window = window
        self.encoding = encoding
        self.categorical_features = categorical_features
        self.sequence = sequence
        self.time = time

    def _fitted(self, estimator: Any, matrix: Any, training: Dataset) -> Any:
        return self._trained_on(estimator, matrix, self._windows.is_category, training)

    def _marginals(self, batch: SequenceBatch) -> NDArray[np.float64]:
        return self._probabilities(self.estimator_, self._windows.transform(batch))

    def _codes(self, batch: SequenceBatch) -> NDArray[np.int32]:
        return np.asarray(self.estimator_.predict(self._windows.transform(batch)), dtype=np.int32)


class RecurrentSlidingWindow(_WindowLabeler):
    """Label positions one after the other, by a window and the labels given to the positions before.

    Parameters
    ----------
    estimator : classifier or None, default=None
        What labels a window; None is ``HistGradientBoostingClassifier(l2_regularization=10.0)``.
    direction : {"left_to_right", "right_to_left"}, default="left_to_right"
        Where labelling begins; from right to left, the labels "before" are those that follow.
    order : int, default=1
        How many labels before are seen.
    training : {"true", "predicted"}, default="true"
        Whether the labels before are the true ones in training, or those that a model predicts, as they will be later.
    n_iter : int, default=1
        With ``training="predicted"``: how often labels are predicted and the classifier trained on them anew.
    n_folds : int or None, default=3
        With ``training="predicted"``: labels are predicted by classifiers that did not see their sequence, in so many
        folds. None: by the classifier that was trained on all of them.
    window, encoding, categorical_features, sequence
        As in :class:`SlidingWindow`.

    Attributes
    ----------
    classes_, estimator_, window_, n_features_in_
        As of :class:`SlidingWindow`.

    Notes
    -----
    ``predict_proba`` gives P(y_t | the labels predicted before, w_t(X)), not P(y_t | X).

    Examples
    --------
    >>> from seqboost import RecurrentSlidingWindow
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = RecurrentSlidingWindow(DecisionTreeClassifier(), window=0).fit(["aaaa", "aaa"], ["0101", "010"])
    >>> print("".join(model.predict(["aaaaaa"])[0]))       # nothing but the label before tells
    010101
    """

    _rules: ClassVar[Mapping[str, Rule]] = {
        **WINDOW_RULES,
        "direction": one_of(LEFT_TO_RIGHT, RIGHT_TO_LEFT),
        "order": integer(1, 100),
        "training": one_of("true", "predicted"),
        "n_iter": integer(1),
        "n_folds": integer(2, none=True),
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        direction: str = LEFT_TO_RIGHT,
        order: int = 1,
        training: str = "true",
        n_iter: int = 1,
        n_folds: int | None = 3,
        window: Any = "auto",
        encoding: str = "auto",
        categorical_features: Any = None,
        sequence: str | list[str] | None = None,
        time: str | None = None,
    ) -> None:
        self.estimator = estimator
        self.direction = direction
        self.order = order
        self.training = training
        self.n_iter = n_iter
        self.n_folds = n_folds
        self.window = window
        self.encoding = encoding
        self.categorical_features = categorical_features
        self.sequence = sequence
        self.time = time

    def _fitted(self, estimator: Any, matrix: Any, training: Dataset) -> Any:
        model = self._fit_on(estimator, matrix, training, training.labels)
        if self.training == "predicted":
            for _ in range(self.n_iter):
                said = self._said(estimator, model, matrix, training)
                model = self._fit_on(estimator, matrix, training, said)
        return model

    def _fit_on(self, estimator: Any, matrix: Any, training: Dataset, said: NDArray[np.int32]) -> Any:
        """Return a classifier trained on windows and the labels that are ``said`` of the positions before."""
        extra = self._lag_columns(said, training.batch.offsets)
        is_category = np.append(self._windows.is_category, np.full(extra.shape[1], self._has_codes))
        return self._trained_on(clone(estimator), with_columns(matrix, extra), is_category, training)

    def _said(self, estimator: Any, model: Any, matrix: Any, training: Dataset) -> NDArray[np.int32]:
        """Return labels that are predicted for the training sequences."""
        n_sequences = training.batch.n_sequences
        if self.n_folds is None or n_sequences < 2:
            return self._read(model, matrix, training.batch.offsets)[0]
        said = training.labels.copy()
        for fold in np.array_split(np.random.default_rng(0).permutation(n_sequences), min(self.n_folds, n_sequences)):
            held = np.zeros(n_sequences, dtype=bool)
            held[fold] = True
            rows = np.repeat(held, training.batch.lengths)
            kept = training.take(np.flatnonzero(~held))
            if len(np.unique(kept.labels[kept.labels >= 0])) < 2:
                continue  # nothing to learn from: the true labels stay
            other = self._fit_on(estimator, matrix[~rows], kept, training.labels[~rows])
            offsets = np.concatenate([[0], np.cumsum(training.batch.lengths[held])])
            said[rows] = self._read(other, matrix[rows], offsets)[0]
        return said

    @property
    def _has_codes(self) -> bool:
        return isinstance(self._windows, CodeWindows)

    def _lag_columns(self, labels: NDArray[np.int32], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the labels before each position as columns: K where there is none, NaN where it is unobserved."""
        n_labels, sign = len(self.classes_), -1 if self.direction == LEFT_TO_RIGHT else 1
        lags = []
        for lag in range(1, self.order + 1):
            rows, inside = neighbours(offsets, sign * lag)
            before = labels[rows]
            lags.append(np.where(inside, np.where(before >= 0, before, np.nan), n_labels))
        return self._encoded(np.column_stack(lags))

    def _encoded(self, lags: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return labels as codes, or as an indicator of each label and of "none" for each lag."""
        if self._has_codes:
            return lags
        values = np.arange(len(self.classes_) + 1)
        indicators: NDArray[np.bool_] = lags[:, :, None] == values
        return indicators.reshape(len(lags), -1).astype(np.float64)

    def _read(
        self, estimator: Any, matrix: Any, offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Label sequences step by step, all of them side by side; return codes and probabilities."""
        n_labels, lengths = len(self.classes_), np.diff(offsets)
        codes = np.full(offsets[-1], -1, dtype=np.int32)
        probability = np.empty((offsets[-1], n_labels))
        recent = np.full((len(lengths), self.order), float(n_labels))  # the labels given last, the newest first
        forwards = self.direction == LEFT_TO_RIGHT
        for step in range(int(lengths.max())):
            active = np.flatnonzero(lengths > step)
            rows = offsets[active] + step if forwards else offsets[active + 1] - 1 - step
            found = self._probabilities(estimator, with_columns(matrix[rows], self._encoded(recent[active])))
            codes[rows], probability[rows] = found.argmax(axis=1), found
            recent[active, 1:] = recent[active, :-1]
            recent[active, 0] = codes[rows]
        return codes, probability

    def _marginals(self, batch: SequenceBatch) -> NDArray[np.float64]:
        return self._read(self.estimator_, self._windows.transform(batch), batch.offsets)[1]
