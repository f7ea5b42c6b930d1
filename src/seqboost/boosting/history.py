"""What happened round by round, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting.metrics import RECORDED, EvaluatedSet, Evaluator, Measured
from seqboost.core.exceptions import ParameterError
from seqboost.objectives import Derivatives, Objective

__all__ = [
    "VALIDATION",
    "Callback",
    "FunctionCallback",
    "History",
    "Progress",
    "Stopping",
    "as_callback",
    "check_set_names",
]

VALIDATION = ("validation",)
"""The name of the evaluation set, if there is but one and it has no other."""


class _Rounds(Mapping[str, list[float]]):
    """The lists of a history up to a round, copied when they are looked at."""

    def __init__(self, lists: dict[str, list[float]]) -> None:
        self._lists = {name: (values, len(values)) for name, values in lists.items() if values}

    def __getitem__(self, name: str) -> list[float]:
        """Return a list."""
        values, length = self._lists[name]
        return values[:length]

    def __iter__(self) -> Iterator[str]:
        """Return the names of all lists."""
        return iter(self._lists)

    def __len__(self) -> int:
        """Return the number of lists."""
        return len(self._lists)


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each round.

    Attributes
    ----------
    iteration : int
        Rounds done so far, this one included.
    max_iter : int
        Rounds asked for.
    record : dict of str to float
        The newest entry of each list of the history.
    history : mapping of lists
        Everything up to this round, as in ``history_``.
    model : estimator or None
        A fitted estimator of the best rounds so far, for callbacks whose ``sees_model`` is true.
    watched : list of float
        What decides about stopping, entry by entry: the first metric of the first evaluation set, with its sign changed
        if less is better. Empty without evaluation sets.
    set_names : tuple of str
        Names of the evaluation sets.
    """

    iteration: int
    max_iter: int
    record: dict[str, float]
    history: Mapping[str, list[float]] = field(repr=False)
    model: Any = field(default=None, repr=False)
    watched: list[float] = field(default_factory=list, repr=False)
    set_names: tuple[str, ...] = VALIDATION


@runtime_checkable
class Callback(Protocol):
    """An object for ``fit(callbacks=[...])``, called after every round.

    A plain function is one that may stop, does not run in a refit and does not see the model. Attributes that an object
    lacks are those of a function.

    Attributes
    ----------
    may_stop : bool
        Whether a true answer ends the training. Callbacks that may stop see the one training there is, so that nothing
        is tuned. For others, the rounds of the training that was kept are replayed.
    runs_in_refit : bool
        Whether it is called in every training of a fit: those of candidates, and the refit. A true answer then ends the
        whole fit.
    sees_model : bool
        Whether :attr:`Progress.model` is a fitted estimator of the rounds so far. It costs time in every round, and
        nothing is tuned.
    """

    @property
    def may_stop(self) -> bool: ...  # noqa: D102

    @property
    def runs_in_refit(self) -> bool: ...  # noqa: D102

    @property
    def sees_model(self) -> bool: ...  # noqa: D102

    def __call__(self, progress: Progress, /) -> Any:
        """Look at a round; return true to stop."""


CALLBACK_ATTRIBUTES = ("may_stop", "runs_in_refit", "sees_model")


@dataclass(frozen=True)
class FunctionCallback:
    """A plain function as a :class:`Callback`."""

    function: Callable[[Progress], Any]
    may_stop: bool = True
    runs_in_refit: bool = False
    sees_model: bool = False

    def __call__(self, progress: Progress, /) -> Any:
        """Call the function."""
        return self.function(progress)


def as_callback(callback: Callable[[Progress], Any]) -> Callback:
    """Return a callback as it is, and a function as one that may stop.

    An object that has some of the attributes of a :class:`Callback` is like a function in the others.
    """
    if isinstance(callback, type):
        raise ParameterError(
            f"callbacks holds the class {callback.__name__} itself, which every round would make an object of; pass an "
            f"object of it, {callback.__name__}(...)"
        )
    if isinstance(callback, Callback):
        return callback
    asked = {name: bool(getattr(callback, name)) for name in CALLBACK_ATTRIBUTES if hasattr(callback, name)}
    return FunctionCallback(callback, **asked)


def check_set_names(names: Sequence[Any], n_sets: int) -> tuple[str, ...]:
    """Return the names of evaluation sets, or say what is wrong with them."""
    given = tuple(names) if isinstance(names, (list, tuple)) else None
    if given is None or len(given) != n_sets or not all(isinstance(name, str) and name for name in given):
        raise ParameterError(
            f"eval_names must be a list with a name for each of the {n_sets} evaluation sets; got {names!r:.80}"
        )
    taken = {"train", "training"}
    for i, name in enumerate(given):
        if name in taken:
            raise ParameterError(
                f"eval_names has {name!r}, which is the name of other sequences; names must differ from each other, "
                f"from 'train' and 'training', and only the first may be 'validation'"
            )
        taken |= {name, "validation"} if i == 0 else {name}
    return given


