"""LinearCRF: CRFsuite's linear-chain CRF with the faces of a labeller."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError
from seqboost.core.parameters import Rule, integer, one_of, plain_number, real
from seqboost.estimators.family import crfsuite
from seqboost.estimators.family.linear import LinearLabeler
from seqboost.estimators.prediction import PREDICTION_RULES
from seqboost.linear import LinearChain, LinearColumns, LinearRows

__all__ = ["LinearCRF"]

ALGORITHMS = ("lbfgs", "l2sgd", "averaged-perceptron", "passive-aggressive", "arow")

RULES: dict[str, Rule] = {
    "algorithm": one_of(*ALGORITHMS),
    "max_iter": integer(1),
    "c1": real(0),
    "c2": real(0),
    "all_possible_transitions": one_of(True, False, 1, 0),
    **PREDICTION_RULES,
}


class LinearCRF(LinearLabeler):
    """Label sequences with a linear-chain conditional random field, trained by CRFsuite.

    Needs python-crfsuite (``pip install 'seqboost[crfsuite]'``) for ``fit`` alone: what it has learnt is a table of
    weights, which are read from its model file; prediction and files are our own.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "averaged-perceptron", "passive-aggressive", "arow"}, default="lbfgs"
        How weights are trained: likelihood by L-BFGS or by stochastic gradients, mistakes of an averaged perceptron,
        margins (passive-aggressive, the max-margin one), or adaptive regularisation of weights.
    c1 : float, default=0.0
        Strength of the L1 penalty ("lbfgs").
    c2 : float, default=1.0
        Strength of the L2 penalty ("lbfgs" and "l2sgd").
    max_iter : int, default=100
        Largest number of iterations.
    all_possible_transitions : bool, default=True
        Have weights for transitions that training does not show as well.
    algorithm_params : dict or None, default=None
        Other parameters of CRFsuite, by their names there, such as ``{"feature.minfreq": 2}``.
    window : "auto", int, tuple, list or dict, default="auto"
        As in :class:`~seqboost.TreeCRF`. Each column at each offset is an attribute of its own.
    decoding : {"posterior", "viterbi"}, default="posterior"
        As in :class:`~seqboost.TreeCRF`; CRFsuite's own tagger does the second.
        categorical_features, sequence, time, n_jobs
            As in :class:`~seqboost.HMM`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels.
    transition_scores_ : ndarray of shape (n_labels, n_labels)
        Weights of transitions (row = from, column = to).
    n_weights_ : int
        Number of weights of attributes that CRFsuite kept.
    window_ : int, tuple, list or dict
        What "auto" came to.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    Categories are indicators, numbers are standardised; a missing value is an indicator of its own, and so is each
    offset beyond the end of the sequence.

    References
    ----------
    Lafferty, J., McCallum, A. and Pereira, F. (2001). Conditional random fields. ICML.

    Okazaki, N. (2007). CRFsuite: a fast implementation of conditional random fields.

    Examples
    --------
    >>> from seqboost import LinearCRF
    >>> model = LinearCRF(window=0).fit(["banana", "tomato"], ["010101", "010101"])
    >>> print("".join(model.predict(["manana"])[0]))
    010101
    """

    _rules = RULES

    def __init__(
        self,
        *,
        algorithm: str = "lbfgs",
        c1: float = 0.0,
        c2: float = 1.0,
        max_iter: int = 100,
        all_possible_transitions: bool = True,
        algorithm_params: dict[str, Any] | None = None,
        window: Any = "auto",
        decoding: str = "posterior",
        categorical_features: Any = None,
        sequence: str | list[str] | None = None,
        time: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.c1 = c1
        self.c2 = c2
        self.max_iter = max_iter
        self.all_possible_transitions = all_possible_transitions
        self.algorithm_params = algorithm_params
        self.window = window
        self.decoding = decoding
        self.categorical_features = categorical_features
        self.sequence = sequence
        self.time = time
        self.n_jobs = n_jobs

    def _train(self, columns: LinearColumns, rows: LinearRows, labels: NDArray[np.int32]) -> None:
        content = crfsuite.train(columns, rows, labels, str(self.algorithm), self._crfsuite_parameters())
        self._set_chain(LinearChain(*crfsuite.read_weights(content, columns, len(self.classes_)), 1))

    def _crfsuite_parameters(self) -> dict[str, Any]:
        """Return the parameters under CRFsuite's names."""
        common = {
            "max_iterations": plain_number(self.max_iter),
            "feature.possible_transitions": bool(self.all_possible_transitions),
        }
        penalties = {"lbfgs": ("c1", "c2"), "l2sgd": ("c2",)}.get(str(self.algorithm), ())
        extra = {} if self.algorithm_params is None else self.algorithm_params
        if not isinstance(extra, dict):
            raise ParameterError(
                f"The 'algorithm_params' parameter of LinearCRF must be a dict of CRFsuite's parameters, or None. "
                f"Got {extra!r} instead."
            )
        return common | {name: float(getattr(self, name)) for name in penalties} | extra

    def _set_chain(self, chain: LinearChain) -> None:
        self._chain = chain
        self.transition_scores_: NDArray[np.float64] = chain.table[1:].copy()
        self.n_weights_ = len(chain.weights.value)

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return self._chain.to_arrays()

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        self._set_chain(LinearChain.from_arrays(arrays, header, self._schema, len(self.classes_)))
