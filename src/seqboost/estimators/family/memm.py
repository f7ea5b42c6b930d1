"""MEMM: boosted trees inside a chain that is normalised position by position.

    P(Y | X) = Π_t P(y_t | y_{t-1}, .., y_{t-m}, w_t(X)),         P(k | c, w) = exp F^k(c, w) / Σ_j exp F^j(c, w)

It is trained by TreeCRF's own loop with another objective (``objectives/local.py``), which needs no forward–backward
pass. Once trained, log P(k | c, w_t) are the scores of a chain whose Z is 1, so it is decoded as any other chain is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from numpy.typing import NDArray

from seqboost.chain import Potentials, locally_normalised
from seqboost.core.exceptions import ModelFileError, ParameterError
from seqboost.core.parameters import Rule, one_of
from seqboost.estimators.chains import RULES, BoostedChain
from seqboost.estimators.prediction import in_pieces
from seqboost.sequences import SequenceBatch
from seqboost.training import FitConfig, MethodConfig

__all__ = ["MEMM"]

FIXED = ("objective", "pseudo_likelihood_rounds", "contexts")


class MEMM(BoostedChain):
    """Label sequences with boosted trees that see the labels before: a maximum entropy Markov model.

    Each label is predicted from a window and the labels before it, as by a
    :class:`~seqboost.RecurrentSlidingWindow`, but all labellings are weighed against each other, not the greedy one
    alone. Training costs less than that of :class:`~seqboost.TreeCRF`; in return what comes later cannot correct what
    came before (label bias): where the label after a context is nearly certain, the input there hardly counts.

    Parameters
    ----------
    order : int, default=1
        How many labels back a label depends on; 0 is a sliding window.
    potentials : {"auto", "joint", "factored"}, default="auto"
        Joint: trees see the labels before. Factored: F = trees of the window + a table of transitions.
    init : {"auto", "labels"}, default="auto"
        Boosting always starts from the labels alone.
    min_duration : 1
        This model has no minimum durations.
    method : Method or None, default=None
        As in :class:`~seqboost.TreeCRF`, but ``objective``, ``pseudo_likelihood_rounds`` and ``contexts`` keep their
        defaults: this model has an objective of its own, with the bound 2p(1 − p) as its curvature "mixing". A ``beam``
        prunes prediction alone.
    learning_rate, max_iter, max_leaf_nodes, max_depth, min_samples_leaf, l2_regularization, max_features, max_bins
        As in :class:`~seqboost.TreeCRF`.
    categorical_features, window, missing, trees, tune, decoding, transitions, early_stopping, validation_fraction
        As in :class:`~seqboost.TreeCRF`.
    refit, n_iter_no_change, class_weight, sequence, time, warm_start, random_state, verbose, n_jobs
        As in :class:`~seqboost.TreeCRF`.

    Attributes
    ----------
    classes_, n_iter_, best_iteration_, best_score_, history_, evals_result_, window_, trees_, potentials_, tuning_
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

    _takes_sets = False  # its terms need the label before
    _rules: ClassVar[Mapping[str, Rule]] = {**RULES, "init": one_of("auto", "labels"), "min_duration": one_of(1)}

    def _unchecked_config(self) -> FitConfig:
        config = super()._unchecked_config()
        method, own = config.method, MethodConfig()
        changed = [name for name in FIXED if getattr(method, name) != getattr(own, name)]
        if changed:
            raise ParameterError(
                f"MEMM has an objective and contexts of its own, but its method changes {', '.join(changed)}; leave "
                f"them as they are, or use TreeCRF"
            )
        return replace(config, chain=replace(config.chain, init="labels"), method=replace(method, objective="local"))

    def _scored(self, batch: SequenceBatch) -> Potentials:
        potentials = super()._scored(batch)
        assert isinstance(potentials, Potentials)  # contexts='seen' is not for this chain
        return locally_normalised(potentials)

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        super()._from_arrays(arrays, header)
        if self._result.model.contexts is not None:
            raise ModelFileError("the file holds seen contexts, which MEMM does not have; save the model again")
        if self._result.model.durations is not None:
            raise ModelFileError("the file holds minimum durations, which MEMM does not have; save the model again")

    def _pieces(self, batch: SequenceBatch) -> list[SequenceBatch]:
        """Cut a batch into parts whose scores, with all contexts, fit into memory."""
        return in_pieces(batch, len(self.classes_) ** (1 + self._result.model.order))
