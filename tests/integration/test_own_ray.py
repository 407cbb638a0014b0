"""A run that starts a local Ray of its own: quiet, private, and gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import ray

from drbqo_ray.runtime.ray_cluster import ClusterRefused, connection, protect_token
from tests.support.local_ray import ROOT

SCRIPT = """
    import os, subprocess, sys, time, urllib.error, urllib.request
    from contextlib import suppress
    from pathlib import Path
    import psutil
    import drbqo_ray as dr
    from drbqo_ray.runtime.run import run

    def objective(config, fold, seed):
        return config["x"] + fold

    def answers_a_stranger():
        import ray
        address = ray.get_runtime_context().gcs_address
        command = [sys.executable, "-m", "ray.scripts.scripts", "health-check"]
        stranger = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}
        done = subprocess.run([*command, "--address", address], capture_output=True, text=True,
                              env=stranger | {"RAY_AUTH_MODE": "disabled"})
        return done.returncode == 0 or "InvalidAuthToken" not in done.stderr

    def web_ports():
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                board = any(word.endswith("dashboard.py") for word in child.cmdline())
                web = board or child.name().endswith("Agent")
                for port in child.net_connections() if web else ():
                    if port.status == "LISTEN":
                        yield child.name(), f"http://{port.laddr.ip}:{port.laddr.port}/anything"

    def status(url, headers):
        request = urllib.request.Request(url, data=b"", headers=headers)
        try:
            return urllib.request.urlopen(request, timeout=60).status
        except urllib.error.HTTPError as error:
            return error.code

    class Look:
        def on_observation(self, observation):
            if observation.id > 0:
                return
            token = Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text()
            children = psutil.Process().children(recursive=True)
            words = [word for child in children for word in child.cmdline()]
            print("token on a command line:", any(token in word for word in words))
            print("Ray answers without a token:", answers_a_stranger())
            while not (ports := list(web_ports())):  # Ray may still be starting its agents
                time.sleep(0.1)
            for name, url in ports:
                wrong = {"Authorization": "Bearer wrong"}
                print(name, status(url, {}), status(url, wrong))

    if __name__ == "__main__":
        result = run(objective, {"x": dr.Float(0, 1)}, 2, n_evaluations=3, method="random",
                     storage="run", progress=False, max_in_flight=2, callbacks=[Look()])
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
        cwd=tmp_path,
        env={**own, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), **secret},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "token on a command line: False",
        "Ray answers without a token: False",
        "ray::RuntimeEnvAgent 401 403",
        "3 finished",
    ]
    token = tmp_path / ".ray" / "auth_token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert len(token.read_text()) == 64
    for path in (tmp_path / "run").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        content = path.read_text()
        assert canary not in content
        assert token.read_text() not in content
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


@pytest.fixture
def token(tmp_path, monkeypatch) -> Path:
    """Where Ray looks for its token."""
    path = tmp_path / "ray" / "auth_token"
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
    return path


@pytest.mark.parametrize("make", [True, False])
def test_a_readable_token_is_made_private(token, make):
    token.parent.mkdir()
    token.write_text("0" * 64)
    token.chmod(0o644)
    protect_token(make)
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text() == "0" * 64


def test_a_token_is_made_for_a_ray_of_our_own_only(token):
    protect_token(make=False)
    assert not token.exists()
    protect_token()
    assert token.stat().st_mode & 0o777 == 0o600
    assert len(token.read_text()) == 64


def test_a_cluster_that_is_not_known_to_be_safe_is_not_joined(token, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ClusterRefused, match=r"call ray\.init"), connection():
        pass
    assert not ray.is_initialized()
