"""seqboost: LightGBM for label sequences.

Conditional random fields whose potentials are gradient-boosted regression trees. The trees are the potentials, not the
graph: the labels of a sequence form a chain.
"""

from __future__ import annotations

import os
from importlib.metadata import version

from seqboost import exceptions
from seqboost.boosting import Progress
from seqboost.estimators import TreeCRF
from seqboost.sequences import SequenceBatch, as_batch

__all__ = ["Progress", "SequenceBatch", "TreeCRF", "__version__", "as_batch", "exceptions", "load"]

__version__ = version("seqboost")


def load(path: str | os.PathLike[str]) -> TreeCRF:
    """Read a model that was written by its ``save`` method.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    TreeCRF

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
    return TreeCRF.load(path)
