"""The proxy between real clients and an engine that samples from a real model: what it writes are recordings."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inkplex_data.audit.store_audit import audit_store
from inkplex_data.config.recipe import load_recipe
from inkplex_data.corpus.recordings.recording import RecordedRequest, check_requests, read_recording
from inkplex_data.corpus.traces.importer import encoder_for
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import UsageError
from inkplex_data.grid import KINDS
from inkplex_data.memory.record.engine_proxy import EngineProxy, engine_url, without_secrets
from inkplex_data.memory.record.proxy_sessions import ProxySessions
from inkplex_data.pipeline.run import build_store
from inkplex_data.store.reader import open_store
from tests.memory.record.tiny_engine import TinyEngine
from tests.pipeline.test_recording_states import BASE, write_calls

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

KEY = "sk-secret-of-nobody"
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def engine() -> Iterator[TinyEngine]:
    engine = TinyEngine()
    yield engine
    engine.shutdown()
    engine.server_close()


@pytest.fixture
def proxy(engine: TinyEngine, tmp_path: Path) -> Iterator[EngineProxy]:
    sessions = ProxySessions(tmp_path / "out", encoder_for("bytes"), engine=engine.url)
    with EngineProxy(engine_url(engine.url), sessions) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield proxy
        proxy.shutdown()


def client(proxy: EngineProxy, path: str = "/v1") -> Any:
    return openai.OpenAI(base_url=proxy.url + path, api_key=KEY, max_retries=0)


def streamed(chat: Any, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """The answer of a real client's stream, as the message that it would send back."""
    text, calls = "", {}
    for chunk in chat.chat.completions.create(model="tiny", messages=messages, stream=True, **options):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for call in delta.tool_calls or ():
            known = calls.setdefault(
                call.index,
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": ""},
                },
            )
            known["function"]["arguments"] += call.function.arguments or ""
    return {"role": "assistant", "content": text or None} | (
        {"tool_calls": list(calls.values())} if calls else {}
    )


def task(proxy: EngineProxy, question: str) -> list[dict[str, Any]]:
    """A question, a call of a tool, its result, an answer: three messages of the user's side."""
    chat = client(proxy)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": question},
    ]
    messages.append(streamed(chat, messages, tools=[TOOL]))
    (call,) = messages[-1]["tool_calls"]
    assert json.loads(call["function"]["arguments"])["q"]
    messages.append({"role": "tool", "tool_call_id": call["id"], "content": "It is 80."})
    messages.append(streamed(chat, messages, tools=[TOOL]))
    chat.close()
    return messages


def settled(proxy: EngineProxy) -> None:
    """Wait until what the clients have read is written: the last exchange is, just after its end went out."""
    proxy.shutdown()
    proxy.server_close()


def recordings(proxy: EngineProxy) -> list[Path]:
    return sorted(one.recorder.path for one in proxy.sessions.sessions if one.recorder is not None)


def requests_of(path: Path) -> list[RecordedRequest]:
    """The requests of a valid recording."""
    assert validate_path(path) == []
    recording = read_recording(path)
    requests = list(recording)
    check_requests(recording.header, requests, source=path.name)
    assert recording.header.times == "recorded" and recording.header.model == "tiny"
    for request in requests:
        assert (np.diff(request.arrival_us) >= 0).all()
    return requests


def of_kind(request: RecordedRequest, kind: str) -> bytes:
    mine = request.kinds == KINDS.index(kind)
    return b"".join(
        one for one, is_mine in zip(request.bytes, mine & ~request.special, strict=True) if is_mine
    )


