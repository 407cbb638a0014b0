"""A small S3 server in this process, whose answers can be made to fail, to lie or to be slow.

It knows what pyarrow asks of a store: buckets, objects, ranges, lists, copies and uploads in parts.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>'


@dataclass
class Faults:
    """What goes wrong from now on.

    Attributes:
        status: an answer such as 500 or 403 to every request, None for the right one.
        code: the error code that goes with it.
        seconds: how long every answer takes.
        after: whether the request is carried out before the wrong answer is given.
        only: which requests fail, by method and key; all by default.
    """

    status: int | None = None
    code: str = "InternalError"
    seconds: float = 0.0
    after: bool = False
    only: Callable[[str, str], bool] = lambda method, key: True


@dataclass
class S3:
    """The server: its address for `storage=`, its objects by key, its faults."""

    port: int
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    requests: int = 0
    has_bucket: bool = True

    @property
    def storage(self) -> str:
        """The address below which runs are kept, with credentials in it."""
        end = f"scheme=http&endpoint_override=127.0.0.1:{self.port}&region=us-east-1"
        return f"s3://key:hunter2@{BUCKET}/runs?{end}"

    def journal(self, name: str = "run") -> bytes:
        """The copy of a run's journal, empty without one."""
        return self.objects.get(f"runs/{name}/journal.jsonl", b"")


@contextmanager
def s3_server() -> Iterator[S3]:
    """A server with an empty bucket for the time of a block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.s3 = S3(server.server_address[1])  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.s3  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        """Nothing is logged."""

    @property
    def s3(self) -> S3:
        return self.server.s3  # type: ignore[attr-defined]

    def _handle(self) -> None:
        body = self._body()
        address = urlsplit(self.path)
        bucket, _, key = unquote(address.path).lstrip("/").partition("/")
        query = {k: v[0] for k, v in parse_qs(address.query, keep_blank_values=True).items()}
        self.s3.requests += 1
        faults = self.s3.faults
        wrong = faults.only(self.command, key)
        if wrong and faults.seconds:
            time.sleep(faults.seconds)
        if wrong and faults.status is not None:
            if faults.after:
                self._answer(bucket, key, query, body)
            self._send(faults.status, _error(faults.code))
            return
        self._send(*self._answer(bucket, key, query, body))

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _handle

    def _answer(
        self, bucket: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        s3 = self.s3
        if bucket != BUCKET or not s3.has_bucket:
            return 404, _error("NoSuchBucket"), {}
        if not key:
            return (200, b"", {}) if self.command != "GET" else (200, self._list(query), {})
        if "uploads" in query or "uploadId" in query:
            return self._in_parts(key, query, body)
        if self.command == "PUT":
            source = self.headers.get("x-amz-copy-source")
            if source is not None:
                found = s3.objects.get(unquote(source).lstrip("/").partition("/")[2])
                if found is None:
                    return 404, _error("NoSuchKey"), {}
                s3.objects[key] = found
                return 200, _xml("CopyObjectResult", f"<ETag>{_etag(found)}</ETag>"), {}
            s3.objects[key] = body
            return 200, b"", {"ETag": _etag(body)}
        if self.command == "DELETE":
            s3.objects.pop(key, None)
            return 204, b"", {}
        if self.command == "POST":
            return 400, _error("NotImplemented"), {}
        return self._get(s3.objects.get(key))

    def _get(self, content: bytes | None) -> tuple[int, bytes, dict[str, str]]:
        if content is None:
            return 404, _error("NoSuchKey"), {}
        headers = {"ETag": _etag(content), "Last-Modified": formatdate(usegmt=True)}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            return 200, content, headers
        first, last = int(asked[1]), min(int(asked[2] or 1 << 60), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return 206, content[first : last + 1], headers

    def _in_parts(
        self, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        uploads = self.s3.uploads
        if "uploads" in query:
            name = f"upload-{len(uploads)}"
            uploads[name] = {}
            inside = f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><UploadId>{name}</UploadId>"
            return 200, _xml("InitiateMultipartUploadResult", inside), {}
        parts = uploads[query["uploadId"]]
        if self.command == "PUT":
            parts[int(query["partNumber"])] = body
            return 200, b"", {"ETag": _etag(body)}
        if self.command == "POST":
            self.s3.objects[key] = b"".join(parts[number] for number in sorted(parts))
            inside = f"<Key>{escape(key)}</Key><ETag>{_etag(self.s3.objects[key])}</ETag>"
            return 200, _xml("CompleteMultipartUploadResult", inside), {}
        return 204, b"", {}

    def _list(self, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most = int(query.get("max-keys", 1000))
        keys, folders = [], set()
        for key in sorted(self.s3.objects):
            rest = key[len(prefix) :]
            if not key.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                keys.append(key)
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.s3.objects[key])}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in keys[:most]
        )
        entries += "".join(
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            for folder in sorted(folders)
        )
        count = len(keys[:most]) + len(folders)
        inside = f"<IsTruncated>false</IsTruncated><KeyCount>{count}</KeyCount>{entries}"
        return _xml("ListBucketResult", inside)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            raw = b"".join(self._chunks())
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return raw
        found, rest = b"", raw
        while rest:
            head, _, rest = rest.partition(b"\r\n")
            size = int(head.partition(b";")[0], 16)
            if size == 0:
                break
            found, rest = found + rest[:size], rest[size + 2 :]
        return found

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().strip() or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _xml(name: str, inside: str) -> bytes:
    return f"{XML_HEAD}<{name}>{inside}</{name}>".encode()


def _error(code: str) -> bytes:
    return _xml("Error", f"<Code>{code}</Code><Message>{code}</Message>")
