"""Chains whose labels have minimum durations: a run of a label may not be shorter, but at the ends of a sequence."""
