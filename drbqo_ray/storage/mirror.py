"""A copy of a run's journal in an object store (s3://, gs://, or any URI pyarrow.fs knows).

The live journal is always a local file, because object stores can neither append nor flush. A
background thread uploads the whole journal, up to its last finished line, whenever it has grown.

Lag: the copy is behind the local journal by at most the interval (30 seconds by default) plus the
time of one upload, and longer while the store cannot be reached. If the local disk is lost, so are
the records of that lag; a run resumed from the copy evaluates them again. Closing the mirror
uploads the rest.

The lock of a run guards its local directory only. A mirror that finds the copy in the store
changed by another machine stops uploading and says so.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import logging
import os
import re
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from drbqo_ray.errors import InvalidInput, JournalError
from drbqo_ray.storage.directory import (
    RunLock,
    as_journal_error,
    check_run_name,
    make_directory,
    open_private,
)
from drbqo_ray.storage.format import ScanEnd, scan
from drbqo_ray.storage.journal import JOURNAL, TORN

_URI = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
_SECRET = re.compile(r"//[^/@\s]*@|\?\S*")
_RESTORED = "journal.jsonl.restored"
_UPLOAD_CURE = "The local journal is intact; check the network, the address and your credentials."
_logger = logging.getLogger(__name__)


def is_object_store(storage: str | Path) -> bool:
    """Whether `storage` is a URI such as s3://bucket/runs rather than a directory."""
    return isinstance(storage, str) and _URI.fullmatch(storage) is not None


def local_directory(storage: str, name: str) -> Path:
    """Where the live journal of run `name` is kept: one place per URI in the user's cache."""
    check_run_name(name)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = hashlib.sha256(storage.rstrip("/").encode()).hexdigest()[:16]
    return Path(cache) / "drbqo_ray" / place / name


class ObjectStoreMirror:
    """Keeps `storage/name/journal.jsonl` in an object store a copy of the local journal.

    Call `restore` before the journal is opened, `start` after, and `close` after it was closed.

    Args:
        storage: the URI below which runs are kept, e.g. "s3://bucket/runs".
        name: the name of the run.
        directory: the local run directory; `local_directory(storage, name)` when None.
        interval_seconds: pause between two looks at the journal.

    Attributes:
        uri: the address of the copy, without credentials and options.
        last_error: why the last upload in the background failed, None when it did not.
    """

    def __init__(
        self,
        storage: str,
        name: str,
        directory: str | Path | None = None,
        interval_seconds: float = 30.0,
    ) -> None:
        """Connect to the store; nothing is read or written yet."""
        check_run_name(name)
        if not is_object_store(storage):
            raise InvalidInput(
                "An object store is named by a URI.", storage, 'Use e.g. "s3://bucket/runs".'
            )
        if not interval_seconds > 0:
            raise InvalidInput(
                "interval_seconds must be positive.", interval_seconds, "Use e.g. 30."
            )
        base, mark, options = storage.partition("?")
        full_uri = f"{base.rstrip('/')}/{name}/{JOURNAL}{mark}{options}"
        self.uri = _without_secrets(full_uri)
        self.directory = local_directory(storage, name) if directory is None else Path(directory)
        self.interval_seconds = interval_seconds
        self.last_error: str | None = None
        self._stop = threading.Event()
        self._busy = threading.Lock()
        self._thread: threading.Thread | None = None
        self._uploaded: int | None = None
        self._fs, self._object = _connect(full_uri)

    def restore(self) -> int:
        """Bring the local journal up to the copy when it is missing or behind; bytes fetched.

        Raises:
            JournalError: neither journal is a beginning of the other, or the store fails.
            JournalLocked: another process has the local run open.
        """
        with ExitStack() as stack:
            stack.enter_context(self._busy)
            stack.enter_context(as_journal_error(f"restore {self.uri}", _UPLOAD_CURE))
            make_directory(self.directory)
            directory_fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, directory_fd)
            stack.callback(RunLock(directory_fd, self.directory).release)
            remote = self._download()
            content = _content(self.directory / JOURNAL)
            local = _intact(content)
            self._uploaded = len(remote)
            if local.startswith(remote):
                return 0
            if not remote.startswith(local):
                raise JournalError(
                    f"The journals {self.directory / JOURNAL} and {self.uri} differ: each has"
                    " records the other has not. Move one of them away, or choose another name."
                )
            _write(TORN, os.O_APPEND, content[len(local) :], directory_fd)
            _write(_RESTORED, os.O_TRUNC, remote, directory_fd)
            os.rename(_RESTORED, JOURNAL, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
            os.fsync(directory_fd)
            return len(remote) - len(local)

    def start(self) -> None:
        """Upload in the background from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal-mirror", daemon=True)
            self._thread.start()

    def upload(self) -> bool:
        """Upload the journal now if it has grown; whether anything was uploaded.

        Raises:
            JournalError: the store cannot be reached, or another machine wrote to the copy.
        """
        with self._busy, as_journal_error(f"upload to {self.uri}", _UPLOAD_CURE):
            content = _content(self.directory / JOURNAL)
            content = content[: content.rfind(b"\n") + 1]
            if self._uploaded is None:
                self._uploaded = self._remote_size()
            if len(content) == self._uploaded:
                return False
            if self._remote_size() != self._uploaded or len(content) < self._uploaded:
                raise JournalError(
                    f"{self.uri} was changed by another writer. Stop the other run; this one goes"
                    f" on in {self.directory}."
                )
            self._put(content)
            self._uploaded = len(content)
        return True

    def close(self) -> None:
        """Stop the thread and upload what is left; JournalError when that fails."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.upload()

    def _run(self) -> None:
        while not self._stop.wait(self.interval_seconds):
            try:
                self.upload()
                self.last_error = None
            except Exception as error:  # whatever the store raises, the thread lives on
                if self.last_error is None:
                    _logger.warning("%s The upload is tried again every interval.", error)
                self.last_error = str(error)

    def _remote_size(self) -> int:
        return int(self._fs.get_file_info(self._object).size or 0)

    def _download(self) -> bytes:
        if self._remote_size() == 0:
            return b""
        with self._fs.open_input_stream(self._object) as stream:
            return bytes(stream.read())

    def _put(self, content: bytes) -> None:
        """Write beside the copy, then move over it, so that a broken upload harms nothing."""
        self._fs.create_dir(self._object.rpartition("/")[0], recursive=True)
        part = f"{self._object}.part"
        with self._fs.open_output_stream(part) as stream:
            stream.write(content)
        self._fs.move(part, self._object)


def _connect(uri: str) -> tuple[Any, str]:
    try:
        fs = importlib.import_module("pyarrow.fs")
    except ImportError:
        raise JournalError(
            f"Storage at {_without_secrets(uri)} needs pyarrow. Install it, or use a directory."
        ) from None
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (ValueError, OSError) as error:
        message = _without_secrets(f"Cannot use {uri} as storage: {error}. Check the address.")
        raise JournalError(message) from None
    return filesystem, path


def _without_secrets(text: str) -> str:
    return _SECRET.sub(lambda match: "//" if match[0].startswith("//") else "", text)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _intact(content: bytes) -> bytes:
    end = ScanEnd()
    for _ in scan(io.BytesIO(content), end):
        pass
    return content[: end.offset]


def _write(name: str, flag: int, content: bytes, directory_fd: int) -> None:
    if content:
        fd = open_private(name, os.O_WRONLY | os.O_CREAT | flag, directory_fd)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
