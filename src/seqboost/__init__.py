"""seqboost: LightGBM for label sequences.

Conditional random fields whose potentials are gradient-boosted regression trees. The trees are the potentials, not the
graph: the labels of a sequence form a chain.
"""

from __future__ import annotations

import importlib
import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from seqboost import exceptions

if TYPE_CHECKING:
    from seqboost import callbacks, datasets, evaluation, files, inspection, sampling
    from seqboost.boosting import Callback, Progress
    from seqboost.estimators import (
        HMM,
        IOHMM,
        MEMM,
        FutureFeatureMEMM,
        FutureFeatures,
        FuturePattern,
        LinearCRF,
        Method,
        OutputCoding,
        RecurrentSlidingWindow,
        SlidingWindow,
        TreeCRF,
        VotedPerceptron,
    )
    from seqboost.sequences import Segment, SequenceBatch, as_batch, as_labels, from_segments, to_segments
    from seqboost.training import Candidate, Surrogates

__all__ = [
    "Callback",
    "Candidate",
    "FutureFeatureMEMM",
    "FutureFeatures",
    "FuturePattern",
    "HMM",
    "IOHMM",
    "LinearCRF",
    "MEMM",
    "Method",
    "OutputCoding",
    "Progress",
    "RecurrentSlidingWindow",
    "Segment",
    "SequenceBatch",
    "SlidingWindow",
    "Surrogates",
    "TreeCRF",
    "VotedPerceptron",
    "__version__",
    "as_batch",
    "as_labels",
    "callbacks",
    "datasets",
    "evaluation",
    "exceptions",
    "files",
    "from_segments",
    "inspection",
    "load",
    "sampling",
    "to_segments",
]

__version__ = version("seqboost")

# Imported at first use: scikit-learn, SciPy and numba take a second or two, which `import seqboost` need not wait for.
_HOMES = {
    "Callback": "seqboost.boosting",
    "Candidate": "seqboost.training",
    "FutureFeatureMEMM": "seqboost.estimators",
    "FutureFeatures": "seqboost.estimators",
    "FuturePattern": "seqboost.estimators",
    "HMM": "seqboost.estimators",
    "IOHMM": "seqboost.estimators",
    "LinearCRF": "seqboost.estimators",
    "MEMM": "seqboost.estimators",
    "Method": "seqboost.estimators",
    "OutputCoding": "seqboost.estimators",
    "Progress": "seqboost.boosting",
    "RecurrentSlidingWindow": "seqboost.estimators",
    "Segment": "seqboost.sequences",
    "SequenceBatch": "seqboost.sequences",
    "SlidingWindow": "seqboost.estimators",
    "Surrogates": "seqboost.training",
    "TreeCRF": "seqboost.estimators",
    "VotedPerceptron": "seqboost.estimators",
    "as_batch": "seqboost.sequences",
    "as_labels": "seqboost.sequences",
    "callbacks": "seqboost.callbacks",
    "datasets": "seqboost.datasets",
    "evaluation": "seqboost.evaluation",
    "files": "seqboost.files",
    "from_segments": "seqboost.sequences",
    "inspection": "seqboost.inspection",
    "sampling": "seqboost.sampling",
    "to_segments": "seqboost.sequences",
}
_MODULES = ("callbacks", "datasets", "evaluation", "files", "inspection", "sampling")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'seqboost' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    value = home if name in _MODULES else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted(set(globals()) | set(__all__))


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that was written by its ``save`` method.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    labeller of the class that was saved

    Examples
    --------
    >>> import os, tempfile, seqboost
    >>> model = seqboost.TreeCRF(max_iter=2, min_samples_leaf=1).fit(["abab", "ba"], ["0101", "10"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "model.seqboost"))
    ...     loaded = seqboost.load(os.path.join(folder, "model.seqboost"))
    >>> loaded.classes_
    array(['0', '1'], dtype='<U1')
    """
    from seqboost.estimators import load_any

    return load_any(path)
