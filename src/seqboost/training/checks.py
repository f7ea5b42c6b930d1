"""Settings that exclude each other: each refused with a message that names the way out."""

from __future__ import annotations

from collections.abc import Mapping

from seqboost.boosting import Stratified
from seqboost.core.exceptions import ParameterError
from seqboost.training.config import FitConfig
from seqboost.training.methods import sampler_of
from seqboost.training.result import FitResult

__all__ = ["check_config", "check_label_weights", "check_still_held_out"]


def check_config(config: FitConfig) -> None:
    """Raise ParameterError if settings exclude each other."""
    _check_contexts(config)
    _check_sampling(config)
    _check_objective(config)
    _check_durations(config)
    if config.stopping.refit is True and config.warm_start:
        raise ParameterError(
            "refit=True trains on the held-out sequences as well, so that warm_start=True could not be stopped by them "
            "any more; use refit=False (or 'auto'), or warm_start=False"
        )


def check_label_weights(config: FitConfig, earlier: FitResult) -> None:
    """Raise ParameterError if a warm start would weigh labels again that an earlier version weighed in the trees."""
    was_weighted = earlier.config.class_weight is not None and earlier.label_odds is None
    if was_weighted and config.class_weight is not None and not config.weights_in_terms:
        raise ParameterError(
            "this model was trained with class_weight by an earlier version, by objective='position_likelihood' or by "
            "weights of positions (sample_weight), which put the weights of labels into the trees; it can be trained "
            "further only in that way. Do so, or train it anew (warm_start=False)"
        )


def check_still_held_out(refitted: bool) -> None:
    """Raise ParameterError if a warm start is to be stopped by sequences that the model was trained on."""
    if refitted:
        raise ParameterError(
            "the last fit trained again on the sequences it had held out (refit), so they cannot stop a warm start; "
            "give X_val and y_val, or set early_stopping=False, or make the first fit with warm_start=True (or "
            "refit=False)"
        )


def _check_contexts(config: FitConfig) -> None:
    if not config.uses_seen:
        return
    method = config.method
    if config.chain.potentials == "joint":
        raise ParameterError(
            "contexts='seen' needs factored potentials, but potentials='joint' was asked for; use "
            "potentials='factored' (or 'auto'), or contexts='all'"
        )
    if method.objective != "likelihood" or method.pseudo_likelihood_rounds:
        raise ParameterError(
            "contexts='seen' needs objective='likelihood' and pseudo_likelihood_rounds=0; use these, or contexts='all'"
        )
    if config.chain.init == "linear":
        raise ParameterError(
            "contexts='seen' starts from the labels alone, but init='linear' was asked for; use "
            "init='labels' (or 'auto'), or contexts='all'"
        )
    if method.beam is not None:
        raise ParameterError(
            f"contexts='seen' keeps few contexts anyway and has no beam search, but beam={method.beam!r} was "
            f"asked for; use beam=None, or contexts='all'"
        )


def _check_sampling(config: FitConfig) -> None:
    sampling = config.method.sampling
    if config.trees.shared and isinstance(sampler_of(sampling, 1), Stratified):
        raise ParameterError(
            f"sampling={sampling!r} divides the examples into positive and negative ones of a tree's label, but with "
            f"trees='shared' a tree is for all labels; use trees='per_label', or a share, 'goss' or another sampler"
        )


def _check_objective(config: FitConfig) -> None:
    method = config.method
    if config.weights_in_terms and (method.pseudo_likelihood_rounds or method.beam is not None):
        raise ParameterError(
            "objective='position_likelihood' needs P(y_t | X) in every round of training; use "
            "pseudo_likelihood_rounds=0 and beam=None (predict takes a beam of its own)"
        )


def _check_durations(config: FitConfig) -> None:
    asked, method = config.chain.min_duration, config.method
    if (max(asked.values(), default=1) if isinstance(asked, Mapping) else asked) == 1:
        return
    needed = [
        ("order", config.chain.order, 1),
        ("contexts", method.contexts, "all"),
        ("objective", method.objective, "likelihood"),
        ("pseudo_likelihood_rounds", method.pseudo_likelihood_rounds, 0),
        ("beam", method.beam, None),
    ]
    for name, value, wanted in needed:
        if value != wanted:
            raise ParameterError(
                f"min_duration needs {name}={wanted!r}, but {name}={value!r} was asked for; use {name}={wanted!r}, or "
                f"min_duration=1"
            )
