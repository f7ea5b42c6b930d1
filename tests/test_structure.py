"""The structure that later work must keep: few modules, short functions, few parameters, few calls to the trees."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import seqboost
from seqboost import TreeCRF
from seqboost.estimators.boosted import BoostedLabeler
from seqboost.trees import grower

SOURCE = Path(seqboost.__file__).parent
MODULES = sorted(path for package in ("training", "estimators") for path in (SOURCE / package).rglob("*.py"))
DECORATORS = ("contextlib.py", "sklearn/")


def n_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, from its first decorator or ``def`` on, without its docstring."""
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    statement = function.body[0]
    docstring = statement.end_lineno - statement.lineno + 1 if ast.get_docstring(function) is not None else 0
    return function.end_lineno - first + 1 - docstring


def only_assigns(function: ast.FunctionDef) -> bool:
    return function.name == "__init__" and all(isinstance(line, ast.Assign) for line in function.body)


def test_estimators_has_few_modules():
    assert len([path for path in (SOURCE / "estimators").glob("*.py") if path.name != "__init__.py"]) <= 10


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_functions_are_short(path):
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    long = {node.name: n_lines(node) for node in functions if n_lines(node) > 60 and not only_assigns(node)}
    assert not long


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_settings_are_not_looked_up_by_string(path):
    assert not re.findall(r"\b(?:settings|parameters|config)\[[\"'].*", path.read_text())


def test_treecrf_has_few_parameters():
    assert len(inspect.signature(TreeCRF).parameters) <= 32


def test_the_body_of_fit_is_short():
    tree = ast.parse((SOURCE / "estimators" / "boosted.py").read_text())
    (fit,) = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "fit"]
    assert TreeCRF.fit is BoostedLabeler.fit
    body = fit.body[1:]
    assert body[-1].end_lineno - body[0].lineno + 1 <= 40


class Recorder:
    """Stands in for a kernel, and records the functions of Python that call it, from ``fit`` on."""

    def __init__(self, kernel):
        self.kernel, self.chains = kernel, set()

    def __call__(self, *arguments):
        frame, chain = sys._getframe(1), []
        while frame is not None:
            if not any(part in frame.f_code.co_filename for part in DECORATORS):
                chain.append(frame.f_code.co_qualname)
            if frame.f_code is inspect.unwrap(TreeCRF.fit).__code__:
                self.chains.add(tuple(reversed(chain)))
            frame = frame.f_back
        return self.kernel(*arguments)

    def __getattr__(self, name):
        return getattr(self.kernel, name)


def test_few_calls_lead_from_fit_to_the_kernel_of_trees(monkeypatch):
    # fit, train, held_out, train_once, boost, TreeFitter.fit, SampleGrower.grow, Grower.grow, Grower.advance
    recorder = Recorder(grower.advance)
    monkeypatch.setattr(grower, "advance", recorder)
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(30, 2)) for _ in range(40)]
    TreeCRF(max_iter=2, n_jobs=1).fit(X, [np.clip(1.5 * x[:, 0], 0, 2).astype(int) for x in X])
    assert recorder.chains
    longest = max(recorder.chains, key=len)
    assert len(longest) <= 10, longest
