"""TreeCRF: a conditional random field whose potentials are sums of regression trees."""

from __future__ import annotations

from seqboost.estimators.chains import BoostedChain

__all__ = ["TreeCRF"]


class TreeCRF(BoostedChain):
    """Label every element of sequences with boosted trees inside a conditional random field.

    The trees are the potentials, not the graph: the labels form a chain, and the score of a label given the labels
    before it and a window of the input is a sum of regression trees,

        P(Y | X) ∝ exp Σ_t F^{y_t}(y_{t−1}, …, y_{t−m}, w_t(X)).

    Parameters
    ----------
    learning_rate : "auto" or float, default="auto"
        Factor on the values of leaves. The curvature "mixing" of ``method`` makes steps small by itself; with "count"
        use 0.05 to 0.1. Auto: 0.25; 0.5 for more than 10 labels, which take many rounds, unless boosting has a linear
        start or another curvature. With the curvature "newton" 0.1, or 0.25 for more than 10 labels.
    max_iter : int, default=500
        Largest number of rounds; a round grows one tree per label, or one for all (``trees``).
    max_leaf_nodes : int, default=31
        Largest number of leaves of a tree.
    max_depth : int or None, default=None
        Largest depth of a tree; None leaves it to ``max_leaf_nodes``.
    min_samples_leaf : int, default=20
        Smallest number of positions in a leaf.
    l2_regularization : "auto" or float, default="auto"
        λ in the value of a leaf, G / (H + λ). Auto: 10; ``tune`` tries 100 and 1000 for up to 10 labels.
    max_features : float, default=1.0
        Share of the window features that are drawn at random for each node, from those of its tree.
    max_bins : int, default=255
        Largest number of bins of a numeric column.
    categorical_features : None, list of columns or boolean mask, default=None
        Numeric columns to be treated as categories. Columns of strings always are.
    window : "auto", int, tuple, list or dict, default="auto"
        Which positions around t a tree may look at: ``w`` means −w … w, ``(l, r)`` means −l … r, a list holds the
        offsets themselves, and a dict has one of these for each column (``"*"`` for all others, which without it see
        their own position only). Auto: as many on each side as make about 100 features of the columns, at most 6; none
        for sparse columns, nor where there are more than three columns of categories. ``tune`` tries twice as many, up
        to 6, and, for columns of numbers, none.
    missing : str, Surrogates or dict, default="direction"
        What is done about missing values (NaN, None): "direction" (each split learns the side they take),
        "instance_weighting" (they take both sides, in the proportion of the others), "surrogate" (three other features
        tell the side; :class:`~seqboost.Surrogates` for another number), "impute" (median, most frequent category),
        "impute_mean" (mean, most frequent category) or "indicator" (a feature tells that the value is missing). A dict
        has one of these for each column, as in ``window``. Beyond the ends of a sequence nothing is missing: that is a
        value of its own.
    order : int, default=1
        How many labels back a label depends on.
    potentials : {"auto", "joint", "factored"}, default="auto"
        Joint: trees see the labels before. Factored: trees see the window only and a table holds the scores of
        transitions; needs a fraction of memory and time when there are many labels. Auto: joint for up to 10 labels if
        half of the available memory is enough for it, factored otherwise; ``tune`` compares the two. More than 1,000
        labels need factored ones, by name.
    trees : {"auto", "per_label", "shared"}, default="auto"
        What a round grows: a tree for each label, or one tree for all, whose leaves hold a value for each label and
        whose splits gain Σ_k G_k² / (H_k + λ). With many labels a shared tree costs a fraction of the others, and
        labels learn from each other; it takes more rounds. With more than 32 labels, 32 are drawn for each tree to
        decide on its splits. A histogram takes 8 bytes a bin and deciding label; at most 256 MB of them are kept (two,
        if they are larger), and leaves without one are measured anew when they are split. Auto: shared for 3 labels and
        more, unless the sampling of ``method`` is stratified.
    tune : "auto" or bool, default="auto"
        Whether held-out sequences choose among settings that are "auto". After a first training by the rules, other
        settings are tried one after another and kept if held-out sequences are more probable with them: factored
        ``potentials``, a larger ``l2_regularization``, a wider ``window`` or none. Candidates are judged by the
        sequences of early stopping or, if these have fewer than 4,000 labels, by up to four tenths of the sequences in
        turn; with more than 50,000 positions, a sample of the sequences chooses ``l2_regularization`` and ``window``.
        Nothing is tuned with validation data of your own, a warm start, fewer than 500 held-out labels, a beam in
        training or the pseudo-likelihood, nor with callbacks that may stop or see the model. False: use the rules
        alone, in a fraction of the time. Auto: tune, unless ``potentials`` and ``window`` are both named or boosting
        has a linear start. True: tune these too, and raise an error where nothing can be tuned. ``tuning_`` lists what
        was tried.
    method : Method or None, default=None
        What only research changes: objective, curvature, step, direction, sampling, bags, a beam in training and more;
        see :class:`~seqboost.Method`.
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
    transitions : "any", "seen", name of a scheme, dict, DataFrame or array, default="any"
        Which label may follow which: those seen in fit, those of a scheme ("IOB2", "BIOES", …), those of a dict
        ``{from: [to, …]}`` with an entry for every label, or those where a table of booleans is true (row = from,
        column = to). A pandas DataFrame is matched by the labels in its index and columns, an array of shape
        (n_labels, n_labels) by position, in the order of ``classes_``.
    min_duration : int or dict, default=1
        Smallest number of positions of a run, which is a block of equal labels: one number for all labels, or a dict
        ``{label: positions}`` (1 for labels it does not name). Holds in training and in prediction; only runs that
        touch the start or the end of a sequence may be shorter, because records are cut from longer ones. Costs the
        same for any number. Needs ``order=1`` and the defaults of ``method`` but for curvature, step and sampling.
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
    class_weight : None, "balanced" or dict, default=None
        Weights v of labels: a dict, or "balanced" for n / (n_labels · n_k), where n_k of the n observed labels are k.
        ``predict`` and ``predict_proba`` then use v_k P(y_t = k | X) / Σ_j v_j P(y_t = j | X), the probabilities that
        minimise the log-loss Σ_t v(y_t) of single labels. Raise the weight of a rare label to find more of it (recall)
        at the price of false alarms (precision). Probabilities of whole labellings (``log_prob``, ``predict_kbest``)
        and of contexts (``predict_marginals``) stay as they are; not with ``decoding="viterbi"``. With
        ``Method(objective="position_likelihood")`` the weights enter the training instead.
    sequence : str, list of str or None, default=None
        Name of the column that tells sequences apart, if X is a table; a list: columns that do so together.
    time : str or None, default=None
        Name of the column of the table (or of each table in a list) that orders the positions of a sequence: dates
        and times, or numbers. It is no feature; the gap to the position before, in seconds or as a difference, is one.
    warm_start : bool, default=False
        Go on from the last fit, up to ``max_iter`` rounds in all.
    random_state : int, RandomState or None, default=None
        Seed of held-out sequences and of features drawn at nodes.
    verbose : int, default=0
        0: silent; 1: progress bar, or a line every few seconds without rich (extra ``cli``); 2: a line per round.
        Lines go through :mod:`logging`, as does what is reported in any case (docs/training.md).
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
    window_, trees_, init_, potentials_, l2_regularization_, learning_rate_
        What "auto" came to, for each of these parameters.
    tuning_ : list of Candidate
        Every candidate of ``tune`` with its settings, held-out score, time and rounds; empty if nothing was tuned.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each column in the gain of all splits on columns, the positions of its window taken together.
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

    _takes_sets = _takes_position_weights = True
