"""Training gives the models that it gave before, to the last bit."""

from __future__ import annotations

import pytest
from support.digests import cases, digests, fitted, processor, stored, uncovered

EXPECTED = stored().get(processor())
needs_digests = pytest.mark.skipif(
    EXPECTED is None,
    reason=f"no digests for processor {processor()}; models' last bits differ between processors",
)


@needs_digests
@pytest.mark.parametrize("name", cases())
def test_model_is_unchanged(name):
    assert name in EXPECTED, "no digest is stored; run python -m tests.support.digests --write --only NAME"
    assert digests(fitted(cases()[name])) == EXPECTED[name]


def test_cases_cover_all_pairs():
    assert not uncovered()


def test_no_digest_without_a_case():
    for of_processor in stored().values():
        assert of_processor.keys() <= cases().keys()
