"""The local page: files, commands and a stream of events, for this machine alone and under a secret address.

It listens on 127.0.0.1, answers only under a random path, and only to requests that name it by a loopback name, so that no other
site's page can reach it under a name of its own.
"""

from __future__ import annotations

import hmac
import json
import queue
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from inkplex_data.errors import InkplexError, OutputError, UsageError
from inkplex_data.soma.app.workshop import Workshop

_HOST: Final = "127.0.0.1"
_FILES: Final = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
}
_POLICY: Final = "default-src 'self'; img-src data:; style-src 'self' 'unsafe-inline'; form-action 'none'; frame-ancestors 'none'"
_MOST_BYTES: Final = 1 << 20
"""Of a command."""
_HEARTBEAT_S: Final = 5.0


class SomaServer(ThreadingHTTPServer):
    """Serves a workshop under `address`."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, workshop: Workshop, port: int) -> None:
        super().__init__((_HOST, port), _Handler)
        self.workshop, self.token = workshop, secrets.token_urlsafe(24)
        self.is_open = True

    @property
    def address(self) -> str:
        """The page's, with its secret."""
        return f"http://{_HOST}:{self.server_port}/{self.token}/"

    @property
    def names(self) -> tuple[str, ...]:
        """What requests may call this host."""
        return (f"{_HOST}:{self.server_port}", f"localhost:{self.server_port}")


@contextmanager
def open_server(folder: Path, port: int = 0) -> Iterator[SomaServer]:
    """A server that is bound and not yet serving; at the end of the block the child process is gone.

    Raises UsageError for a folder that is none, OutputError for a port that is taken.
    """
    if not folder.is_dir():
        raise UsageError(
            "there is no such folder", where=str(folder), next_step="Make it, or name another one."
        )
    workshop = Workshop(folder)
    try:
        server = SomaServer(workshop, port)
    except OSError as error:
        raise OutputError(
            f"port {port} cannot be used: {error.strerror}",
            next_step="Leave --port out, or name another one.",
        ) from error
    with server:
        try:
            yield server
        finally:
            server.is_open = False
            workshop.stop()


class _Handler(BaseHTTPRequestHandler):
    server: SomaServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self._name()
        if name == "events":
            self._stream()
        elif name in _FILES:
            file, kind = _FILES[name]
            self._answer(200, files("inkplex_data.soma.app").joinpath("page", file).read_bytes(), kind)
        else:
            self._refuse()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self._name() != "do" or not length.isdecimal() or len(length) > 9 or int(length) > _MOST_BYTES:
            self._refuse()
            return
        try:
            command = json.loads(self.rfile.read(int(length)))
            if not isinstance(command, dict):
                raise ValueError
            status, body = 200, self.server.workshop.do(command)
        except InkplexError as error:
            status, body = 400, {"fault": str(error)}
        except (ValueError, RecursionError):
            status, body = 400, {"fault": "this is no command"}
        self._answer(status, json.dumps(body).encode(), "application/json")

    def _name(self) -> str | None:
        """What is asked for below the secret path, None for a request that does not know it."""
        parts = self.path.split("/", 2)
        knows = len(parts) == 3 and hmac.compare_digest(parts[1].encode(), self.server.token.encode())
        return parts[2] if knows and self.headers.get("Host") in self.server.names else None

    def _stream(self) -> None:
        self.send_response(200)
        self._headers("text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with self.server.workshop.listening() as told, suppress(OSError):  # the page was closed
            while self.server.is_open:
                try:
                    line = f"data: {json.dumps(told.get(timeout=_HEARTBEAT_S))}\n\n"
                except queue.Empty:
                    line = ": still here\n\n"
                self.wfile.write(line.encode())
                self.wfile.flush()

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self._headers(kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self) -> None:
        self.close_connection = True  # what else it sent is not read
        self._answer(404, b"not found\n", "text/plain")

    def _headers(self, kind: str) -> None:
        for name, value in {
            "Content-Type": kind,
            "Content-Security-Policy": _POLICY,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }.items():
            self.send_header(name, value)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: the secret address would stand in every line."""
