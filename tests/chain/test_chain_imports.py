"""Modules of chain import each other without cycles, hidden ones included."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import seqboost.chain

FOLDER = Path(seqboost.chain.__file__).parent


def imported(path):
    """Modules of chain that a module imports anywhere, also for annotations alone."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {
        node.module for node in nodes if isinstance(node, ast.ImportFrom) and "seqboost.chain" in (node.module or "")
    }


def test_no_cycles():
    modules = {path: path.relative_to(FOLDER).with_suffix("").parts for path in FOLDER.rglob("*.py")}
    graph = {".".join(("seqboost", "chain", *parts)): imported(path) for path, parts in modules.items()}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)
