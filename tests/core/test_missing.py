"""Policies for missing values have numbers that model files hold."""

from seqboost.core import missing


def test_policies_have_the_numbers_of_model_files():
    assert (missing.DIRECTION, missing.INSTANCE_WEIGHTING, missing.SURROGATE) == (0, 1, 2)
