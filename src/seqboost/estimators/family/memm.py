"""MEMM: boosted trees inside a chain that is normalised position by position.

    P(Y | X) = Π_t P(y_t | y_{t-1}, .., y_{t-m}, w_t(X)),         P(k | c, w) = exp F^k(c, w) / Σ_j exp F^j(c, w)

It is trained by TreeCRF's own loop with another objective (``objectives/local.py``), which needs no forward–backward
pass. Once trained, log P(k | c, w_t) are the scores of a chain whose Z is 1, so it is decoded as any other chain is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials, locally_normalised
from seqboost.core.exceptions import ModelFileError
from seqboost.estimators.pieces import in_pieces
from seqboost.estimators.treecrf import TreeCRF
from seqboost.sequences import SequenceBatch

__all__ = ["MEMM"]

FIXED: dict[str, Any] = {
    "objective": "local",
    "pseudo_likelihood_rounds": 0,
    "contexts": "all",
    "init": "labels",
    "min_duration": 1,
}


class MEMM(TreeCRF):
    """Label sequences with boosted trees that see the labels before: a maximum entropy Markov model.

    Each label is predicted from a window and the labels before it, as by a
    :class:`~seqboost.RecurrentSlidingWindow`, but all labellings are weighed against each other, not the greedy one
    alone. Training costs less than that of :class:`~seqboost.TreeCRF`; in return what comes later cannot correct what
    came before (label bias): where the label after a context is nearly certain, the input there hardly counts.

    Parameters
    ----------
    learning_rate : "auto" or float, default="auto"
    max_iter : int, default=500
    max_leaf_nodes : int, default=31
    max_depth : int or None, default=None
    min_samples_leaf : int, default=20
    l2_regularization : "auto" or float, default="auto"
    min_gain : float, default=0.0
    max_features : float, default=1.0
    max_features_per_tree : float, default=1.0
    max_bins : int, default=255
    categorical_features : None, list of columns or boolean mask, default=None
    categorical_splits : {"subset", "one_vs_rest"}, default="subset"
    window : "auto", int, tuple, list or dict, default="auto"
    missing : str or dict, default="direction"
    n_surrogates : int, default=3
        As in :class:`~seqboost.TreeCRF`.
    order : int, default=1
        How many labels back a label depends on; 0 is a sliding window.
    potentials : {"auto", "joint", "factored"}, default="auto"
        Joint: trees see the labels before. Factored: F = trees of the window + a table of transitions. Auto: as in
        :class:`~seqboost.TreeCRF`, trials included.
    trees, decoding : str
        As in :class:`~seqboost.TreeCRF`.
    curvature : {"mixing", "newton", "count"}, default="mixing"
        H in the value of a leaf: the bound 2p(1 − p), under which the log-likelihood never falls; p(1 − p); or the
        number of examples.
    step, direction, sampling, n_bags, transitions
        As in :class:`~seqboost.TreeCRF`.
    beam : int or None, default=None
        Prediction keeps only so many contexts at each position.
    early_stopping, validation_fraction, refit, n_iter_no_change, tol
        As in :class:`~seqboost.TreeCRF`.
    class_weight, sequence, warm_start, random_state, verbose, n_jobs
        As in :class:`~seqboost.TreeCRF`.

    Attributes
    ----------
    classes_, n_iter_, best_iteration_, best_score_, history_, evals_result_, window_, trees_, potentials_
        As of :class:`~seqboost.TreeCRF`.

    References
    ----------
    McCallum, A., Freitag, D. and Pereira, F. (2000). Maximum entropy Markov models for information extraction and
    segmentation. ICML.

    Examples
    --------
    >>> from seqboost import MEMM
    >>> words, syllables = ["banana", "tomato", "panama"] * 9, ["010101", "010101", "010101"] * 9
    >>> model = MEMM(window=1, max_iter=20).fit(words, syllables)
    >>> print("".join(model.predict(["manana"])[0]))
    010101
    """

    objective = FIXED["objective"]
    pseudo_likelihood_rounds = FIXED["pseudo_likelihood_rounds"]
    contexts = FIXED["contexts"]
    init = FIXED["init"]
    min_duration = FIXED["min_duration"]

    def __init__(
        self,
        *,
        learning_rate: float | str = "auto",
        max_iter: int = 500,
        max_leaf_nodes: int = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        l2_regularization: float | str = "auto",
        min_gain: float = 0.0,
        max_features: float = 1.0,
        max_features_per_tree: float = 1.0,
        max_bins: int = 255,
        categorical_features: Any = None,
        categorical_splits: str = "subset",
        window: Any = "auto",
        missing: Any = "direction",
        n_surrogates: int = 3,
        order: int = 1,
        potentials: str = "auto",
        trees: str = "auto",
        decoding: str = "posterior",
        curvature: str = "mixing",
        step: str = "auto",
        direction: str = "gradient",
        sampling: Any = None,
        n_bags: int = 1,
        transitions: Any = "any",
        beam: int | None = None,
        early_stopping: str | bool = "auto",
        validation_fraction: float = 0.1,
        refit: str | bool = "auto",
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
        self.max_features_per_tree = max_features_per_tree
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.categorical_splits = categorical_splits
        self.window = window
        self.missing = missing
        self.n_surrogates = n_surrogates
        self.order = order
        self.potentials = potentials
        self.trees = trees
        self.decoding = decoding
        self.curvature = curvature
        self.step = step
        self.direction = direction
        self.sampling = sampling
        self.n_bags = n_bags
        self.transitions = transitions
        self.beam = beam
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.class_weight = class_weight
        self.sequence = sequence
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | FIXED

    def _scored(self, batch: SequenceBatch) -> Potentials:
        potentials = super()._scored(batch)
        assert isinstance(potentials, Potentials)  # contexts='seen' is not for this chain
        return locally_normalised(potentials)

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        super()._from_arrays(arrays, header)
        if self._trained.model.contexts is not None:
            raise ModelFileError("the file holds seen contexts, which MEMM does not have; save the model again")
        if self._trained.model.durations is not None:
            raise ModelFileError("the file holds minimum durations, which MEMM does not have; save the model again")

    def _pieces(self, batch: SequenceBatch) -> list[SequenceBatch]:
        """Cut a batch into parts whose scores, with all contexts, fit into memory."""
        return in_pieces(batch, len(self.classes_) ** (1 + self._trained.model.order))

    def _marginals(self, batch: SequenceBatch) -> NDArray[np.float32]:
        return np.concatenate([super(MEMM, self)._marginals(piece) for piece in self._pieces(batch)])

    def _codes(self, batch: SequenceBatch) -> NDArray[np.int32]:
        return np.concatenate([super(MEMM, self)._codes(piece) for piece in self._pieces(batch)])
