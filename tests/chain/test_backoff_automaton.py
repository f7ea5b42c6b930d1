"""States and arcs of the back-off chain: what followed in training, and what is refused."""

import numpy as np
import pytest

from seqboost.chain import SeenContexts
from seqboost.chain.reference import random_seen, seen_histories_slow
from seqboost.exceptions import ParameterError
from tests.support.chains import SEEN_SHAPES


def training_labels(rng, n_labels, hidden=0.0):
    offsets = np.append(0, np.cumsum(rng.integers(1, 9, 12))).astype(np.int64)
    labels = rng.integers(n_labels, size=offsets[-1]).astype(np.int32)
    labels[rng.random(offsets[-1]) < hidden] = -1
    return labels, offsets


@pytest.mark.parametrize("hidden", [0.0, 0.2])
@pytest.mark.parametrize("min_count", [1, 2, 4])
@pytest.mark.parametrize(("n_labels", "order"), SEEN_SHAPES)
def test_states_and_arcs_are_what_followed_in_training(n_labels, order, min_count, hidden):
    rng = np.random.default_rng([n_labels, order, min_count])
    labels, offsets = training_labels(rng, n_labels, hidden)
    c = SeenContexts.from_labels(labels, offsets, n_labels, order, min_count=min_count)
    expected = seen_histories_slow(labels, offsets, n_labels, order, min_count)
    found = {c.history(s): set(c.arc_label[c.arc_start[s] : c.arc_start[s + 1]].tolist()) for s in range(c.n_states)}
    assert found == expected
    assert len(found) == c.n_states
    state = {c.history(s): s for s in range(c.n_states)}
    g = c.graph
    for history, s in state.items():
        assert g.backoff[s] == state[history[1:]]
        own = found[history]
        rest = g.rest_arc[g.rest_start[s] : g.rest_start[s + 1]]
        assert set(g.arc_label[rest].tolist()) == (found[history[1:]] - own if len(history) > 1 else set())
        for a in range(c.arc_start[s], c.arc_start[s + 1]):
            after = (*history, int(c.arc_label[a]))[-order:]
            while after not in state:
                after = after[1:]
            assert g.arc_to[a] == state[after]
            assert history == () or g.arc_label[g.arc_parent[a]] == c.arc_label[a]
            assert history == () or g.arc_parent[a] in range(*c.arc_start[g.backoff[s] : g.backoff[s] + 2])


def test_arrays_there_and_back():
    c = random_seen(np.random.default_rng(1), 4, 3, forbidden=0.3).contexts
    back = SeenContexts.from_arrays(c.to_arrays(), 4, 3)
    for name, array in c.graph._asdict().items():
        np.testing.assert_array_equal(getattr(back.graph, name), array, err_msg=name)
    np.testing.assert_array_equal(back.open, c.open)
    assert back.is_constrained


def forged(name, change):
    contexts = random_seen(np.random.default_rng(1), 3, 3).contexts
    arrays = {key: array.copy() for key, array in contexts.to_arrays().items()}
    arrays[name] = change(arrays[name])
    return arrays


def put(place, value):
    def change(array):
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("prefix", lambda a: a.astype(np.int64), "prefix is of type int64"),
        ("prefix", put(-1, 10**6), "does not come after its beginning"),
        ("prefix", put(-1, -1), "does not come after its beginning"),
        ("prefix", put(-1, 0), "order of their lengths"),
        ("newest", put(1, 2), "single labels are not there"),
        ("newest", put(-1, 77), "exactly one start state"),
        ("newest", put(-1, 3), "exactly one start state"),
        ("newest", lambda a: a[:2], "single labels are not there"),
        ("arc_label", put(-1, 99), "labels of the arcs do not rise"),
        ("arc_label", put(0, 1), "arcs do not belong"),
        ("arc_label", lambda a: a[:-1], "arcs do not belong"),
        ("arc_start", put(2, 10**9), "arcs do not belong"),
        ("arc_start", lambda a: a[:-1], "arcs do not belong"),
        ("allowed", lambda a: a[:1], "allowed must have shape"),
    ],
)
def test_forged_arrays_are_refused(name, change, match):
    with pytest.raises(ParameterError, match=match):
        SeenContexts.from_arrays(forged(name, change), 3, 3)


def test_histories_without_their_parts_are_refused():
    # (0,1) is there but not the arc 0 -> 1 that leads to it
    arrays = {
        "prefix": np.array([0, 0, 0, 1, 0], np.int32),
        "newest": np.array([0, 0, 1, 1, 2], np.int32),
        "arc_start": np.array([0, 2, 2, 2, 2, 2]),
        "arc_label": np.array([0, 1], np.int32),
        "allowed": np.ones((3, 2), bool),
    }
    with pytest.raises(ParameterError, match="lacks the arc that leads to it"):
        SeenContexts.from_arrays(arrays, 2, 2)
    arrays |= {"arc_start": np.array([0, 2, 3, 3, 4, 4]), "arc_label": np.array([0, 1, 1, 0], np.int32)}
    with pytest.raises(ParameterError, match="no arc to back off to"):
        SeenContexts.from_arrays(arrays, 2, 2)
    twice = {"prefix": np.array([0, 0, 0, 1, 1, 0], np.int32), "newest": np.array([0, 0, 1, 1, 1, 2], np.int32)}
    with pytest.raises(ParameterError, match="stands there twice"):
        SeenContexts.from_arrays(arrays | twice, 2, 2)
    # (0,1,0) without (1,0)
    endless = {"prefix": np.array([0, 0, 0, 1, 3, 0], np.int32), "newest": np.array([0, 0, 1, 1, 0, 2], np.int32)}
    with pytest.raises(ParameterError, match=r"\(0, 1, 0\) is there without its end"):
        SeenContexts.from_arrays(arrays | endless, 2, 3)
