"""How far to go along a new round: safely, by a fixed step, or as far as it helps most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from seqboost.boosting.ensemble import Ensemble, Round
from seqboost.boosting.history import History
from seqboost.objectives import Derivatives, Objective

__all__ = ["Ascent", "FixedStep", "LineSearch", "SafeStep", "Step", "Stepped"]

MAX_HALVINGS = 8
STEP_GROWTH = 1.5

# Steps grow only where the bound asks for more than so many times Newton's curvature; below that, the small steps it
# gives are good shrinkage (hyphen, stress, S1: 0.1 to 0.3 points better in cross-validation than grown ones).
TOLERATED_CAUTION = 8.0

# Trees and the transition table are fitted side by side to the same gradient; each alone may move all the way, so both
# together may move half of it.
TWO_BLOCKS = 0.5

# The log-likelihood is concave along a line and nearly a parabola: a few evaluations come close to its top.
MAX_EVALUATIONS = 5
CLOSE_ENOUGH = 0.1
EXPANSION = 1.5


class Stepped(NamedTuple):
    """A step that was taken, and where it led."""

    step: float
    derivatives: Derivatives
    n_evaluations: int  # of the objective, all kinds


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where a step begins: the ensemble, the round to be added to it, and what the objective says of the ensemble."""

    ensemble: Ensemble
    boosted: Round
    objective: Objective
    derivatives: Derivatives
    history: History
    n_threads: int

    @property
    def value(self) -> float:
        """What the objective gives before the step."""
        return self.history.objective_value(self.derivatives)

    @property
    def whole_step(self) -> float:
        """The step that takes each block, trees and transition table, as far as both may go together."""
        return 1.0 if self.boosted.table_move is None else TWO_BLOCKS

    def derivatives_now(self) -> Derivatives:
        """Return the derivatives at the ensemble as it stands."""
        return self.objective.derivatives(self.ensemble.scores, self.ensemble.table, self.n_threads)

    def value_now(self) -> float:
        """Return what the objective gives at the ensemble as it stands, which costs less than its derivatives."""
        likelihood = self.objective.log_likelihood(self.ensemble.scores, self.ensemble.table, self.n_threads)
        return self.history.objective_of(likelihood)


class Step(Protocol):
    """Adds a round to the ensemble by a step of its choice."""

    def take(self, ascent: Ascent) -> Stepped | None:
        """Add the round; None, with the ensemble as before, if no step helps."""
        ...


@dataclass(frozen=True)
class FixedStep:
    """The same step in all rounds (the papers): what the learning rate makes of the leaves."""

    def take(self, ascent: Ascent) -> Stepped | None:
        """Add the round whole, or by half if the transition table moves with the trees."""
        ascent.ensemble.add(ascent.boosted, ascent.whole_step)
        return Stepped(ascent.whole_step, ascent.derivatives_now(), 1)


@dataclass(frozen=True)
class SafeStep:
    """The largest step that does not lower the log-likelihood, within limits.

    The curvature "mixing" holds for the worst case: step 1 is safe, and on sticky chains it is a small part of what
    would be safe. So there the step grows from round to round, up to where an average leaf moves by an eighth of
    ``learning_rate`` times its Newton step, and is halved whenever the log-likelihood would fall.
    """

    def take(self, ascent: Ascent) -> Stepped | None:
        """Add the round by the last step, grown, and halve it until the log-likelihood does not fall."""
        ensemble, boosted, history = ascent.ensemble, ascent.boosted, ascent.history
        largest = ascent.whole_step * max(1.0, ascent.derivatives.caution / TOLERATED_CAUTION)
        last = history.step[-1] if history.step else 0.0
        step = min(max(ascent.whole_step, STEP_GROWTH * last), largest)
        ensemble.add(boosted, step)
        for n_halvings in range(MAX_HALVINGS):
            moved = ascent.derivatives_now()
            if history.objective_value(moved) >= ascent.value:
                return Stepped(step, moved, n_halvings + 1)
            step /= 2
            ensemble.repeat(boosted, step)
        ensemble.undo()
        return None


@dataclass(frozen=True)
class LineSearch:
    """Search for the top of the log-likelihood along the new direction, by parabolas.

        φ(s) = L(F + s·d)          φ(0) and φ′(0) = ⟨∇L, d⟩ are known, so one more value gives a parabola

    Parameters
    ----------
    shrinkage : float
        Share of the way to the top that is gone (Friedman 2001).
    """

    shrinkage: float = 1.0

    def take(self, ascent: Ascent) -> Stepped | None:
        """Add the round by the best step found, times the shrinkage."""
        ensemble, boosted, steps = ascent.ensemble, ascent.boosted, ascent.history.step
        trial = steps[-1] / self.shrinkage if steps and steps[-1] > 0 else ascent.whole_step
        ensemble.add(boosted, trial)
        slope = ensemble.slope(ascent.derivatives) / trial
        seen = {0.0: ascent.value}
        while slope > 0:
            seen[trial] = ascent.value_now()
            wanted = _next_trial(seen, slope)
            if len(seen) > MAX_EVALUATIONS or abs(wanted - trial) <= CLOSE_ENOUGH * trial:
                break
            trial = wanted
            ensemble.repeat(boosted, trial)
        best = max(seen, key=lambda s: seen[s])
        if best == 0.0:
            ensemble.undo()
            return None
        step = best * self.shrinkage
        ensemble.repeat(boosted, step)
        return Stepped(step, ascent.derivatives_now(), len(seen))


def _next_trial(seen: dict[float, float], slope: float) -> float:
    """Return where the top of φ should be, from the values ``seen`` (that at 0 among them) and the slope at 0."""
    steps = sorted(seen)
    if len(steps) == 2:
        # φ(s) ≈ φ(0) + φ′(0)·s − b·s²  with its top at φ′(0) / 2b
        s = steps[1]
        b = (seen[0.0] + slope * s - seen[s]) / s**2
        top = slope / (2 * b) if b > 0 else np.inf
    else:
        # the parabola through the best point and its neighbours, or through the last three if the best is the last
        at = min(max(1, steps.index(max(seen, key=lambda s: seen[s]))), len(steps) - 2)
        (a, b, c), (fa, fb, fc) = steps[at - 1 : at + 2], (seen[s] for s in steps[at - 1 : at + 2])
        left, right = (fb - fa) / (b - a), (fc - fb) / (c - b)
        top = (a + b) / 2 + left * (c - a) / 2 / (left - right) if left > right else np.inf
    # Beyond the last point φ flattens out more slowly than a parabola: a last point that is best is not yet the top.
    least = EXPANSION * steps[-1] if len(steps) > 2 and seen[steps[-1]] == max(seen.values()) else steps[1] / 10
    return float(np.clip(top, least, steps[-1] * 4))
