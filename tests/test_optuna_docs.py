"""The code of docs/optuna.md runs from its first block to its last."""

from __future__ import annotations

import re

import pytest

from tests.support.local_ray import ROOT
from tests.support.scripts import run_script

pytest.importorskip("optuna", reason="needs the extra: pip install 'drbqo_ray[optuna]'")

PAGE = (ROOT / "docs" / "optuna.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_code_of_the_page_runs(tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(BLOCKS), encoding="utf-8")
    printed = run_script(script, tmp_path).splitlines()
    assert len(BLOCKS) == 5
    assert printed[0].startswith("{'C': ")
    assert printed[1].startswith("Certainty(probability=")
    config, folds = re.fullmatch(r"(\{.*\}) (\d+)", printed[2]).groups()
    assert "gamma" in config
    assert 20 <= int(folds) < 100
    assert 0.9 < float(printed[3]) < 1
    assert (tmp_path / "study.html").exists()
