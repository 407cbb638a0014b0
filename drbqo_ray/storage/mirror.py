"""A copy of a run's journal in an object store (s3://, gs://, or any URI pyarrow.fs knows).

The live journal is always a local file, because object stores can neither append nor flush. A
background thread uploads the whole journal, up to its last finished line, whenever it has grown.

Lag: the copy is behind the local journal by at most the interval (30 seconds by default) plus the
time of one upload, and longer while the store cannot be reached. If the local disk is lost, so are
the records of that lag; a run resumed from the copy evaluates them again.

A store that fails never fails the run: uploads are tried again, `trouble` says why they fail, and
closing the mirror says which records the copy lacks.

The lock of a run guards its local directory only. So the copy has to be a beginning of the local
journal before it is replaced: all of it is compared for the first upload of a process, its end for
every later one. A copy that another machine has written is left alone.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import re
import threading
import time
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

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
_OPEN_OPTIONS = ("region", "scheme", "endpoint_override", "tls_verify_certificates")
"""Options of an address that may be shown; all others may hold credentials."""
_RESTORED = "journal.jsonl.restored"
_UPLOAD_CURE = "The local journal is intact; check the network, the address and your credentials."
CLOSING_SECONDS = 20.0
"""How long the rest is tried to be uploaded when a run has stopped."""
_RETRY_SECONDS = 1.0
_TAIL = 1 << 16


class ForeignCopy(JournalError):
    """The copy holds records that the local journal has not: another machine has written it."""


def is_object_store(storage: str | Path) -> bool:
    """Whether `storage` is a URI such as s3://bucket/runs rather than a directory."""
    return isinstance(storage, str) and _URI.fullmatch(storage) is not None


def local_directory(storage: str, name: str) -> Path:
    """Where the live journal of run `name` is kept: one place per URI in the user's cache."""
    check_run_name(name)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = hashlib.sha256(storage.rstrip("/").encode()).hexdigest()[:16]
    return Path(cache) / "drbqo_ray" / place / name


def address_of(storage: str, name: str = "") -> str:
    """The address of run `name` below a URI, without credentials, as a user may pass it again."""
    base, _, options = storage.partition("?")
    shown = [(key, value) for key, value in parse_qsl(options) if key in _OPEN_OPTIONS]
    address = _without_secrets(base.rstrip("/")) + (f"/{name}" if name else "")
    return address + (f"?{urlencode(shown, safe=':/')}" if shown else "")


def own_address(address: str) -> tuple[str, str] | None:
    """Storage and name of the run that an address may be itself, None when it cannot be one."""
    base, mark, options = address.partition("?")
    storage, _, name = base.rstrip("/").rpartition("/")
    try:
        check_run_name(name)
    except InvalidInput:
        return None
    return (f"{storage}{mark}{options}", name) if is_object_store(storage) else None


