"""A model and its labellings as one page, for any browser and without a network."""

from __future__ import annotations

from seqboost.reporting.report import render_report, write_report

__all__ = ["render_report", "write_report"]
