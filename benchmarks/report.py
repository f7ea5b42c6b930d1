"""Write a benchmark's results as JSON and Markdown, with the machine they were measured on."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["machine", "write"]

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("seqboost", "numpy", "numba", "scikit-learn", "lightgbm", "python-crfsuite")


def machine() -> dict[str, Any]:
    """Describe processor, memory and versions."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "absent"
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": versions,
    }


def write(
    name: str, rows: Sequence[dict[str, Any]], *, note: str = "", key: Sequence[str] = (), command: str = ""
) -> Path:
    """Write ``rows`` to ``results/<name>.json`` and ``.md``; return the path of the Markdown file.

    With ``key``, rows already in the file are kept unless a new row has the same values in the columns of ``key``, so
    that parts of a benchmark can be run again by themselves; each row remembers its day. ``command`` is what makes the
    table, if it is not the script of its name.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    today = datetime.date.today().isoformat()
    kept: list[dict[str, Any]] = []
    if key and path.exists():
        new = {tuple(row.get(column) for column in key) for row in rows}
        old = json.loads(path.read_text(encoding="utf-8"))
        kept = [
            {"date": old["date"], **row} for row in old["rows"] if tuple(row.get(column) for column in key) not in new
        ]
    merged = [*kept, *({"date": today, **row} for row in rows)]
    merged.sort(key=lambda row: tuple(str(row.get(column)) for column in key))
    info = {"machine": machine(), "date": today, "note": note, "rows": merged}
    command = command or f"python benchmarks/{name}.py"
    path.write_text(json.dumps(info, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    markdown = path.with_suffix(".md")
    markdown.write_text(_markdown(name, info, command), encoding="utf-8")
    return markdown


def _markdown(name: str, info: dict[str, Any], command: str) -> str:
    rows, host = info["rows"], info["machine"]
    columns = list(dict.fromkeys(column for row in rows for column in row if column != "date"))
    days = sorted({row["date"] for row in rows})
    lines = [f"# {name.replace('_', ' ')}", ""]
    if info["note"]:
        lines += [info["note"], ""]
    lines += ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_cell(row.get(column)) for column in columns) + " |" for row in rows]
    versions = ", ".join(f"{package} {version}" for package, version in host["packages"].items())
    lines += [
        "",
        f"{' to '.join(dict.fromkeys([days[0], days[-1]]))}; {host['processor']}, {host['cores']} cores, "
        f"{host['memory_gib']} GiB; {host['system']}, Python {host['python']}, {versions}.",
        f"Command: `{command}`.",
    ]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={setting}" for key, setting in value.items()) or "defaults"
    return str(value)