def test_a_session_with_tools_is_a_recording_of_two_requests(proxy: EngineProxy) -> None:
    messages = task(proxy, "My bill?")
    settled(proxy)
    (path,) = recordings(proxy)
    first, second = requests_of(path)
    # OpenAI's clients do not give thinking back, so the second prompt goes on from before it.
    prompt = int(np.isin(first.kinds, [KINDS.index("setup"), KINDS.index("user")]).sum())
    assert first.cached is None and second.cached is not None and prompt <= second.cached[1] < len(first)
    assert of_kind(first, "setup").endswith(b"Be brief.") and of_kind(first, "user") == b"My bill?"
    call = messages[2]["tool_calls"][0]["function"]
    assert call["name"].encode() in of_kind(first, "tool_call") and json.loads(call["arguments"])[
        "q"
    ].encode() in of_kind(first, "tool_call")
    assert of_kind(second, "tool_result") == b"look_upIt is 80." or of_kind(second, "tool_result").endswith(
        b"It is 80."
    )
    assert of_kind(second, "reply") == messages[-1]["content"].encode()
    assert len(of_kind(first, "thinking")) == 4
    # Letters came one at a time, and a prompt was there when the first of them was.
    reply = second.arrival_us[(second.kinds == KINDS.index("reply")) & ~second.special]
    assert len(set(reply.tolist())) > 4
    asked = np.isin(first.kinds, [KINDS.index("setup"), KINDS.index("user")])
    assert (
        len(set(first.arrival_us[asked].tolist())) == 1
        and (first.available_us[asked] < first.arrival_us[asked]).all()
    )
    assert proxy.sessions.counts == {"requests": 2}


def test_no_secret_is_written_and_headers_reach_the_engine(proxy: EngineProxy, engine: TinyEngine) -> None:
    task(proxy, "A secret?")
    settled(proxy)
    assert any(KEY in value for value in engine.headers_seen[-1].values())
    for path in recordings(proxy):
        assert KEY.encode() not in path.read_bytes()
    assert (
        without_secrets(engine_url("https://me:pass@engine.example:8443/v1?key=1"))
        == "https://engine.example:8443"
    )


def test_twenty_parallel_sessions_of_the_same_words_are_twenty_recordings(proxy: EngineProxy) -> None:
    with ThreadPoolExecutor(20) as pool:
        said = list(pool.map(lambda _: task(proxy, "The same?"), range(20)))
    settled(proxy)
    found = recordings(proxy)
    assert len(found) == 20 and len({path.name for path in found}) == 20
    for path in found:
        assert [len(request.special) > 10 for request in requests_of(path)] == [True, True]
    assert len(said) == 20 and proxy.sessions.counts == {"requests": 40}


def test_a_cut_connection_keeps_what_came_and_a_retry_goes_on_in_its_session(
    proxy: EngineProxy, engine: TinyEngine
) -> None:
    engine.cut_after += [9]  # the role, four letters of thinking, four of the reply
    messages = [{"role": "user", "content": "Cut?"}]
    with pytest.raises(Exception, match=r"peer closed|incomplete|Connection error"):
        streamed(client(proxy), messages)
    answer = streamed(client(proxy), messages)
    settled(proxy)
    (path,) = recordings(proxy)
    cut, retry = requests_of(path)
    assert of_kind(cut, "reply") == answer["content"].encode()[:4]
    assert of_kind(retry, "reply") == answer["content"].encode()
    # The thought and the beginning of the reply are the same tokens, but computed twice: only the prompt was cached.
    prompt = int((cut.kinds == KINDS.index("user")).sum())
    assert retry.cached is not None and retry.cached[0] == 0 and prompt <= retry.cached[1] <= len(cut)
    assert proxy.sessions.counts == {"requests": 1, "requests that were cut": 1}


def test_a_client_that_goes_away_is_no_fault(proxy: EngineProxy) -> None:
    stream = client(proxy).chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Gone?"}], stream=True
    )
    next(iter(stream))
    stream.close()
    task(proxy, "Still there?")
    settled(proxy)
    for path in recordings(proxy):
        requests_of(path)
    assert proxy.sessions.counts["requests"] >= 2


def test_answers_that_come_at_once_arrive_at_once(proxy: EngineProxy) -> None:
    answer = client(proxy).chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Whole?"}]
    )
    settled(proxy)
    (path,) = recordings(proxy)
    (request,) = requests_of(path)
    assert of_kind(request, "reply") == answer.choices[0].message.content.encode()
    generated = np.isin(request.kinds, [KINDS.index("thinking"), KINDS.index("reply")])
    assert len(set(request.arrival_us[generated].tolist())) == 1


