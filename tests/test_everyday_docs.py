"""The code of docs/everyday.md runs as one script, and the commands it names exist."""

from __future__ import annotations

import re

from drbqo_ray.cli.main import cli
from tests.support.local_ray import ROOT
from tests.support.scripts import run_script

PAGE = (ROOT / "docs" / "everyday.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_python_code_runs_from_top_to_bottom(tmp_path):
    script = tmp_path / "everyday.py"
    script.write_text("\n".join(code for kind, code in BLOCKS if kind == "python"))
    lines = run_script(script, tmp_path).splitlines()
    assert lines[0].startswith("first-1 finished 12 12 ")
    assert lines[-1] == "18"
    assert (tmp_path / "first.html").exists()
    assert list((tmp_path / "board").glob("config-*"))


def test_the_commands_exist_with_their_options():
    lines = [line for kind, block in BLOCKS if kind == "" for line in block.splitlines()]
    commands = [line.split()[1:] for line in lines if line.startswith("drbqo ")]
    named = {words[0] for words in commands}
    assert {"list", "status", "export", "compare", "dashboard", "run"} == named
    for name, *arguments in commands:
        cli.commands[name].make_context(name, arguments)
