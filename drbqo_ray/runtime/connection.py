"""The way to Ray: the connection there is, or a quiet local Ray that ends with the run."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import ray

from drbqo_ray.runtime.cluster_access import connect


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
