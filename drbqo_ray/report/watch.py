"""The page of a run that goes on, served to this machine alone.

The server listens on 127.0.0.1 and answers only requests that name it as localhost or 127.0.0.1,
so that no page on the web can read the report by giving its own name this address.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any

from drbqo_ray.errors import DrbqoError, InvalidInput

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")
RESTS = 9.0
"""How many times as long as a page took to make it is shown, so that a run is not held up."""


class PageServer:
    """Serves one page at `/` and its version at `/version`, from a thread of its own.

    Args:
        version: a word that changes whenever the page does; cheap to ask for.
        page: the page of a version.
        port: where to listen; 0 for any free port.
    """

    def __init__(
        self, version: Callable[[], str], page: Callable[[str], str], port: int = 0
    ) -> None:
        self._version = version
        self._page = page
        self._made: tuple[str, bytes] | None = None
        self._rest_until = 0.0
        self._making = threading.Lock()
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), _handler(self))
        except (OSError, OverflowError) as error:
            raise InvalidInput(
                f"The port must be free: {error}.", port, "Choose another --port, or none."
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where the server listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{LOOPBACK}:{self.port}/"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def welcomes(self, host: str | None) -> bool:
        """Whether a request with this Host header is for us."""
        return host in {f"{name}:{self.port}" for name in NAMES}

    def answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Status, content type and body of the answer to a request."""
        if path not in ("/", "/version"):
            return HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"not found\n"
        try:
            version = self._offered()
            if path == "/version":
                return HTTPStatus.OK, "text/plain; charset=utf-8", version.encode("utf-8")
            return HTTPStatus.OK, "text/html; charset=utf-8", self._current(version)
        except (DrbqoError, OSError) as error:
            words = f"The report cannot be made: {error}\n"
            body = words.encode("utf-8", "backslashreplace")
            return HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", body

    def _offered(self) -> str:
        """The newest version, or the one at hand while making pages rests."""
        if self._made is not None and monotonic() < self._rest_until:
            return self._made[0]
        return self._version()

    def _current(self, version: str) -> bytes:
        with self._making:
            if self._made is None or self._made[0] != version:
                start = monotonic()
                self._made = (version, self._page(version).encode("utf-8"))
                end = monotonic()
                self._rest_until = end + RESTS * (end - start)
            return self._made[1]


def _handler(server: PageServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET and nothing else."""

        def do_GET(self) -> None:
            """Answer one request."""
            if not server.welcomes(self.headers.get("Host")):
                self._send(HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", b"wrong host\n")
                return
            self._send(*server.answer(self.path.partition("?")[0]))

        def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("X-Frame-Options", "DENY")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler
