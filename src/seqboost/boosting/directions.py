"""Conjugate direction boosting (Gutmann & Kersting 2007, algorithm 2).

    d_m = Δ_m + β_m d_{m−1}          β_m = max(0, ⟨Δ_m, Δ_m − Δ_{m−1}⟩ / ⟨Δ_{m−1}, Δ_{m−1}⟩)
    F_m = F_{m−1} + η_m d_m

Δ_m are the trees of a round, the products are sums over the training examples (Polak–Ribière), and a negative
coefficient restarts from the gradient. A direction is a combination of all trees so far, so the model after n rounds is

    F_n = Σ_i a_i Δ_i          a_n = η_n,   a_i = η_i + β_{i+1} a_{i+1}

and only the weights a_i change: no tree is copied or evaluated again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting.ensemble import Ensemble, Round, Trees

__all__ = ["ConjugateEnsemble"]


class ConjugateEnsemble(Ensemble):
    """An ensemble that goes along conjugate directions.

    Parameters
    ----------
    scores, table, n_threads
        As in :class:`Ensemble`.
    n_fitted : int
        The first so many rows are training examples.
    """

    def __init__(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int, *, n_fitted: int
    ) -> None:
        super().__init__(scores, table, n_threads)
        self._n_fitted = n_fitted
        self._output, self._last_output = np.zeros_like(scores), np.zeros_like(scores)  # Δ_m and Δ_{m−1} of all rows
        self._direction = np.zeros_like(scores)  # d_m
        self._table_direction: NDArray[np.float64] | float = 0.0
        self.steps: list[float] = []  # η
        self.coefficients: list[float] = []  # β

    def add(self, boosted: Round, step: float) -> None:
        """Turn the round into the next direction and go along it by ``step``."""
        self._output, self._last_output = self._last_output, self._output
        whole = boosted.scaled(1.0)
        self._output[:] = 0.0
        boosted.write(whole, self._output, self._output, self._n_threads)
        coefficient = self._polak_ribiere() if self.n_rounds else 0.0
        self._direction *= np.float32(coefficient)
        self._direction += self._output
        if boosted.table_move is not None:
            self._table_direction = boosted.table_move + coefficient * self._table_direction
        self.coefficients.append(coefficient)
        self.steps.append(step)
        self._before, self.scores = self.scores, self._before
        self._table_before = self.table
        self._rounds.append(whole)
        self.repeat(boosted, step)

    def repeat(self, boosted: Round, step: float) -> None:
        """Go along the newest direction by another step."""
        np.multiply(self._direction, np.float32(step), out=self.scores)
        self.scores += self._before
        self.table = self._table_before + step * self._table_direction
        self.steps[-1] = step

    def undo(self) -> None:
        """Take the newest step back, and forget the direction: the next one is the gradient's."""
        super().undo()
        self.steps.pop()
        self.coefficients.pop()
        self._direction[:] = 0.0
        self._table_direction = 0.0

    def kept(self, n_rounds: int) -> list[Trees]:
        """Return the trees of the first rounds with the weights a_i that they have after these."""
        weights = np.zeros(n_rounds + 1)
        coefficients = [*self.coefficients[:n_rounds], 0.0]
        for i in range(n_rounds - 1, -1, -1):
            weights[i] = self.steps[i] + coefficients[i + 1] * weights[i + 1]
        return [
            tuple(replace(tree, value=tree.value * np.float32(weight)) for tree in trees)
            for bags, weight in zip(self._rounds[:n_rounds], weights, strict=False)
            for trees in bags
        ]

    def _polak_ribiere(self) -> float:
        """Return β_m over the training examples, 0 if it is negative."""
        now, last = self._output[:, : self._n_fitted], self._last_output[:, : self._n_fitted]
        norm = float(np.einsum("ktc,ktc->", last, last, dtype=np.float64))
        product = float(np.einsum("ktc,ktc->", now, now - last, dtype=np.float64))
        return max(0.0, product / norm) if norm > 0 else 0.0
