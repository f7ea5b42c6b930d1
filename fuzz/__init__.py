"""Attack seqboost with hostile files, inputs and arguments: ``python -m fuzz --help``."""
