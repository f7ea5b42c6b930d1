"""``method=``: what only research changes about the training of boosted chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from seqboost.core.parameters import Rule, check_parameters, integer, one_of, plain_number, real
from seqboost.training.config import MethodConfig
from seqboost.training.methods import sampling_rule

__all__ = ["Method"]

RULES: dict[str, Rule] = {
    "objective": one_of("likelihood", "position_likelihood", "pseudo_likelihood"),
    "pseudo_likelihood_rounds": integer(0),
    "curvature": one_of("mixing", "newton", "count"),
    "step": one_of("auto", "safe", "fixed", "line_search"),
    "direction": one_of("gradient", "conjugate"),
    "sampling": sampling_rule(),
    "n_bags": integer(1, 1000),
    "beam": integer(1, none=True),
    "contexts": one_of("all", "seen"),
    "categorical_splits": one_of("subset", "one_vs_rest"),
    "max_features_per_tree": real(0, 1, open_low=True),
    "min_gain": real(0),
    "tol": real(0),
}


@dataclass(eq=False, repr=False)
class Method(BaseEstimator):
    """How a boosted chain is trained, where the default is right for all but research.

    Pass it as ``method`` of :class:`~seqboost.TreeCRF` or :class:`~seqboost.MEMM`. It has ``get_params`` and
    ``set_params``, so that a grid may search over ``method__curvature``.

    Parameters
    ----------
    objective : {"likelihood", "position_likelihood", "pseudo_likelihood"}, default="likelihood"
        What is maximized: log P(Y | X); Σ_t v(y_t) log P(y_t | X), with the class weights v in the terms; or Σ_t log
        P(y_t | the other labels, X), which needs no forward–backward pass and trusts the neighbors' labels too much.
        Scores of the history are those of the objective. MEMM has an objective of its own.
    pseudo_likelihood_rounds : int, default=0
        Climb the pseudo-likelihood in this many first rounds; early stopping begins after them.
    curvature : {"mixing", "newton", "count"}, default="mixing"
        H in the value of a leaf: a bound under which the log-likelihood never falls, p(1 − p), or the number of
        examples (as in the papers).
    step : {"auto", "safe", "fixed", "line_search"}, default="auto"
        How far to go along the trees of a round. Safe: no further than the log-likelihood rises. Fixed: all the way, as
        the papers do. Line search: ``learning_rate`` times the way to the top. Auto: fixed with the curvature "count",
        safe with the others.
    direction : {"gradient", "conjugate"}, default="gradient"
        Follow the gradient, or the conjugate directions of Gutmann and Kersting (2007).
    sampling : None, float, str or sampler, default=None
        Which examples each tree is fitted to: all, a share of the positions, "goss", "balanced" (positive and negative
        ones weigh the same), "1p/3n" (all positive ones and three times as many negative ones), "0.5p/0.5n" (half of
        each), or one of :mod:`seqboost.sampling`.
    n_bags : int, default=1
        Trees for each label in each round, whose average is added; each on a sample of its own (without ``sampling``,
        on 63 % of the positions).
    beam : int or None, default=None
        Training keeps only this many contexts at each position, and that of the labels: a pruned forward–backward pass.
        Prediction keeps as many, unless it is given a ``beam`` of its own.
    contexts : {"all", "seen"}, default="all"
        Which histories of ``order`` labels have transition scores of their own: all ``n_labels ** order`` of them, or
        those seen in training (more than once), of up to ``order`` labels; any other history is treated as its longest
        end that was seen. The way to an order of 2 or more with many labels; needs factored potentials, which "auto"
        then means, and has no ``beam``, no ``predict_marginals``, no ``predict_kbest`` and no unobserved labels in
        ``fit``.
    categorical_splits : {"subset", "one_vs_rest"}, default="subset"
        Divide categories into any two groups, ordered by their gradients, or one category against all others.
    max_features_per_tree : float, default=1.0
        Share of the window features that are drawn at random for each tree.
    min_gain : float, default=0.0
        A node is divided only if that gains more.
    tol : float, default=1e-6
        What counts as improvement in early stopping and tuning, in log-likelihood per position.

    Examples
    --------
    >>> from seqboost import Method, TreeCRF
    >>> model = TreeCRF(method=Method(sampling="goss", n_bags=2), max_iter=5)
    >>> model.set_params(method__n_bags=1).method
    Method(sampling='goss')
    >>> print(*model.fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15).predict(["manana"])[0])
    0 1 0 1 0 1
    """

    objective: str = "likelihood"
    pseudo_likelihood_rounds: int = 0
    curvature: str = "mixing"
    step: str = "auto"
    direction: str = "gradient"
    sampling: Any = None
    n_bags: int = 1
    beam: int | None = None
    contexts: str = "all"
    categorical_splits: str = "subset"
    max_features_per_tree: float = 1.0
    min_gain: float = 0.0
    tol: float = 1e-6

    def config(self) -> MethodConfig:
        """Return the checked settings."""
        check_parameters("Method", vars(self), RULES)
        return MethodConfig(**{name: plain_number(value) for name, value in self.get_params(deep=False).items()})