def test_anthropics_client_with_thinking_and_tools(proxy: EngineProxy) -> None:
    chat = anthropic.Anthropic(base_url=proxy.url, api_key=KEY, max_retries=0)
    tools = [{"name": "look_up", "input_schema": TOOL["function"]["parameters"]}]  # type: ignore[index]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "My bill?"}]
    options = {"model": "tiny", "max_tokens": 50, "system": "Be brief.", "tools": tools}
    with chat.messages.stream(messages=messages, **options) as stream:
        answer = stream.get_final_message()
    use = answer.content[-1]
    assert use.type == "tool_use" and use.input["q"]
    messages.append(
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]}
    )
    messages.append(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "It is 80."}]}
    )
    with chat.messages.stream(messages=messages, **options) as stream:
        text = stream.get_final_text()
    chat.close()
    settled(proxy)
    (path,) = recordings(proxy)
    first, second = requests_of(path)
    assert second.cached == (0, len(first))
    assert of_kind(first, "setup").endswith(b"Be brief.") and len(of_kind(first, "thinking")) == 4
    assert use.input["q"].encode() in of_kind(first, "tool_call")
    assert of_kind(second, "tool_result").endswith(b"It is 80.") and of_kind(second, "reply") == text.encode()


def test_named_sessions_and_what_is_passed_on_without_a_recording(proxy: EngineProxy) -> None:
    for question in ("One?", "Two?"):
        streamed(client(proxy, "/sessions/task-7/v1"), [{"role": "user", "content": question}])
    assert [model.id for model in client(proxy).models.list()] == ["tiny"]
    settled(proxy)
    (path,) = recordings(proxy)
    assert path.name == "task-7.recording.jsonl" and len(requests_of(path)) == 2


def test_clients_get_their_answers_where_no_recording_can_be_written(
    proxy: EngineProxy, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.recording.jsonl").write_text("of somebody")
    assert streamed(client(proxy, "/sessions/mine/v1"), [{"role": "user", "content": "One?"}])["content"]
    settled(proxy)
    ((what, count),) = proxy.sessions.counts.items()
    assert count == 1 and "there is a recording already" in what
    assert (tmp_path / "out" / "mine.recording.jsonl").read_text() == "of somebody"


def test_other_sites_names_and_lost_engines(proxy: EngineProxy, tmp_path: Path) -> None:
    def ask(at: EngineProxy, host: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", at.server_address[1])
        connection.request("GET", "/v1/models", headers={"Host": host})
        status = connection.getresponse().status
        connection.close()
        return status

    assert (ask(proxy, "evil.example"), ask(proxy, "localhost:1")) == (403, 200)
    sessions = ProxySessions(tmp_path / "none", encoder_for("bytes"), engine="none")
    with EngineProxy(engine_url("http://127.0.0.1:9"), sessions) as lost:
        threading.Thread(target=lost.serve_forever, daemon=True).start()
        assert ask(lost, "127.0.0.1") == 502
        with pytest.raises(openai.APIStatusError, match="the engine cannot be reached"):
            streamed(client(lost), [{"role": "user", "content": "?"}])
        lost.shutdown()
    assert sessions.counts == {"requests without an answer": 1}
    for url in ("127.0.0.1:8000", "ftp://x", "http://", "http://x:99999"):
        with pytest.raises(UsageError, match="is not the address of an engine"):
            engine_url(url)


def test_a_store_of_what_was_recorded_has_a_clean_audit(proxy: EngineProxy, tmp_path: Path) -> None:
    task(proxy, "For a store?")
    settled(proxy)
    (path,) = recordings(proxy)
    (tmp_path / "task.recording.jsonl").write_bytes(path.read_bytes())
    manifest = write_calls(tmp_path, ["task"])
    summary = build_store(manifest, tmp_path / "store", recipe=load_recipe(None, BASE), workers=1)
    assert summary.exit_code == 0, summary.text()
    with open_store(tmp_path / "store") as store:
        audit = audit_store(store)
    assert audit.tokens and not audit.violations
