"""TreeCRF: a conditional random field whose potentials are sums of regression trees."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from seqboost.boosting import Callback, History, Stopping
from seqboost.boosting.callbacks import evaluations, only_reads, retell
from seqboost.chain import Potentials, SeenPotentials
from seqboost.core.exceptions import MemoryLimitError, ParameterError
from seqboost.core.stored import Stored
from seqboost.estimators.arguments import callback_list, stopping_rule, unchanged_on_failure, validation_pair, where
from seqboost.estimators.automatic import AUTOMATIC, automatic_rate, is_auto, kept, resolved
from seqboost.estimators.durations import check_min_duration, label_durations, min_duration_rule
from seqboost.estimators.holdout import ENOUGH_SEQUENCES, Divisions, has_blocks
from seqboost.estimators.labeler import MANY_LABELS
from seqboost.estimators.labelled import Labelled
from seqboost.estimators.methods import (
    check_class_weight,
    check_refit,
    check_sampling,
    check_still_held_out,
    check_weights_outside_trees,
    sampling_rule,
)
from seqboost.estimators.parameters import (
    check_parameters,
    check_unchanged,
    integer,
    one_of,
    plain_number,
    random_state_rule,
    real,
    verbose_rule,
)
from seqboost.estimators.persistence import EARLIER, plain, revived, with_null, without_null
from seqboost.estimators.prediction import PREDICTION_RULES, SequenceLabeler
from seqboost.estimators.progress import compile_notice, progress_bar
from seqboost.estimators.scikit import CallbackSupportMixin, scikit_callbacks, with_callbacks
from seqboost.estimators.seen import check_contexts
from seqboost.estimators.settings import Settings, Trained
from seqboost.estimators.training import train, train_again
from seqboost.estimators.transitions import followers
from seqboost.estimators.trials import Heard, best_of_trials, left_to_trials, sample_for_trials, tried_on_sample
from seqboost.linear import LinearFit
from seqboost.model import FrozenModel
from seqboost.sequences import SequenceBatch, class_weights

__all__ = ["TreeCRF"]

REFIT_POSITIONS = 150_000  # refit="auto": a tenth more than so many hardly changes a model
NO_ROUNDS = (
    "{} keeps no round of boosting: none raised the log-likelihood of the held-out sequences (or of the training "
    "sequences, without any held out), so labels are predicted from {} alone. Check that y belongs to X; try a lower "
    "learning_rate or a larger window."
)
STARTS = {"labels": "their transitions", "linear": "the linear start (init_ is 'linear')"}
MOST = 2**31 - 1  # kernels count rows in 32 bits

# What a warm start cannot change, because the trees that are there already were grown with it.
LASTING = (
    "order", "contexts", "potentials", "trees", "window", "max_bins", "categorical_features", "transitions",
    "class_weight", "init", "missing", "min_duration",
)  # fmt: skip

RULES = {
    "random_state": random_state_rule(),
    "learning_rate": real(0, 1000, open_low=True, auto=True),
    "max_iter": integer(1),
    "max_leaf_nodes": integer(2, 32767),
    "max_depth": integer(1, MOST, none=True),
    "min_samples_leaf": integer(1, MOST),
    "l2_regularization": real(0, auto=True),
    "min_gain": real(0),
    "max_features": real(0, 1, open_low=True),
    "max_features_per_tree": real(0, 1, open_low=True),
    "max_bins": integer(2, 255),
    "categorical_splits": one_of("subset", "one_vs_rest"),
    "order": integer(0, 8),
    "contexts": one_of("all", "seen"),
    "min_duration": min_duration_rule(),
    "potentials": one_of("auto", "joint", "factored"),
    "init": one_of("auto", "labels", "linear"),
    "trees": one_of("auto", "per_label", "shared"),
    "curvature": one_of("mixing", "newton", "count"),
    "objective": one_of("likelihood", "position_likelihood", "pseudo_likelihood"),
    "pseudo_likelihood_rounds": integer(0),
    "step": one_of("auto", "safe", "fixed", "line_search"),
    "direction": one_of("gradient", "conjugate"),
    "sampling": sampling_rule(),
    "n_bags": integer(1, 1000),
    "early_stopping": one_of("auto", True, False),
    "validation_fraction": real(0, 0.9, open_low=True),
    "refit": one_of("auto", True, False),
    "n_iter_no_change": integer(1),
    "tol": real(0),
    "n_surrogates": integer(1, 1000),
    "warm_start": one_of(True, False),
    "verbose": verbose_rule(),
    **PREDICTION_RULES,
}


class TreeCRF(CallbackSupportMixin, SequenceLabeler):
    """Label every element of sequences with boosted trees inside a conditional random field.

    The trees are the potentials, not the graph: the labels form a chain, and the score of a label given the labels
    before it and a window of the input is a sum of regression trees,

        P(Y | X) ∝ exp Σ_t F^{y_t}(y_{t−1}, …, y_{t−m}, w_t(X)).

    Parameters
    ----------
    learning_rate : "auto" or float, default="auto"
        Factor on the values of leaves. The curvature "mixing" makes steps small by itself; with "count" use 0.05 to
        0.1. Auto: 0.25; 0.5 for more than 10 labels, which take many rounds, unless boosting has a linear start or
        another curvature. With the curvature "newton" 0.1, or 0.25 for more than 10 labels.
    max_iter : int, default=500
        Largest number of rounds; a round grows one tree per label, or one for all (``trees``).
    max_leaf_nodes : int, default=31
        Largest number of leaves of a tree.
    max_depth : int or None, default=None
        Largest depth of a tree; None leaves it to ``max_leaf_nodes``.
    min_samples_leaf : int, default=20
        Smallest number of positions in a leaf.
    l2_regularization : "auto" or float, default="auto"
        λ in the value of a leaf, G / (H + λ). Auto: 10; with up to 10 labels, 100 and 1000 are tried as ``potentials``
        are, where these or ``window`` are "auto".
    min_gain : float, default=0.0
        A node is divided only if that gains more.
    max_features : float, default=1.0
        Share of the window features that are drawn at random for each node, from those of its tree.
    max_features_per_tree : float, default=1.0
        Share of the window features that are drawn at random for each tree.
    max_bins : int, default=255
        Largest number of bins of a numeric column.
    categorical_features : None, list of columns or boolean mask, default=None
        Numeric columns to be treated as categories. Columns of strings always are.
    categorical_splits : {"subset", "one_vs_rest"}, default="subset"
        Divide categories into any two groups, ordered by their gradients, or one category against all others.
    window : "auto", int, tuple, list or dict, default="auto"
        Which positions around t a tree may look at: ``w`` means −w … w, ``(l, r)`` means −l … r, a list holds the
        offsets themselves, and a dict has one of these for each column (``"*"`` for all others, which without it see
        their own position only). Auto: as many on each side as make about 100 features of the columns, at most 6; none
        for sparse columns, nor where there are more than three columns of categories. Twice as many, up to 6, are tried
        as ``potentials`` are and, for columns of numbers, none.
    missing : str or dict, default="direction"
        What is done about missing values (NaN, None): "direction" (each split learns the side they take),
        "instance_weighting" (they take both sides, in the proportion of the others), "surrogate" (other features tell
        the side), "impute" (median, most frequent category), "impute_mean" (mean, most frequent category) or
        "indicator" (a feature tells that the value is missing). A dict has one of these for each column, as in
        ``window``. Beyond the ends of a sequence nothing is missing: that is a value of its own.
    n_surrogates : int, default=3
        With ``missing="surrogate"``: how many other features each split keeps.
    order : int, default=1
        How many labels back a label depends on.
    contexts : {"all", "seen"}, default="all"
        Which histories of ``order`` labels have transition scores of their own: all ``n_labels ** order`` of them, or
        those seen in training (more than once), of up to ``order`` labels; any other history is treated as its longest
        end that was seen. The way to an order of 2 or more with many labels; needs factored potentials, which "auto"
        then means, and has no ``beam``, no ``predict_marginals``, no ``predict_kbest`` and no unobserved labels in
        ``fit``.
    potentials : {"auto", "joint", "factored"}, default="auto"
        Joint: trees see the labels before. Factored: trees see the window only and a table holds the scores of
        transitions; needs a fraction of memory and time when there are many labels. Auto: joint for up to 10 labels if
        half of the available memory is enough for it, factored otherwise. Instead of joint ones factored potentials
        are tried as well and kept if held-out sequences are more probable so: those of early stopping or, if these have
        fewer than 4,000 labels, up to four tenths of the sequences in turn. There are no trials with validation data of
        your own, ``warm_start``, ``beam``, ``init="linear"`` or the pseudo-likelihood, for more than 50,000 positions
        (then a sample of the sequences decides, on ``l2_regularization`` and ``window``) or fewer than 500 held-out
        labels. Whoever names ``potentials`` and ``window`` saves their time. More than 1,000 labels need factored
        ones, by name.
    trees : {"auto", "per_label", "shared"}, default="auto"
        What a round grows: a tree for each label, or one tree for all, whose leaves hold a value for each label and
        whose splits gain Σ_k G_k² / (H_k + λ). With many labels a shared tree costs a fraction of the others, and
        labels learn from each other; it takes more rounds. With more than 32 labels, 32 are drawn for each tree to
        decide on its splits. A histogram takes 8 bytes a bin and deciding label; at most 256 MB of them are kept (two,
        if they are larger), and leaves without one are measured anew when they are split. Auto: shared for 3 labels
        and more, unless ``sampling`` is stratified.
    decoding : {"posterior", "viterbi"}, default="posterior"
        What ``predict`` returns: at each position the most probable label, which makes the fewest errors, or the most
        probable labelling as a whole. With ``transitions``, posterior decoding keeps to the allowed ones.
    init : {"auto", "labels", "linear"}, default="auto"
        Where boosting starts: from the transitions of the labels alone, or from a linear chain over the columns in
        their windows (indicators of categories, sparse columns, standardised numbers), to which the trees add what is
        not linear. Its penalty and its number of steps are those that suit the held-out sequences best; if columns say
        nothing linear, it is as "labels". Training sequences, if there are 20 or more, begin with scores of chains
        fitted without them. Auto: linear if there are more than 253 sparse columns, or a column has more
        categories than that, as in text.
    curvature : {"mixing", "newton", "count"}, default="mixing"
        H in the value of a leaf: a bound under which the log-likelihood never falls, p(1 − p), or the number of
        examples (as in the papers).
    objective : {"likelihood", "position_likelihood", "pseudo_likelihood"}, default="likelihood"
        What is maximised: log P(Y | X); Σ_t v(y_t) log P(y_t | X), with the class weights v in the terms; or Σ_t log
        P(y_t | the other labels, X), which needs no forward–backward pass and trusts the neighbours' labels too much.
        Scores of the history are those of the objective.
    pseudo_likelihood_rounds : int, default=0
        Climb the pseudo-likelihood in the first so many rounds; early stopping begins after them.
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
    transitions : "any", "seen", name of a scheme, dict, DataFrame or array, default="any"
        Which label may follow which: those seen in fit, those of a scheme ("IOB2", "BIOES", …), those of a dict
        ``{from: [to, …]}`` with an entry for every label, or those where a table of booleans is true (row = from,
        column = to). A pandas DataFrame is matched by the labels in its index and columns, an array of shape
        (n_labels, n_labels) by position, in the order of ``classes_``.
    min_duration : int or dict, default=1
        Smallest number of positions of a run, which is a block of equal labels: one number for all labels, or a dict
        ``{label: positions}`` (1 for labels it does not name). Holds in training and in prediction; only runs that
        touch the start or the end of a sequence may be shorter, because records are cut from longer ones. Costs the
        same for any number. Needs ``order=1``, ``contexts="all"``, ``objective="likelihood"`` and ``beam=None``.
    beam : int or None, default=None
        Training and prediction keep only so many contexts at each position, in training one more, that of the labels: a
        pruned forward–backward pass. To prune prediction alone, set it after ``fit``.
    early_stopping : "auto" or bool, default="auto"
        Stop when the log-likelihood of held-out sequences no longer rises, and keep the best round. Auto: if validation
        data are given, if there are at least 20 sequences, or if fewer are long enough (2,000 positions together) to
        hold out blocks of them.
    validation_fraction : float, default=0.1
        Share of the sequences or blocks to hold out, if no validation data are given.
    refit : "auto" or bool, default="auto"
        After early stopping, train again on all sequences, those held out included, for the best number of rounds;
        the history stays that of the first training. Not with validation data of your own, nor with ``warm_start``.
        Auto: for up to 150,000 positions; with more, the tenth held out is not missed.
    n_iter_no_change : int, default=20
        Rounds without improvement that are waited for.
    tol : float, default=1e-6
        What counts as improvement, in log-likelihood per position.
    class_weight : None, "balanced" or dict, default=None
        Weights v of labels: a dict, or "balanced" for n / (n_labels · n_k), where n_k of the n observed labels are k.
        ``predict`` and ``predict_proba`` then use v_k P(y_t = k | X) / Σ_j v_j P(y_t = j | X), the probabilities that
        minimise the log-loss Σ_t v(y_t) of single labels. Raise the weight of a rare label to find more of it (recall)
        at the price of false alarms (precision). Probabilities of whole labellings (``log_prob``, ``predict_kbest``)
        and of contexts (``predict_marginals``) stay as they are; not with ``decoding="viterbi"``. With
        ``objective="position_likelihood"`` the weights enter the training instead.
    sequence : str or None, default=None
        Name of the column that tells sequences apart, if X is a table.
    warm_start : bool, default=False
        Go on from the last fit, up to ``max_iter`` rounds in all.
    random_state : int, RandomState or None, default=None
        Seed of held-out sequences and of features drawn at nodes.
    verbose : int, default=0
        0: silent; 1: progress bar; 2: a line per round.
    n_jobs : int or None, default=None
        Number of threads; None and −1: all cores. The model does not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of columns, if X has names.
    n_iter_ : int
        Rounds done.
    best_iteration_ : int
        Rounds kept: those with the best validation score, or all.
    best_score_ : float
        Validation score (without validation data: training score) of the kept rounds, log-likelihood per position.
    history_ : dict of lists
        Scores and accuracies by round; entry 0 is the start.
    evals_result_ : dict of dicts
        The same under LightGBM's name, by data set.
    window_, trees_, init_, potentials_, l2_regularization_
        What "auto" came to, for each of these parameters.
    transition_scores_ : ndarray of shape (n_labels, n_labels)
        For order 1: scores of transitions before the trees speak (row = from, column = to).

    See Also
    --------
    seqboost.load : Read a model that was written by ``save``.

    References
    ----------
    Dietterich, T. G., Ashenfelter, A. and Bulatov, Y. (2004). Training conditional random fields via gradient tree
    boosting. ICML.

    Dietterich, T. G., Hao, G. and Ashenfelter, A. (2008). Gradient tree boosting for training conditional random
    fields. JMLR 9.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> words, syllables = ["banana", "tomato", "panama"] * 9, ["010101", "010101", "010101"] * 9
    >>> model = TreeCRF(window=1, max_iter=20).fit(words, syllables)
    >>> print("".join(model.predict(["manana"])[0]))
    010101
    """

    _trained: Trained
    _seed: int
    _lasting: dict[str, Any]

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
        contexts: str = "all",
        potentials: str = "auto",
        init: str = "auto",
        trees: str = "auto",
        decoding: str = "posterior",
        curvature: str = "mixing",
        objective: str = "likelihood",
        pseudo_likelihood_rounds: int = 0,
        step: str = "auto",
        direction: str = "gradient",
        sampling: Any = None,
        n_bags: int = 1,
        transitions: Any = "any",
        min_duration: Any = 1,
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
        self.contexts = contexts
        self.potentials = potentials
        self.init = init
        self.trees = trees
        self.decoding = decoding
        self.curvature = curvature
        self.objective = objective
        self.pseudo_likelihood_rounds = pseudo_likelihood_rounds
        self.step = step
        self.direction = direction
        self.sampling = sampling
        self.n_bags = n_bags
        self.transitions = transitions
        self.min_duration = min_duration
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

    @property
    def _label_limit(self) -> int | None:
        return None if self.potentials == "factored" else MANY_LABELS

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        eval_set: Any = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train on sequences.

        Parameters
        ----------
        X : list of sequences, table or SequenceBatch
            Sequences: 2-D arrays, lists of dicts, lists of values, strings (each character an element), sparse
            matrices; or a table whose sequence column is named by ``sequence``. Of an element that is a tuple, or a
            list with other values than strings, each place is a column; a *list of strings* is a bag of attributes, as
            in CRFsuite, in which places mean nothing. What lists mean is settled here: ``predict`` goes by it.
        y : list of label sequences
            A label for each element; None, NaN or masked = unobserved. For a table: a column of labels.
        sample_weight : array-like of shape (n_sequences,), optional
            Weights of sequences.
        X_val, y_val, sample_weight_val : as X, y and sample_weight, optional
            Validation sequences.
        eval_set : list of one (X, y) pair, optional
            The same, as other boosting libraries have it.
        callbacks : sequence of callables, optional
            Called after every round with a :class:`~seqboost.Progress`; a true answer stops training. Some are in
            :mod:`seqboost.callbacks`. With others than those there are no trials (``potentials``): they see the one
            training there is. Those are told of a trial that is kept when it has ended, from round 1 on.

        Returns
        -------
        self : the labeller itself
        """
        parameters = self._parameters()
        check_contexts(parameters)
        check_min_duration(parameters)
        check_sampling(parameters["sampling"], parameters["trees"])
        check_refit(parameters)
        check_class_weight(parameters)
        callbacks = callback_list(callbacks)
        X_val, y_val = validation_pair(X_val, y_val, sample_weight_val, eval_set)
        is_warm = self.warm_start and hasattr(self, "_trained")
        earlier = self._trained if is_warm else None
        if is_warm:
            parameters = kept(parameters, self._lasting)
            known = {name: self._lasting[name] for name in LASTING if name in self._lasting}
            check_unchanged(type(self).__name__, known, parameters)
            check_weights_outside_trees(parameters, self._class_weights)
        hooked = scikit_callbacks(self, X, y, sample_weight, parameters["max_iter"])
        with hooked as hooks, unchanged_on_failure(self):
            training = (self._known if is_warm else self._learned)(X, y, sample_weight)
            asked = parameters
            if not is_warm:
                parameters = resolved(parameters, training.batch, len(self.classes_))
                self._seed = int(check_random_state(self.random_state).randint(2**31))
                self._lasting = {name: parameters[name] for name in LASTING}
            self._lasting = {**self._lasting, **{name: parameters[name] for name in AUTOMATIC}}
            parameters["learning_rate"] = automatic_rate(parameters, len(self.classes_))
            validation = None
            if X_val is not None:
                with where("In the validation data"):
                    validation = self._known(X_val, y_val, sample_weight_val, "y_val")
            durations = label_durations(parameters["min_duration"], self.classes_)
            for part in (training, validation):
                if part is not None and durations is not None:
                    part.check_durations(durations, self.classes_.tolist())
            divisions = self._divisions(training) if X_val is None else None
            if is_warm and divisions is not None:
                check_still_held_out(self._trained.refitted)
            default = Stopping(self.n_iter_no_change, self.tol) if self.early_stopping is not False else None
            stopping = stopping_rule(callbacks, validation is not None or divisions is not None, default)
            weights_of_classes = None
            if self.class_weight is not None:
                weights_of_classes = class_weights(self.class_weight, self.classes_, training.labels)
            settings = Settings(
                parameters, self.classes_, weights_of_classes, self._n_threads, self._seed, stopping,
                [*callbacks, *hooks],
            )  # fmt: skip
            with compile_notice(self.verbose):
                if divisions is None:
                    trained = self._watched(training, validation, settings, earlier)
                else:
                    trained = self._stopped_early(training, divisions, asked, settings, earlier)
            if is_auto(asked["potentials"]):
                self._lasting["potentials"] = trained.potentials
            self._class_weights = None
            if weights_of_classes is not None and self.objective != "position_likelihood":  # else trees hold them
                self._class_weights = np.maximum(weights_of_classes / weights_of_classes.max(), 1e-300)
            self._set_trained(trained)
            if trained.best_iteration == 0:
                warnings.warn(NO_ROUNDS.format(type(self).__name__, STARTS[self.init_]), stacklevel=2)
        return self

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters of a fit, checked."""
        # numpy's numbers would have kernels compiled for their types
        parameters = {name: plain_number(value) for name, value in self.get_params(deep=False).items()}
        parameters["transitions"] = followers(parameters["transitions"])
        rules = {name: rule for name, rule in RULES.items() if name in parameters}
        check_parameters(type(self).__name__, parameters, rules)
        return parameters

    def _watched(
        self, training: Labelled, validation: Labelled | None, settings: Settings, earlier: Trained | None
    ) -> Trained:
        """Train once, with a progress bar."""
        with progress_bar(settings["max_iter"], self.verbose) as bars:
            return train(training, validation, replace(settings, callbacks=[*bars, *settings.callbacks]), earlier)

    def _stopped_early(
        self,
        training: Labelled,
        divisions: Divisions,
        asked: Mapping[str, Any],
        settings: Settings,
        earlier: Trained | None,
    ) -> Trained:
        """Train until held-out sequences say stop, have others judge changes to the rules, and train on all of them.

        Callbacks see the training that is kept. One that was tried they are told of when it has won; those that might
        have stopped it leave no place for trials. Only those that may have to stop any training are asked in all.
        """
        lasting = [callback for callback in settings.callbacks if getattr(callback, "asked_in_refit", False)]
        others = [callback for callback in settings.callbacks if callback not in lasting]
        stop = Heard(lasting)
        names = left_to_trials(asked, settings) if not self.warm_start and all(map(only_reads, others)) else []
        trained, by_rules = None, settings
        if names and (of_sample := self._sampled(training)) is not None:
            settings, trained = tried_on_sample(of_sample, settings, names, stop, self.verbose)
        if trained is not None:
            retell(trained.history.to_dict(), settings["max_iter"], others)
        else:
            seen: list[Callback] = [*others, stop]
            try:
                trained = self._watched(*divisions(0), replace(settings, callbacks=seen), earlier)
            except MemoryLimitError:
                if settings is by_rules:
                    raise
                settings = by_rules  # there was room for a sample alone
                trained = self._watched(*divisions(0), replace(settings, callbacks=seen), earlier)
        if is_auto(asked["potentials"]):  # what there is room for may change from one training to the next
            settings = replace(settings, parameters={**settings.parameters, "potentials": trained.potentials})
        if not stop.stopped:
            best, settings = best_of_trials(trained, divisions, settings, names, stop, self.verbose)
            if best is not trained:
                retell(best.history.to_dict(), settings["max_iter"], others)
            trained = best
        self._lasting = {**self._lasting, **{name: settings[name] for name in AUTOMATIC}}
        if self._refits(training):
            with progress_bar(trained.best_iteration, self.verbose) as bars:
                trained = train_again(trained, training, settings, [*bars, stop])
        return trained

    def _sampled(self, training: Labelled) -> Divisions | None:
        """Return ways to hold out sequences of a sample, if there are too many for trials."""
        sample = sample_for_trials(training, self._seed)
        return None if sample is None else self._divisions(sample)

    def _refits(self, training: Labelled) -> bool:
        """Tell whether to train again on all sequences."""
        few = self.refit == "auto" and not self.warm_start and training.batch.n_rows <= REFIT_POSITIONS
        return self.refit is True or few

    def _divisions(self, training: Labelled) -> Divisions | None:
        """Return ways to hold out sequences, or None if none are to be held out."""
        if self.early_stopping is False:
            return None
        n_sequences = training.batch.n_sequences
        # A block that begins inside a span would break the rules of a scheme.
        can_cut = isinstance(self.transitions, str) and self.transitions == "any" and has_blocks(training.batch.offsets)
        if self.early_stopping == "auto" and n_sequences < ENOUGH_SEQUENCES and not can_cut:
            return None
        by_blocks = can_cut and n_sequences < (ENOUGH_SEQUENCES if self.early_stopping == "auto" else 2)
        if n_sequences < 2 and not by_blocks:
            raise ParameterError(
                "early_stopping=True needs sequences to hold out, but X has only one, which cannot be cut (it is "
                "short, or `transitions` has rules for its ends); give X_val and y_val, or set early_stopping=False"
            )
        return Divisions(training, self.validation_fraction, self._seed, by_blocks)

    def _set_trained(self, trained: Trained) -> None:
        history = trained.history.to_dict()
        self._trained = trained
        self.history_ = history
        self.n_iter_ = len(history["train_score"]) - 1
        self.best_iteration_ = trained.best_iteration
        self.best_score_ = trained.best_score
        self.evals_result_ = evaluations(history)
        self.potentials_ = trained.potentials
        self.window_, self.trees_, self.init_, self.l2_regularization_ = (self._lasting[name] for name in AUTOMATIC)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether fit has been called."""
        return hasattr(self, "_trained")

    def _scored(self, batch: SequenceBatch) -> Potentials | SeenPotentials:
        model, n_threads = self._trained.model, self._n_threads
        rows = None if model.linear is None else model.linear.columns.transform(batch)
        return model.scored(model.binner.transform(batch, n_threads=n_threads), n_threads, rows)

    def _constraint(self, scores: NDArray[np.float32], potentials: Potentials | SeenPotentials) -> Potentials | None:
        model = self._trained.model
        return model.constrained(scores, potentials.offsets) if model.is_constrained else None

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        trained = self._trained
        arrays, header = trained.model.to_arrays()
        if self._class_weights is not None:
            arrays["class_weights"] = self._class_weights
        return arrays, {
            "lasting": {name: plain(value) for name, value in self._lasting.items()},
            "model": header,
            "history": {name: with_null(values) for name, values in trained.history.to_dict().items()},
            "best_iteration": trained.best_iteration,
            "refitted": trained.refitted,
            "linear_fit": None if trained.linear_fit is None else trained.linear_fit.to_json(),
            "seed": self._seed,
        }

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        stored = Stored("parts", arrays, header)
        self._seed = stored.integer("seed", 0, 2**32 - 1)
        lasting = {name: revived(value) for name, value in stored.field("lasting", dict).items()}
        self._class_weights = None
        if "class_weights" in arrays:
            self._class_weights = stored.array("class_weights", np.float64, (len(self.classes_),), low=1e-300, high=1.0)
        older = {**EARLIER, "l2_regularization": self.l2_regularization}
        self._lasting = lasting | {name: value for name, value in older.items() if name not in lasting}
        model = FrozenModel.from_arrays(arrays, stored.field("model", dict))
        model.binner.check_schema(self._schema)
        past = {name: without_null(values) for name, values in header["history"].items()}
        history = History(np.ones(1, dtype=bool), np.ones(1), **past)
        if len(self.classes_) != model.forest.n_labels:
            raise ValueError(f"{len(self.classes_)} labels have names, but {model.forest.n_labels} have trees")
        refitted = bool(header.get("refitted", False))
        linear_fit = LinearFit.from_json(header["linear_fit"]) if header.get("linear_fit") else None
        best_iteration = stored.integer("best_iteration", 0, 2**31 - 1)
        self._set_trained(Trained(model, history, best_iteration, linear_fit, refitted))

    @property
    def transition_scores_(self) -> NDArray[np.float64]:
        """Scores of transitions (row = from, column = to) before the trees speak; order 1 only."""
        check_is_fitted(self)
        if self._trained.model.order != 1:
            raise AttributeError("transition_scores_ is there for order=1 only")
        model = self._trained.model
        return model.table[1:].copy() if model.contexts is None else model.contexts.transition_scores(model.table)
