"""The linear part of a model that started from a linear chain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from seqboost.features.windows import window_name
from seqboost.linear import LinearColumns

__all__ = ["LinearWeight", "column_names", "linear_weights"]


class LinearWeight(NamedTuple):
    """The weight of a feature for a label."""

    label: Any
    name: str
    weight: float


def column_names(columns: LinearColumns, schema: Any) -> list[tuple[str, str]]:
    """Return the column and the value that each column of a linear model stands for ("" = the number itself)."""
    numeric = [column.name for column in schema.columns if column.kind == "numeric"]
    categorical = [column.name for column in schema.columns if column.kind == "categorical"]
    names: list[tuple[str, str]] = []
    for name in numeric:
        names += [(name, ""), (name, "missing")]
    for name, categories in zip(categorical, columns.binner.categories, strict=True):
        names += [(name, str(category)) for category in categories] + [(name, "missing")]
    names += [(name, "") for name in schema.sparse_names]
    return names + [(name, "missing") for name in schema.sparse_names]


def linear_weights(model: Any) -> list[LinearWeight]:
    """Return the weights of the linear part, the largest first; none if the model has no such part.

    Parameters
    ----------
    model : TreeCRF
        A fitted model.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.inspection import linear_weights
    >>> words = [[{"w": w} for w in text.split()] for text in ("a cat", "the dog", "a dog", "the cat")] * 8
    >>> model = TreeCRF(init="linear", max_iter=2).fit(words, [["D", "N"]] * 32)
    >>> abs(linear_weights(model)[0].weight) > 0
    True
    """
    check_is_fitted(model)
    linear = model._result.model.linear
    if linear is None:
        return []
    names = column_names(linear.columns, model._schema)
    labels = model.classes_.tolist()
    feature_names = [""] * linear.columns.n_features
    for o, offset in enumerate(linear.columns.offsets.tolist()):
        for j in np.flatnonzero(linear.columns.feature_of[o] >= 0).tolist():
            column, value = names[j]
            text = window_name(column, offset) + (f"={value}" if value else "")
            feature_names[linear.columns.feature_of[o, j]] = text
        if linear.columns.boundary[o] >= 0:
            feature_names[linear.columns.boundary[o]] = window_name("(outside)", offset)
    feature = np.repeat(np.arange(linear.columns.n_features), np.diff(linear.start))
    order = np.argsort(-np.abs(linear.value), kind="stable").tolist()
    return [LinearWeight(labels[linear.label[i]], feature_names[feature[i]], float(linear.value[i])) for i in order]
