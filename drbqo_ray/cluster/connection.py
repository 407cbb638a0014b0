"""The way to Ray: the connection there is, or a quiet local Ray that ends with the run."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import ray


@contextmanager
def connection() -> Iterator[bool]:
    """Connect to Ray for the time of the block; True when it is a local Ray started here.

    An existing connection is used and left open. Else the cluster that RAY_ADDRESS names is
    joined; without that variable a local Ray is started, without dashboard and usage statistics,
    and shut down again. After a second Ctrl-C that would take too long: it ends with the process.
    """
    if ray.is_initialized():
        yield False
        return
    address = os.environ.get("RAY_ADDRESS")
    protect_token()
    with _usage_statistics_off():
        if address:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        else:
            ray.init(
                address="local",
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    try:
        yield not address
    except KeyboardInterrupt:
        raise
    except BaseException:
        ray.shutdown()
        raise
    else:
        ray.shutdown()


def protect_token() -> None:
    """See to it that Ray's access token, which lets its reader run code, is ours alone to read.

    Ray makes the file readable for every local user. It is made here first, or its mode is mended.
    """
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_MODE", "token") != "token":
        return
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
            return
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
