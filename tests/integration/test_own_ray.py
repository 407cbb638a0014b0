"""A run that starts a local Ray of its own: quiet, private, and gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from drbqo_ray.cluster.connection import protect_token
from tests.local_ray import ROOT

SCRIPT = """
    import os, sys
    import drbqo_ray as dr
    from drbqo_ray.cluster.runner import run

    def objective(config, fold, seed):
        return config["x"] + fold

    if __name__ == "__main__":
        result = run(objective, {"x": dr.Float(0, 1)}, 2, n_evaluations=3, method="random",
                     storage="run", progress=False, max_in_flight=2)
        import ray
        assert not ray.is_initialized()
        print(len(result.observations), result.stopped)
"""


def test_a_script_without_ray_gets_a_quiet_local_one_that_keeps_its_secrets(tmp_path):
    canary = "canary-5f3a91"
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / ".ray").mkdir(mode=0o755)
    own = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    secret = {"MY_API_KEY": canary, "RAY_AUTH_TOKEN_PATH": str(tmp_path / ".ray" / "auth_token")}
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path, env={**own, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), **secret},
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3 finished\n"
    assert done.stderr == ""
    token = tmp_path / ".ray" / "auth_token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert len(token.read_text()) == 64
    for path in (tmp_path / "run").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        content = path.read_text()
        assert canary not in content
        assert token.read_text() not in content
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


def test_a_readable_token_is_made_private(tmp_path, monkeypatch):
    token = tmp_path / "auth_token"
    token.write_text("0" * 64)
    token.chmod(0o644)
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    protect_token()
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text() == "0" * 64
