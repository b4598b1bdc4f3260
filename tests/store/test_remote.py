"""A store on a web server, with the faults that web servers have. Each is an error of the family with a next step."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest

from inkplex_data.errors import InkplexError, MissingLibraryError, StoreError
from inkplex_data.store.reader import Store, open_store
from inkplex_data.store.verify import verify_store
from tests.store.made import Made

TIMEOUT_S = 2.0


class Server(ThreadingHTTPServer):
    """Serves a folder without listings, as object stores' public addresses do. `fault` is done to the paths that
    `at` matches."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.fault, self.at = "", re.compile("$.")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def break_(self, fault: str, at: str) -> None:
        self.fault, self.at = fault, re.compile(at)


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        fault = self.server.fault if self.server.at.search(self.path) else ""
        path = self.server.root / self.path.lstrip("/")
        if fault.isdecimal() or not path.is_file():
            self.send_response(int(fault) if fault.isdecimal() else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if fault == "slow":
            time.sleep(2 * TIMEOUT_S)
        data, status = path.read_bytes(), 200
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        total = len(data)
        if wanted and fault != "no ranges":
            first, last = int(wanted[1]), min(int(wanted[2]), total - 1)
            data, status = data[first : last + 1], 206
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        if fault != "no length":
            self.send_header("Content-Length", str(len(data)))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if body and fault == "cut":
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif body:
            self.wfile.write(data)


@pytest.fixture
def server(made: Made, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    aiohttp = pytest.importorskip("aiohttp")
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    monkeypatch.setitem(fsspec.config.conf, "http", {"client_kwargs": {"timeout": timeout}})
    server = Server(Path(made.root))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
    fsspec.filesystem("http").clear_instance_cache()


def read(store: Store) -> None:
    call = store.call("first")
    assert call.codes.shape == (16, 3_000) and call.words.height == 3
    assert call.states_u16 is not None and call.states_u16.shape == (150, 3, 8)


def test_a_server_without_listings_is_read(server: Server, made: Made) -> None:
    remote, local = open_store(server.url), open_store(made.root)
    assert remote.complete and remote.call_ids == local.call_ids
    assert remote.frames().collect().equals(local.frames().collect())
    assert remote.calls().collect().equals(local.calls().collect())
    read(remote)


def test_what_is_not_there(server: Server, made: Made) -> None:
    with pytest.raises(StoreError, match="no store here"):
        open_store(f"{server.url}/nowhere")
    with pytest.raises(StoreError, match=r"(?s)cannot be verified.*Verify the store where it lies"):
        verify_store(server.url)
    Path(made.root, "newest.json").unlink()
    with pytest.raises(
        StoreError, match=r"(?s)no snapshot was found: this place lists no folders.*snapshot=1"
    ):
        open_store(server.url)
    read(open_store(server.url, 1))


@pytest.mark.parametrize(
    ("fault", "at", "said"),
    [
        ("403", "newest", "answers 403"),
        ("403", "store.json", "answers 403"),
        ("401", "shard.json", "answers 401"),
        ("500", "snapshots", "answers 500"),
        ("503", "codes/c", "answers 503"),
        ("500", "words.parquet", "answers 500"),
        ("404", "words.parquet", "the table is missing"),
        ("404", "states/c", "is missing"),
        ("404", "snapshots", "snapshot 1 is gone"),
        ("no ranges", "states/c", "does not answer Range requests"),
        ("no length", "states/c", "does not say how long"),
        ("cut", "snapshots", ""),
        ("cut", "codes/c", ""),
        ("cut", "words.parquet", ""),
        ("cut", "states/c", ""),
        ("slow", "codes/c", "no answer"),
        ("slow", "newest", "no answer"),
    ],
)
def test_faults(server: Server, fault: str, at: str, said: str) -> None:
    server.break_(fault, at)
    with pytest.raises(StoreError) as caught:
        read(open_store(server.url))
    error = caught.value
    assert said in error.what and error.next_step and server.url in (error.where or "")
    server.break_("", "$.")
    read(open_store(server.url))  # nothing of it stays


def test_nobody_answers() -> None:
    pytest.importorskip("aiohttp")
    with pytest.raises(StoreError, match=r"(?s)http://127.0.0.1:9/newest.json|store.json.*Try again"):
        open_store("http://127.0.0.1:9")


@pytest.mark.parametrize(("url", "library"), [("https://example.org/s", "aiohttp"), ("s3://b/s", "s3fs")])
def test_a_library_that_is_not_installed(url: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(url: str) -> None:
        raise ImportError(f"Install {library}")

    monkeypatch.setattr(fsspec.core, "url_to_fs", absent)
    with pytest.raises(MissingLibraryError, match=rf'{library}.*\n.*pip install "inkplex-data\[remote\]"'):
        open_store(url)


def test_whatever_a_file_system_raises_is_of_the_family(monkeypatch: pytest.MonkeyPatch, made: Made) -> None:
    """Libraries of object stores have errors of their own."""

    class BotoError(Exception):
        pass

    def denied(self: object, path: str, **_: object) -> None:
        raise BotoError(f"denied {path}")

    from fsspec.implementations.local import LocalFileSystem

    monkeypatch.setattr(LocalFileSystem, "cat_file", denied)
    with pytest.raises(InkplexError, match=r"(?s)access fails: denied .*newest.json.*Try again"):
        open_store(f"local://{made.root}")
