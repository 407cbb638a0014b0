"""Joining a Ray cluster that is already there, with a token or not at all.

Whoever can reach an open cluster can run code on it. So a cluster is joined only when this process
holds a token and the cluster turns away callers without one; `insecure=True` waives both. The
command line and `run` go by the same rule; a connection that the user has made is not questioned.
Where the token comes from is Ray's business: RAY_AUTH_TOKEN, then the file RAY_AUTH_TOKEN_PATH,
then ~/.ray/auth_token, with RAY_AUTH_MODE=token. It is never read, copied or printed here.
A local Ray that is started here is quiet, and ends with the run.
"""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import ray

from drbqo_ray.errors import DrbqoError, InvalidInput

PROBE_SECONDS = 90
_NO_TOKEN = "InvalidAuthToken"
_TOKEN_VARIABLES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_WAIVER = (
    "on a network you trust pass --insecure on the command line, or call ray.init(address=...)"
    " yourself in Python."
)


@contextmanager
def connection() -> Iterator[bool]:
    """Connect to Ray for the time of the block; True when it is a local Ray started here.

    An existing connection is used and left open. Else the cluster that RAY_ADDRESS names is
    joined, if it asks for a token and we hold it; without that variable a local Ray is started,
    without dashboard and usage statistics, and shut down again. After a second Ctrl-C that would
    take too long: it ends with the process.

    Raises:
        ClusterRefused: the cluster cannot be reached, or joining it would not be safe. Whoever
            wants to join it all the same calls `ray.init(address=...)` first.
    """
    if ray.is_initialized():
        yield False
        return
    address = os.environ.get("RAY_ADDRESS")
    local = address in (None, "", "local")
    protect_token(make=local)
    with _usage_statistics_off():
        if address and not local:
            connect(address)
        else:
            ray.init(
                address="local",
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    try:
        yield local
    except KeyboardInterrupt:
        raise
    except BaseException:
        ray.shutdown()
        raise
    else:
        ray.shutdown()


def protect_token(make: bool = True) -> None:
    """See to it that Ray's access token, which lets its reader run code, is ours alone to read.

    Ray makes the file readable for every local user. It is made here first, or its mode is fixed.

    Args:
        make: whether a missing token is made, for a Ray that is about to be started.
    """
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_MODE", "token") != "token":
        return
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    with suppress(OSError):
        if path.exists():
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
            return
        if not make:
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_hex(32))


@contextmanager
def _usage_statistics_off() -> Iterator[None]:
    name = "RAY_USAGE_STATS_ENABLED"
    before = os.environ.get(name)
    os.environ[name] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


class ClusterRefused(DrbqoError):
    """The cluster cannot be reached, or joining it would not be safe."""


def connect(address: str, insecure: bool = False) -> None:
    """Connect this process to the cluster at `address`; start nothing.

    Args:
        address: "auto" for the cluster this machine is part of, or "host:port" of its head.
        insecure: join a cluster without token authentication, too.

    Raises:
        InvalidInput: the address cannot be used.
        ClusterRefused: there is no token, the cluster asks for none, or it does not answer.
    """
    if "://" in address or address in ("", "local"):
        raise InvalidInput(
            'The address must be "auto" or the "host:port" of the head node.',
            address,
            "Run the command on a node of the cluster, or submit it with `ray job submit`.",
        )
    if not insecure:
        check_token(address, os.environ)
        check_cluster(address)
    reason = _probe(address, os.environ)
    if reason is not None:
        raise ClusterRefused(_unreachable(address, reason))
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterRefused(_unreachable(address, error)) from None


def check_token(address: str, environment: Mapping[str, str]) -> None:
    """Raise ClusterRefused unless Ray will find a token and send it."""
    mode = environment.get("RAY_AUTH_MODE", "").lower()
    # For "auto" Ray turns token authentication on by itself when it finds a token.
    wanted = mode == "token" or (mode == "" and address == "auto")
    if wanted and _has_token(environment):
        return
    raise ClusterRefused(
        "An existing cluster is joined with token authentication only: without it, whoever reaches"
        " the cluster can run code on it. Set RAY_AUTH_MODE=token and put the cluster's token into"
        f" ~/.ray/auth_token or RAY_AUTH_TOKEN_PATH; {_WAIVER}"
    )


def check_cluster(address: str) -> None:
    """Raise ClusterRefused unless the cluster turns away a caller without a token."""
    stranger = {k: v for k, v in os.environ.items() if k not in _TOKEN_VARIABLES}
    reason = _probe(address, stranger | {"RAY_AUTH_MODE": "disabled"})
    if reason is None:
        raise ClusterRefused(
            f"The cluster at {address} answers callers without a token, so whoever reaches it can"
            f" run code on it. Start it with RAY_AUTH_MODE=token on every node; {_WAIVER}"
        )
    if _NO_TOKEN not in reason:
        raise ClusterRefused(_unreachable(address, reason))


def _probe(address: str, environment: Mapping[str, str]) -> str | None:
    """Why the cluster does not answer a process with this environment, None when it does."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check"]
    command += [] if address == "auto" else ["--address", address]
    try:
        probe = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PROBE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return "no answer"
    if probe.returncode == 0:
        return None
    if _NO_TOKEN in probe.stderr:
        return f"{_NO_TOKEN}, the token is missing or wrong"
    return (probe.stderr.strip().splitlines() or ["no answer"])[-1]


def _has_token(environment: Mapping[str, str]) -> bool:
    if environment.get("RAY_AUTH_TOKEN"):
        return True
    path = environment.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token"
    try:
        return os.stat(path).st_size > 0
    except (OSError, ValueError):
        return False


def _unreachable(address: str, reason: object) -> str:
    return (
        f"Cannot connect to a Ray cluster at {address}: {reason}. Check that it runs, that this"
        " machine is one of its nodes, and that the token is the cluster's."
    )
