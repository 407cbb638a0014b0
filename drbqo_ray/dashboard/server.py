"""The server of the dashboard: who may ask, and for what.

| request                  | answer                                                            |
|--------------------------|-------------------------------------------------------------------|
| GET /                    | the page, with /page.css and /page.js                             |
| GET /api/runs            | all runs as JSON; 304 when nothing has changed                    |
| GET /api/compare?run=ID  | some runs beside each other as JSON                               |
| GET /run/ID/             | the report of a run; /run/ID/version changes when it does         |

A run is named by an id that is looked up among those found, so no request names a file. Nothing can
be changed through the server. It listens on this machine alone unless told otherwise, and then asks
for a token, once in the address and afterwards in a cookie. A request is refused when its Host is
none of ours, so that no page on the web can reach the dashboard by giving its own name this
address, or when another site's page sends it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import secrets
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from drbqo_ray.dashboard.shelf import Shelf
from drbqo_ray.errors import DrbqoError, InvalidInput

LOOPBACK = "127.0.0.1"
COOKIE = "drbqo-token"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
    " img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HTML, CSS, JS = (f"text/{kind}; charset=utf-8" for kind in ("html", "css", "javascript"))
JSON, TEXT = "application/json", "text/plain; charset=utf-8"
FILES = {"/": ("page.html", HTML), "/page.css": ("page.css", CSS), "/page.js": ("page.js", JS)}


@dataclass(frozen=True)
class Answer:
    """Status, content type, body and further headers."""

    status: HTTPStatus
    kind: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def text(status: HTTPStatus, words: str) -> Answer:
    """An answer in plain words."""
    return Answer(status, TEXT, f"{words}\n".encode("utf-8", "backslashreplace"))


class Dashboard:
    """Serves the runs of a folder from a thread of its own.

    Args:
        storage: a folder, or the address of an object store.
        host: where to listen; any address but this machine's own needs a token.
        port: where to listen; 0 for any free port.
        token: what whoever asks has to know; made up by default where one is needed.
    """

    def __init__(
        self, storage: str | Path, host: str = LOOPBACK, port: int = 0, token: str | None = None
    ) -> None:
        local = host == "localhost" or _is_loopback(host)
        self.token = token if token or local else secrets.token_urlsafe(24)
        self.host = host
        try:
            self._server = _server_class(host)((host, port), _handler(self))
        except (OSError, OverflowError, UnicodeError) as error:
            raise InvalidInput(
                f"Host and port must be free and this machine's own: {error}.",
                f"{host}:{port}",
                "Choose another --port or --host.",
            ) from None
        self.shelf = Shelf(storage)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where the server listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Address of the page, with the token if there is one."""
        anywhere = self.host in ("0.0.0.0", "::", "")
        name = socket.gethostname() if anywhere else self.host
        name = f"[{name}]" if ":" in name else name
        return f"http://{name}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def close(self) -> None:
        """Stop listening, and working in the background."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.shelf.close()

    def answer(self, target: str, headers: Mapping[str, str]) -> Answer:
        """The answer to a GET request."""
        refused = self._refusal(headers)
        if refused is not None:
            return text(HTTPStatus.FORBIDDEN, refused)
        parts = urlsplit(target)
        asked = parse_qs(parts.query)
        if self.token is not None:
            given = asked.get("token", [""])[0]
            if given and _same(given, self.token):
                cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                place = parts.path if parts.path.startswith("/run/") else "/"
                away = {"Location": place, "Set-Cookie": cookie}
                return Answer(HTTPStatus.SEE_OTHER, TEXT, b"", away)
            if not self._knows(headers):
                return text(HTTPStatus.UNAUTHORIZED, "Open the address with the token in it.")
        try:
            return self._content(parts.path, asked, headers.get("If-None-Match"))
        except LookupError:
            return text(HTTPStatus.NOT_FOUND, "not found")
        except InvalidInput as error:
            return text(HTTPStatus.BAD_REQUEST, str(error))
        except (DrbqoError, OSError) as error:
            return text(HTTPStatus.INTERNAL_SERVER_ERROR, f"This cannot be shown: {error}")

    def _content(self, path: str, asked: Mapping[str, list[str]], known: str | None) -> Answer:
        if path in FILES:
            name, kind = FILES[path]
            body = files("drbqo_ray.dashboard").joinpath(name).read_bytes()
            return Answer(HTTPStatus.OK, kind, body, {"Content-Security-Policy": POLICY})
        if path == "/api/runs":
            return _json(self.shelf.listing(), known, leave_out="age_seconds")
        if path == "/api/compare":
            return _json(self.shelf.comparison(asked.get("run", [])), known)
        match path.split("/"):
            case ["", "run", id, ""]:
                return Answer(HTTPStatus.OK, HTML, self.shelf.page(id))
            case ["", "run", id, "version"]:
                return Answer(HTTPStatus.OK, TEXT, self.shelf.version(id).encode("ascii"))
        raise LookupError(path)

    def _refusal(self, headers: Mapping[str, str]) -> str | None:
        """Why a request is not for us, None when it is."""
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if not self._is_ours(host):
            return "wrong host"
        if origin is not None and origin != f"http://{host}":
            return "wrong origin"
        foreign = headers.get("Sec-Fetch-Site") == "cross-site"
        if foreign and headers.get("Sec-Fetch-Mode") != "navigate":
            return "wrong origin"
        return None

    def _is_ours(self, host: str) -> bool:
        name, _, port = host.rpartition(":")
        if port != str(self.port):
            return False
        if name in (LOOPBACK, "localhost", "[::1]", self.host, f"[{self.host}]"):
            return True
        if self.token is None:
            return False
        return name in (socket.gethostname(), socket.getfqdn()) or _is_address(name.strip("[]"))

    def _knows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request carries the token, in its cookie or as its bearer."""
        assert self.token is not None
        try:
            cookie = SimpleCookie(headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        bearer = headers.get("Authorization", "").removeprefix("Bearer ")
        given = bearer if cookie is None else cookie.value
        return _same(given, self.token)


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8"))


def _json(plain: dict[str, Any], known: str | None, leave_out: str = "") -> Answer:
    """Plain data as JSON, or nothing when the asker has it; `leave_out` changes with time alone."""
    for run in plain["runs"]:
        run.pop(leave_out, None)
    body = json.dumps(plain, default=str).encode("ascii")
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    if known == tag:
        return Answer(HTTPStatus.NOT_MODIFIED, JSON, b"", {"ETag": tag})
    return Answer(HTTPStatus.OK, JSON, body, {"ETag": tag})


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _server_class(host: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        """Answers each request in a thread of its own."""

        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    return Server


def _handler(dashboard: Dashboard) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET and nothing else."""

        timeout = 30.0

        def do_GET(self) -> None:
            """Answer one request."""
            answer = dashboard.answer(self.path, {k.title(): v for k, v in self.headers.items()})
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("X-Frame-Options", "DENY")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def version_string(self) -> str:
            """Name no versions."""
            return "drbqo"

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler
