"""A proxy on this machine in front of an engine: what passes through it is the clients' and the engine's alone, and noted.

Requests and answers go through byte by byte, headers with keys among them; of these nothing is kept. Answers are passed on
as they arrive, and written as recordings when they have ended.
"""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from inkplex_data.errors import InkplexError, UsageError
from inkplex_data.memory.record.anthropic_dialect import AnthropicDialect
from inkplex_data.memory.record.chat_dialect import ChatDialect
from inkplex_data.memory.record.engine_exchange import Dialect, Exchange
from inkplex_data.memory.record.event_stream import EventStream, json_object
from inkplex_data.memory.record.proxy_sessions import ProxySession, ProxySessions

HOST: Final = "127.0.0.1"
DIALECTS: Final[dict[str, Dialect]] = {"/chat/completions": ChatDialect(), "/messages": AnthropicDialect()}
NAMING: Final = "/chat/completions"
"""Where vLLM names its tokens when it is asked to; other engines may refuse a field that they do not know."""
SESSION_HEADER: Final = "X-Session-Id"
MOST_BODY_BYTES: Final = 256 << 20
_SESSION_PATH: Final = re.compile(r"/sessions/([\w.-]{1,80})(/.*)")
_TIMEOUT_S: Final = 3_600
"""How long an engine may think before its first token, and between two."""
_PROBE_S: Final = 5
_OWN: Final = frozenset(
    (
        "connection",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        # So that answers can be read.
        "accept-encoding",
        SESSION_HEADER.lower(),
    )
)
"""Headers of one connection, which a proxy does not pass on (RFC 9110, 7.6.1), and those that are for the proxy."""


def engine_url(url: str) -> SplitResult:
    """Raises UsageError for a URL that is no engine's."""
    found = urlsplit(url)
    try:
        is_url = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise UsageError(
            f"{url!r} is not the address of an engine",
            next_step="Give it with its scheme, for example http://127.0.0.1:8000.",
        )
    return found


def without_secrets(url: SplitResult) -> str:
    """The address as recordings name it: no name and password, no query."""
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    return f"{url.scheme}://{host}" + (f":{url.port}" if url.port else "")