@dataclass
class History:
    """Log-likelihood and accuracy per position, before the first round and after every round.

    ``train_score`` and ``validation_score`` are mean log-likelihoods per observed position (weighted by sequence);
    ``train_accuracy`` and ``validation_accuracy`` are shares of positions whose most probable label is the right one
    (of those whose label is known exactly, not as one of a set). Metrics have lists named alike, as
    ``validation_macro_f1``: of the evaluation sets or, if there are none, of the training sequences. "validation" is
    the first evaluation set, which stops training; lists of others begin with their names. ``evaluations`` counts how
    often a round looked at the objective: once, and again for every step it tried.

    Attributes
    ----------
    part : ndarray of shape (n_sequences,)
        Number of the evaluation set that each sequence belongs to, −1 for training sequences. Or bool: True for
        training sequences, False for those of the only evaluation set.
    weights : ndarray of float64, shape (n_sequences,)
        Weights of sequences.
    set_names : tuple of str
        Names of the evaluation sets.
    evaluator : Evaluator or None
        Metrics beside log-likelihood and accuracy.
    lists : dict of lists
        Entries by name; all lists have the same length. NaN: not taken in that round.
    """

    part: NDArray[Any]
    weights: NDArray[np.float64]
    set_names: tuple[str, ...] = VALIDATION
    evaluator: Evaluator | None = None
    lists: dict[str, list[float]] = field(default_factory=dict)
    _sets: dict[str, EvaluatedSet] = field(default_factory=dict, init=False, repr=False)
    _measured: list[Measured] = field(default_factory=list, init=False, repr=False)  # of the set that decides

    def __post_init__(self) -> None:
        """Turn a mask of training sequences into numbers of sets."""
        if self.part.dtype == np.bool_:
            self.part = np.where(self.part, -1, 0).astype(np.int8)

    @property
    def is_training(self) -> NDArray[np.bool_]:
        """Whether each sequence is one of training, (n_sequences,)."""
        return self.part < 0

    @property
    def train_score(self) -> list[float]:
        """Log-likelihood per position of training sequences."""
        return self.lists.get("train_score", [])

    @property
    def validation_score(self) -> list[float]:
        """Log-likelihood per position of the first evaluation set; empty if there is none."""
        return self.lists.get("validation_score", [])

    @property
    def step(self) -> list[float]:
        """Steps of the rounds."""
        return self.lists.get("step", [])

    @property
    def seconds(self) -> list[float]:
        """Times of the rounds."""
        return self.lists.get("seconds", [])

    def watch(self, *objectives: Objective | None) -> None:
        """Have objectives say what positions are labeled, if a metric needs that."""
        if self.evaluator is None or not self.evaluator.needs_predictions:
            return
        evaluated = np.flatnonzero(~self.is_training)
        first_row = int(self.evaluator.offsets[evaluated[0]]) if len(evaluated) else 0
        for objective in objectives:
            if objective is not None:
                objective.watch_positions(first_row, self.evaluator.label_weights)

    def objective_value(self, derivatives: Derivatives) -> float:
        """Return the weighted log-likelihood of the training sequences, which boosting climbs."""
        return self.objective_of(derivatives.log_likelihood)

    def objective_of(self, log_likelihood: np.ndarray) -> float:
        """Return the same from the log-likelihoods of the sequences."""
        used = self.is_training & (self.weights > 0)
        return float(np.dot(self.weights[used], log_likelihood[used]))

    def record(self, derivatives: Derivatives, step: float, seconds: float, n_evaluations: int) -> dict[str, float]:
        """Add a round; return its entries.

        A list that begins with this round has NaN for those before; lists without an entry are dropped.
        """
        parts = {"train": self.is_training}
        for number in range(int(self.part.max(initial=-1)) + 1):
            parts[self.set_names[number] if number else "validation"] = self.part == number
        entries: dict[str, float] = {}
        for name, part in parts.items():
            if part.any() or name != "train":
                entries |= self._scores(name, part, derivatives)
        for name, part in parts.items():
            if (name != "train") == (len(parts) > 1):
                entries |= self._metrics(name, part, derivatives)
        entries |= {"step": step, "seconds": seconds, "evaluations": float(n_evaluations)}
        n_before = len(self.train_score)
        self.lists = {key: self.lists.get(key, [math.nan] * n_before) for key in entries}
        for key, value in entries.items():
            self.lists[key].append(value)
        return entries

    def _scores(self, name: str, part: NDArray[np.bool_], derivatives: Derivatives) -> dict[str, float]:
        weights = self.weights[part]
        observed = float(np.dot(weights, derivatives.n_observed[part]))
        likelihood = np.where(weights > 0, derivatives.log_likelihood[part], 0.0)
        correct = float(np.dot(weights, derivatives.n_correct[part]))
        exact = observed if derivatives.n_exact is None else float(np.dot(weights, derivatives.n_exact[part]))
        is_nowhere_exact = derivatives.n_exact is not None and exact == 0.0
        return {
            f"{name}_score": float(np.dot(weights, likelihood)) / max(observed, 1e-300),
            f"{name}_accuracy": math.nan if is_nowhere_exact else correct / max(exact, 1e-300),
        }

    def _metrics(self, name: str, part: NDArray[np.bool_], derivatives: Derivatives) -> dict[str, float]:
        """Return the metrics of a set; remember what they are called, and which way is up."""
        if self.evaluator is None or not self.evaluator.needs_predictions:
            return {}
        if derivatives.predictions is None:
            raise ParameterError("metrics need an objective that says what positions are labeled: call history.watch")
        if name not in self._sets:
            self._sets[name] = self.evaluator.set_of(np.where(part, self.weights, 0.0))
        found = self.evaluator.measure(self._sets[name], derivatives.predictions, name)
        if name in ("train", "validation"):
            for before, now in zip(self._measured, found, strict=False):
                if before._replace(value=0.0) != now._replace(value=0.0):
                    raise ParameterError(
                        f"a function of eval_metric returned {tuple(now)} after {tuple(before)} in the round before; "
                        f"name and is_higher_better must be the same in all rounds"
                    )
            self._measured = found
        self._check_unlike(name, [measured.name for measured in found])
        return {f"{name}_{measured.name}": measured.value for measured in found}

    def _check_unlike(self, name: str, metrics: Sequence[str]) -> None:
        """Refuse names of which a list of one set would pass for that of another."""
        for other in self.set_names[1:]:
            for metric in metrics:
                if other != name and f"{name}_{metric}".startswith(f"{other}_") and len(other) > len(name):
                    raise ParameterError(
                        f"the metric {metric!r} of the evaluation set {name!r} cannot be told from one of the set "
                        f"{other!r}: both begin with {other + '_'!r} in history_; rename one of the sets (eval_names)"
                    )

    @property
    def watched(self) -> list[float]:
        """What decides about stopping, by round, the more the better; empty without evaluation sets."""
        name, sign = "score", 1.0
        first = self.evaluator.metrics[0] if self.evaluator is not None and self.evaluator.metrics else None
        if first is not None and first.is_recorded:
            name = RECORDED[first.name]
        elif self._measured:
            name, sign = self._measured[0].name, 1.0 if self._measured[0].is_higher_better else -1.0
        return [sign * value for value in self.lists.get(f"validation_{name}", [])]

    def refresh(self, derivatives: Derivatives) -> None:
        """Score the newest round again: a warm start may come with other sequences than the fit before."""
        step, seconds, n_evaluations = (self.lists[name][-1] for name in ("step", "seconds", "evaluations"))
        for values in self.lists.values():
            del values[-1:]
        self.record(derivatives, step, seconds, int(n_evaluations))

    def until_now(self) -> Mapping[str, list[float]]:
        """Return the lists by name, as they are now."""
        return _Rounds(self.lists)

    def copy(self) -> History:
        """Return a history of the rounds so far, to which later ones are not added."""
        return replace(self, lists=self.to_dict())

    def to_dict(self) -> dict[str, list[float]]:
        """Return the lists by name; without validation sequences their lists are left out."""
        return {name: list(values) for name, values in self.lists.items() if values}


