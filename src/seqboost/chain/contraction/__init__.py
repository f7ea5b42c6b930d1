"""Contraction coefficients of the posterior chain and their bounds: how strongly labels depend on the context."""
