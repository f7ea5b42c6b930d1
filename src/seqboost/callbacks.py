"""Callbacks for ``fit(callbacks=[...])``, under LightGBM's names.

Any function that takes a :class:`seqboost.Progress` is a callback too; a true answer stops training.
"""

from seqboost.boosting.callbacks import early_stopping, log_evaluation, record_evaluation

__all__ = ["early_stopping", "log_evaluation", "record_evaluation"]
