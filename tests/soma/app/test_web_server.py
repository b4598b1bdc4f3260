"""The server by plain HTTP: who may ask, what is refused, and that a child tells and ends. The page itself: test_page.py."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.errors import OutputError, UsageError
from inkplex_data.soma.app import workshop as workshops
from inkplex_data.soma.app.json_child import JsonChild
from inkplex_data.soma.app.web_server import SomaServer, open_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SomaServer]:
    with open_server(tmp_path) as opened:
        threading.Thread(target=opened.serve_forever, daemon=True).start()
        yield opened
        opened.shutdown()


def asked(
    server: SomaServer, path: str, *, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def do(server: SomaServer, command: Any) -> tuple[int, dict[str, Any]]:
    status, _, body = asked(server, f"/{server.token}/do", body=json.dumps(command).encode())
    return status, json.loads(body)


def test_only_who_knows_the_address_on_this_machine_is_answered(server: SomaServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 32
    own = f"/{server.token}/"
    status, headers, body = asked(server, own)
    assert status == 200 and b"<h1>soma</h1>" in body
    assert headers["Content-Security-Policy"].startswith("default-src 'self'")
    for name in ("page.js", "charts.js", "page.css"):
        assert asked(server, own + name)[0] == 200
    for path in (
        "/",
        "/x/",
        f"/{server.token[:-1]}/",
        f"{own}../web_server.py",
        f"{own}page",
        f"/{server.token}",
    ):
        assert asked(server, path)[0] == 404
    assert asked(server, own, Host="evil.example")[0] == 404
    assert asked(server, own, Host=f"localhost:{server.server_port}")[0] == 200
    assert asked(server, "/x/do", body=b'{"do": "models"}')[0] == 404
    assert asked(server, f"{own}do", body=b"{}", **{"Content-Length": str(10**9)})[0] == 404


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ({"do": "unknown"}, "something unknown"),
        ([], "no command"),
        ({"do": "train", "model": "m.pt", "sources": []}, "no corpus"),
        ({"do": "train", "model": "m.pt", "sources": ["-"]}, "no standard input"),
        ({"do": "train", "model": "../m.pt", "sources": ["x"]}, "a model's name"),
        ({"do": "train", "model": "/tmp/m.pt", "sources": ["x"]}, "a model's name"),
        ({"do": "train", "model": "--json.pt", "sources": ["x"]}, "a model's name"),
        ({"do": "load", "model": "none.pt"}, "no such model"),
        ({"do": "profile", "model": "none.pt", "profile": {}}, "no model and profile"),
        ({"do": "chat", "text": "hi"}, "no model is loaded"),
        ({"do": "chat", "text": " "}, "nothing to say"),
        ({"do": "dream", "limit": 0}, "no length"),
    ],
)
def test_a_wrong_command_is_answered_with_what_is_wrong(server: SomaServer, command: Any, what: str) -> None:
    status, body = do(server, command)
    assert status == 400 and what in body["fault"]
    assert server.workshop.work is None


def test_models_are_listed_and_profiles_edited(server: SomaServer) -> None:
    folder = server.workshop.folder
    (folder / "a.pt").touch()
    (folder / "a.meta.json").write_text('{"profile": {"name": "old"}}')
    assert do(server, {"do": "profile", "model": "a.pt", "profile": {"name": "new"}})[0] == 200
    [model] = do(server, {"do": "models"})[1]["models"]
    assert (model["file"], model["profile"]["name"]) == ("a.pt", "new")


def test_a_child_tells_what_it_does_until_it_is_stopped(
    server: SomaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that says what it was told, in place of one that loads a model."""
    echo = "import sys; print('noise'); [print(line, end='', flush=True) for line in sys.stdin]"
    monkeypatch.setattr(workshops, "JsonChild", lambda arguments, tell: JsonChild(["-c", echo], tell))
    (server.workshop.folder / "a.pt").touch()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("GET", f"/{server.token}/events")
    stream = connection.getresponse()

    def event() -> dict[str, Any]:
        while not (line := stream.readline()).startswith(b"data: "):
            assert line
        return json.loads(line[6:])

    assert event() == {"event": "state", "work": None, "figures": []}
    status, body = do(server, {"do": "load", "model": "a.pt"})
    assert status == 200 and body["work"]["model"] == "a.pt"
    assert event()["event"] == "work"
    assert do(server, {"do": "chat", "text": "hi"})[0] == 200
    figures = {"event": "figures", "read_bytes": 1}
    server.workshop._child.send(figures)  # type: ignore[union-attr]
    # The echo of the command is no event of ours, and goes to the listener as it is.
    assert event()["text"] == "hi"
    assert event() == figures
    pid = body["work"]["pid"]
    assert do(server, {"do": "stop"})[0] == 200
    ended = event()
    assert (ended["event"], ended["stopped"]) == ("ended", True)
    assert not Path(f"/proc/{pid}").exists()
    assert server.workshop.work is None
    connection.close()


def test_a_folder_or_port_that_cannot_be_served(tmp_path: Path, server: SomaServer) -> None:
    with pytest.raises(UsageError, match="no such folder"), open_server(tmp_path / "none"):
        pass
    with pytest.raises(OutputError, match="cannot be used"), open_server(tmp_path, server.server_port):
        pass