@dataclass(frozen=True)
class Stopping:
    """Stop when the validation score has not risen by ``tol`` for ``patience`` rounds; a callback as well.

    The score is what :attr:`History.watched` has: the log-likelihood, or the first metric. Rounds without one (NaN)
    are never the best, and if the last ones have none, that is no reason to stop.

    Parameters
    ----------
    patience : int
        Rounds without improvement that are tolerated.
    tol : float
        What counts as improvement.
    """

    patience: int
    tol: float
    may_stop: ClassVar[bool] = True
    runs_in_refit: ClassVar[bool] = False
    sees_model: ClassVar[bool] = False

    def __call__(self, progress: Progress, /) -> bool:
        """Return whether to stop after a round."""
        return self.should_stop(progress.watched)

    def best(self, scores: list[float], at_least: int = 0) -> int:
        """Return the number of rounds, ``at_least`` or more, with the best score (``scores[0]``: before the first).

        If no round has a score, it is the last one.
        """
        later = np.array(scores[at_least:])
        if np.isnan(later).all():
            return at_least + max(len(later) - 1, 0)
        return at_least + int(np.nanargmax(later))

    def should_stop(self, scores: list[float]) -> bool:
        """Return whether the last ``patience`` rounds brought nothing."""
        if len(scores) <= self.patience:
            return False
        earlier, newest = np.array(scores[: -self.patience]), np.array(scores[-self.patience :])
        earlier, newest = earlier[~np.isnan(earlier)], newest[~np.isnan(newest)]
        return len(earlier) > 0 and len(newest) > 0 and bool(newest.max() <= earlier.max() + self.tol)
