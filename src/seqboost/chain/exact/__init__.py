"""Exact inference where every context counts: scores by context (joint), without (factored), and with many labels."""