def stored_names(storage: str) -> list[str]:
    """Names of the runs that have a copy in an object store, in order.

    Raises:
        JournalError: the store cannot be read.
    """
    base, mark, options = storage.partition("?")
    fs, root = _connect(f"{base.rstrip('/')}{mark}{options}")
    with as_journal_error(f"list {_without_secrets(storage)}", _UPLOAD_CURE):
        selector = importlib.import_module("pyarrow.fs").FileSelector(root, recursive=True)
        paths = [found.path for found in fs.get_file_info(selector)]
    inside = (path.removeprefix(root.rstrip("/") + "/").split("/") for path in paths)
    return sorted(parts[0] for parts in inside if len(parts) == 2 and parts[1] == JOURNAL)


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
        trouble: why the last upload in the background failed, None when it did not.
    """

    def __init__(
        self,
        storage: str,
        name: str,
        directory: str | Path | None = None,
        interval_seconds: float = 30.0,
    ) -> None:
        """Nothing is connected to, read or written yet."""
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
        self._full_uri = f"{base.rstrip('/')}/{name}/{JOURNAL}{mark}{options}"
        self.uri = _without_secrets(self._full_uri)
        self.directory = local_directory(storage, name) if directory is None else Path(directory)
        self.interval_seconds = interval_seconds
        self.trouble: str | None = None
        self._stop = threading.Event()
        self._busy = threading.Lock()
        self._thread: threading.Thread | None = None
        self._uploaded: int | None = None
        self._compared = False
        self._store: tuple[Any, str] | None = None

    def exists(self) -> bool:
        """Whether there is a copy; JournalError when the store cannot be reached."""
        with as_journal_error(f"look for {self.uri}", _UPLOAD_CURE):
            return self._remote_size() > 0

    def look(self) -> str | None:
        """What the copy lacks now, see `missing`; JournalError when the store cannot be reached."""
        with as_journal_error(f"look for {self.uri}", _UPLOAD_CURE):
            self._uploaded = self._remote_size()
        return self.missing()

    def restore(self) -> int:
        """Bring the local journal up to the copy when it is missing or behind; bytes fetched.

        Raises:
            JournalError: neither journal is a beginning of the other, or the store fails.
            JournalLocked: another process has the local run open.
        """
        with ExitStack() as stack:
            stack.enter_context(self._busy)
            stack.enter_context(as_journal_error(f"restore {self.uri}", _UPLOAD_CURE))
            remote = self._download(self._remote_size())
            if not remote and not self.directory.exists():
                self._uploaded = 0
                return 0
            make_directory(self.directory)
            directory_fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, directory_fd)
            stack.callback(RunLock(directory_fd, self.directory).release)
            content = _content(self.directory / JOURNAL)
            local = _intact(content)
            if not (local.startswith(remote) or remote.startswith(local)):
                raise ForeignCopy(
                    f"The journals {self.directory / JOURNAL} and {self.uri} differ: each has"
                    " records the other has not. Move one of them away, or choose another name."
                )
            self._uploaded = len(remote)
            if local.startswith(remote):
                return 0
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
            ForeignCopy: another machine wrote to the copy, which is left as it is.
            JournalError: the store cannot be reached.
        """
        with self._busy, as_journal_error(f"upload to {self.uri}", _UPLOAD_CURE):
            content = self._finished_lines()
            if len(content) == self._uploaded:
                return False
            size = self._remote_size()
            if not self._is_beginning(size, content):
                raise ForeignCopy(
                    f"{self.uri} was changed by another writer and is left as it is. Stop the other"
                    f" run; this one goes on in {self.directory}."
                )
            self._compared, self._uploaded = True, size
            if size == len(content):
                return False
            self._put(content)
            self._uploaded = len(content)
        return True

    def missing(self) -> str | None:
        """What the copy lacks as far as is known here, as a sentence; None when it is whole."""
        content, known = self._finished_lines(), self._uploaded
        if known is not None and known >= len(content):
            return None
        total = content.count(b"\n")
        if known is None:
            text = f"It is not known which of the {total} records of the journal are in {self.uri}"
        else:
            left = total - content.count(b"\n", 0, known)
            text = f"{left} of {total} records of the journal are not known to be in {self.uri}"
        return f"{text}. {self.trouble or 'They were not uploaded yet.'}"

    def stop(self) -> None:
        """Let the thread, if there is one, try once more and end; nobody waits for it."""
        self._stop.set()

    def close(self) -> str | None:
        """Upload what is left, trying for a while; says what is missing after that."""
        self._stop.set()
        deadline = time.monotonic() + CLOSING_SECONDS
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)
            if self._thread.is_alive():
                self.trouble = self.trouble or "The store does not answer."
                return self.missing()
            self._thread = None
        while not self._tried() and time.monotonic() < deadline:
            time.sleep(_RETRY_SECONDS)
        return self.missing()

    def _run(self) -> None:
        while True:
            self._tried()
            if self._stop.wait(self.interval_seconds):
                break
        self._tried()

    def _tried(self) -> bool:
        """Upload; False when that is worth another try. Whatever the store raises is kept."""
        try:
            self.upload()
            self.trouble = None
        except ForeignCopy as error:
            self.trouble = str(error)
        except Exception as error:
            self.trouble = str(error)
            self._store = None  # connect anew, with credentials that may have been renewed
            return False
        return True

    def _connected(self) -> tuple[Any, str]:
        if self._store is None:
            self._store = _connect(self._full_uri)
        return self._store

    def _finished_lines(self) -> bytes:
        content = _content(self.directory / JOURNAL)
        return content[: content.rfind(b"\n") + 1]

    def _is_beginning(self, size: int, content: bytes) -> bool:
        """Whether the copy of `size` bytes is what `content` begins with."""
        if size > len(content):
            return False
        start = max(size - _TAIL, 0) if self._compared else 0
        return self._download(size, start) == content[start:size]

    def _remote_size(self) -> int:
        fs, path = self._connected()
        return int(fs.get_file_info(path).size or 0)

    def _download(self, size: int, start: int = 0) -> bytes:
        """The bytes of the copy, which has `size`, from `start` on."""
        if size == 0:
            return b""
        fs, path = self._connected()
        with fs.open_input_file(path) as file:
            file.seek(start)
            return bytes(file.read())

    def _put(self, content: bytes) -> None:
        """Write next to the copy, then move over it, so that a broken upload harms nothing."""
        fs, path = self._connected()
        fs.create_dir(path.rpartition("/")[0], recursive=True)
        part = f"{path}.{uuid.uuid4().hex[:8]}.part"
        try:
            with fs.open_output_stream(part) as stream:
                stream.write(content)
            fs.move(part, path)
        except Exception:
            with suppress(Exception):
                fs.delete_file(part)
            raise


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
