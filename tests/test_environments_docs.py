"""The code of docs/environments.md runs as one script and prints what the page says it does."""

from __future__ import annotations

import re

from tests.support.local_ray import ROOT
from tests.support.scripts import run_script

PAGE = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_python_code_runs_from_top_to_bottom(tmp_path):
    script = tmp_path / "environments.py"
    script.write_text("\n".join(BLOCKS))
    forecast, names, numbers = run_script(script, tmp_path).splitlines()
    assert re.match(r"expect \S+ in a new environment like these 5, \S+ to \S+ \(95 %\)$", forecast)
    assert names == "('Cleveland', 'Hungary', 'Switzerland')"
    assert re.match(r"-?[\d.]+ \(-?[\d.]+, -?[\d.]+\)$", numbers)
