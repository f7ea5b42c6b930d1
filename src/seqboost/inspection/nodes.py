"""Means of the nodes of trees: what a tree would say if it stopped there.

A tree keeps the values of its leaves. The mean of a node is that of the leaves below it, weighted by the training rows
that reached them,

    v(node) = Σ_leaves n_leaf · value_leaf / Σ_leaves n_leaf,

so that a walk from the root to a leaf goes through a chain of means that ends in the leaf's value.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.trees import Tree

__all__ = ["node_means"]


def node_means(tree: Tree) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the weight of each split of a tree.

    Parameters
    ----------
    tree : Tree
        A tree of one label, or one for all.

    Returns
    -------
    means : ndarray of float64, shape (n_splits, n_values)
        ``n_values`` is 1 for a tree of one label.
    weights : ndarray of float64, shape (n_splits,)
    """
    value = tree.value.reshape(tree.n_leaves, -1).astype(np.float64)
    leaf_weight = np.maximum(tree.leaf_rows.astype(np.float64), 1.0)
    means, weights = np.zeros((tree.n_splits, value.shape[1])), np.zeros(tree.n_splits)
    # depth-first order, children after their parents: backwards, both children are known
    order, stack = [], [0] if tree.n_splits else []
    while stack:
        node = stack.pop()
        order.append(node)
        stack += [int(child) for child in (tree.left[node], tree.right[node]) if child >= 0]
    for node in reversed(order):
        for child in (int(tree.left[node]), int(tree.right[node])):
            weight = weights[child] if child >= 0 else leaf_weight[~child]
            means[node] += weight * (means[child] if child >= 0 else value[~child])
            weights[node] += weight
        means[node] /= weights[node]
    return means, weights
