"""Cold and warm start: import, and time from an imported package to the end of the first round.

python benchmarks/startup.py

Each figure is taken in a process of its own; "cold" has an empty kernel cache, "warm" a filled one.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time

import report
from measure import in_subprocess, sticky_sequences


def first_round() -> dict[str, float]:
    """Import, fit one round, predict, in this process."""
    start = time.perf_counter()
    import seqboost

    imported = time.perf_counter()
    estimator = seqboost.TreeCRF(max_iter=1, window=2, early_stopping=False, random_state=0)
    made = time.perf_counter()
    X, y = sticky_sequences(2000, 4, 3)
    begun = time.perf_counter()
    model = estimator.fit(X, y)
    fitted = time.perf_counter()
    model.predict(X)
    return {
        "import s": imported - start,
        "TreeCRF, with scikit-learn s": made - imported,
        "first round s": fitted - begun,
        "predict s": time.perf_counter() - fitted,
    }


def main() -> None:
    """Measure with an empty and with a filled cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {"NUMBA_CACHE_DIR": cache}
        cold = in_subprocess(__file__, "--measure", environment=environment)
        runs = [in_subprocess(__file__, "--measure", environment=environment) for _ in range(5)]
    warm = {name: statistics.median(run[name] for run in runs) for name in cold}
    rows = [{"start": name, **figures} for name, figures in (("cold", cold), ("warm", warm))]
    for row in rows:
        print(row)
    report.write("startup", rows, note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(first_round()))
    else:
        main()
