"""The pages of the documentation: their code runs, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
PRINTED = {  # by pages whose output is worth a look
    "data": r"\('Cap', .*\)\n\('x0', 'x1'\)\n\['rest' 'rest' 'run' 'run'\]\n\['N' 'V'\] 1.0\n\[1.]\n.*\n"
    r"(\[1. 1. 1.]\n){3}\[1. 1. 1.] \[1. 1. 1.]\n\['order']\n",
    "family": r"labeller.*\n(.*\n){6}01010\n\(10, 15\).*\n[01]\.\d+\n",
    "training": r"(\{'potentials': .*\n){2,}\[]\n\{'learning_rate': .*} Method\(.*\)\n\d+\n.*\n1 .*\n20 .*\n",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_of_a_page_runs(page, capsys, tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    if page.stem in PRINTED:
        assert re.fullmatch(PRINTED[page.stem], capsys.readouterr().out)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"
