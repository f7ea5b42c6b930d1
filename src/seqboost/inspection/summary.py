"""What a model is, in a few words and numbers."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

__all__ = ["summary"]


def summary(model: Any) -> dict[str, Any]:
    """Return what a fitted model is: labels, columns, kind and number of trees, score.

    Parameters
    ----------
    model : TreeCRF
        A fitted model.

    Returns
    -------
    dict
        Ready for JSON.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.inspection import summary
    >>> found = summary(TreeCRF(max_iter=5).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15))
    >>> found["labels"], found["columns"]
    (['0', '1'], {'numeric': 0, 'categorical': 1, 'sparse': 0})
    """
    check_is_fitted(model)
    forest, schema = model._result.model.forest, model._schema
    kinds = [column.kind for column in schema.columns]
    return {
        "estimator": type(model).__name__,
        "labels": [str(label) for label in model.classes_.tolist()],
        "columns": {
            "numeric": kinds.count("numeric"),
            "categorical": kinds.count("categorical"),
            "sparse": len(schema.sparse_names),
        },
        "window": str(model.window_),
        "order": model.order,
        "potentials": model.potentials_,
        "trees": model.trees_,
        "init": model.init_,
        "rounds": int(model.best_iteration_),
        "n_trees": forest.n_trees,
        "n_leaves": len(forest.value),
        "best_score": float(model.best_score_),
        "scored_on": "held-out" if "validation_score" in model.history_ else "training",
    }
