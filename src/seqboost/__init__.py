"""seqboost."""