class EngineProxy(ThreadingHTTPServer):
    """Listens on 127.0.0.1 at `port` (0: any free one), forwards to `engine`, and tells `sessions` what passed."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, engine: SplitResult, sessions: ProxySessions, *, port: int = 0) -> None:
        """Raises UsageError where the port is taken."""
        self.engine, self.sessions = engine, sessions
        self.open_sockets: set[socket.socket] = set()
        self._names_tokens: bool | None = None
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be had ({error.strerror or error})", next_step="Give --port another one."
            ) from error

    def names_tokens(self) -> bool:
        """Whether the engine is vLLM, which has its version at a place of its own; asked until it answers."""
        if self._names_tokens is not None:
            return self._names_tokens
        kind = HTTPSConnection if self.engine.scheme == "https" else HTTPConnection
        with closing(kind(self.engine.hostname or "", self.engine.port, timeout=_PROBE_S)) as connection:
            try:
                connection.request("GET", "/version")
                response = connection.getresponse()
                found = json_object(response.read(1 << 16))
            except (OSError, HTTPException):
                return False
        self._names_tokens = response.status == 200 and isinstance((found or {}).get("version"), str)
        return self._names_tokens

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{HOST}:{self.server_address[1]}"

    def server_close(self) -> None:
        """End every connection and wait for what passed on it to be written."""
        for one in list(self.open_sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no news: what it asked is written as cut. What else goes wrong is counted."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.sessions.count(f"requests that failed within the proxy: {type(error).__name__}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: EngineProxy

    def log_message(self, *_: object) -> None:
        """Nothing: lines of requests may hold keys."""

    def setup(self) -> None:
        super().setup()
        self.server.open_sockets.add(self.connection)

    def finish(self) -> None:
        self.server.open_sockets.discard(self.connection)
        super().finish()

    def _forward(self) -> None:
        if not self._is_for_us():
            return
        body = self._body()
        if body is None:
            return
        path, name = self.path, self.headers.get(SESSION_HEADER)
        if found := _SESSION_PATH.fullmatch(path):
            name, path = found[1], found[2]
        noted = self._noted(path, body, name)
        if noted is not None and path.partition("?")[0].endswith(NAMING) and self.server.names_tokens():
            body = json.dumps({**(json_object(body) or {}), "return_token_ids": True}).encode()
        with closing(self._connection()) as engine:
            try:
                left_out = _OWN | {"content-length"}
                headers = {key: value for key, value in self.headers.items() if key.lower() not in left_out}
                target = self.server.engine.path.rstrip("/").removesuffix("/v1") + path
                engine.request(self.command, target, body or None, headers | {"Accept-Encoding": "identity"})
                if engine.sock is not None:
                    self.server.open_sockets.add(engine.sock)
                response = engine.getresponse()
            except (OSError, HTTPException) as error:
                if noted is not None:
                    noted.close()
                self._refuse(502, f"the engine cannot be reached ({type(error).__name__})")
                return
            finally:
                here = engine.sock
            try:
                self._answer(response, noted)
            finally:
                if here is not None:
                    self.server.open_sockets.discard(here)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = _forward  # noqa: N815

    def _is_for_us(self) -> bool:
        """Whether the request names this machine: no other site's page may reach the engine under a name of its own."""
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        if host in ("127.0.0.1", "localhost"):
            return True
        self._refuse(403, "this proxy answers under 127.0.0.1 and localhost only")
        return False

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "0")
        if "chunked" in (self.headers.get("Transfer-Encoding") or "") or not re.fullmatch(
            r"\d{1,12}", length
        ):
            self._refuse(411, "a request needs a Content-Length")
            return None
        if int(length) > MOST_BODY_BYTES:
            self._refuse(413, f"a request may have {MOST_BODY_BYTES:,} bytes")
            return None
        return self.rfile.read(int(length))

    def _refuse(self, status: int, what: str) -> None:
        self.close_connection = True
        data = f'{{"error":{{"message":"inkplex-data record: {what}","type":"proxy"}}}}'.encode()
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)

    def _connection(self) -> HTTPConnection:
        engine = self.server.engine
        kind = HTTPSConnection if engine.scheme == "https" else HTTPConnection
        return kind(engine.hostname or "", engine.port, timeout=_TIMEOUT_S)

    def _noted(self, path: str, body: bytes, name: str | None) -> _Noted | None:
        """What writes the exchange down, None for a request that is not a chat."""
        route = path.partition("?")[0]
        dialect = next((one for ending, one in DIALECTS.items() if route.endswith(ending)), None)
        if self.command != "POST":
            return None
        asked = json_object(body) if dialect is not None else None
        exchange = dialect.asked(asked, 0) if dialect is not None and asked is not None else None
        if dialect is None or exchange is None:
            self.server.sessions.count(f"passed on without a recording: {route}")
            return None
        return _Noted(self.server.sessions, dialect, exchange, name)

    def _answer(self, response: HTTPResponse, noted: _Noted | None) -> None:
        """Pass the answer on as it arrives."""
        try:
            self.send_response(response.status, response.reason)
            has_length = response.headers.get("Content-Length") is not None
            for key, value in response.headers.items():
                if key.lower() not in _OWN:
                    self.send_header(key, value)
            has_body = self.command != "HEAD" and response.status not in (204, 304) and response.status >= 200
            chunked = has_body and not has_length
            if chunked:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            is_stream = "event-stream" in response.headers.get("Content-Type", "")
            for data in _pieces(response, is_stream=is_stream) if has_body else ():
                if noted is not None and response.status == 200:
                    noted.push(data, is_stream=is_stream)
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
                self.wfile.flush()
            if chunked:
                self.wfile.write(b"0\r\n\r\n")
        except (OSError, HTTPException):
            # One of the two has gone: the other is told so by the end of its connection.
            self.close_connection = True
        finally:
            if noted is not None:
                noted.close()


def _pieces(response: HTTPResponse, *, is_stream: bool) -> Iterator[bytes]:
    """The answer as it arrives, or at once where it is no stream of events. Raises HTTPException where it is cut."""
    if not is_stream:
        if data := response.read():
            yield data
        return
    while data := response.read1(1 << 16):
        yield data
    if response.length:
        raise HTTPException("the engine's answer was cut")


class _Noted:
    """One exchange in the making."""

    def __init__(
        self, sessions: ProxySessions, dialect: Dialect, exchange: Exchange, name: str | None
    ) -> None:
        self._sessions, self._dialect, self._exchange = sessions, dialect, exchange
        self._session: ProxySession = sessions.session(exchange.messages, name)
        exchange.asked_us = self._session.time.now_us()
        self._events = EventStream()
        self._is_open = True

    def push(self, data: bytes, *, is_stream: bool) -> None:
        """Bytes of the answer, before the client has them: with its end it may ask again, and is to be known then."""
        at_us = self._session.time.now_us()
        if not is_stream and (answer := json_object(data)) is not None:
            self._dialect.whole(self._exchange, answer, at_us)
        for event in self._events.push(data) if is_stream else ():
            self._dialect.event(self._exchange, event, at_us)
        if self._exchange.is_complete:
            self.close()

    def close(self) -> None:
        """Write the exchange, once."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._sessions.record(self._session, self._exchange)
        except (InkplexError, ValueError) as error:
            # Clients get their answers whatever becomes of the recording.
            self._sessions.count(f"requests that could not be written: {error}")
