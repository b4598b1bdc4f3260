"""Tokens that an engine names, tokens that a tokenizer spells, and when each of them was there."""

from __future__ import annotations

from pathlib import Path

import pytest

from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.traces.dialogue_requests import Spelled
from inkplex_data.corpus.traces.importer import encoder_for
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import UsageError
from inkplex_data.grid import KINDS
from inkplex_data.memory.record.answers import Answer
from inkplex_data.memory.record.chat_dialect import ChatDialect
from inkplex_data.memory.record.conversations import Conversations
from inkplex_data.memory.record.exact_tokens import exact_tokens
from inkplex_data.memory.record.proxy_sessions import ProxySessions
from inkplex_data.memory.record.session_recorder import ArrivedToken, SessionRecorder, SessionTime
from tests.corpus.test_traces_template import template_folder


def letters(text: str, kind: str = "reply") -> list[Spelled]:
    return [Spelled(ord(one), one.encode(), kind, 0) for one in text]  # type: ignore[arg-type]


def test_other_tokens_of_the_same_text_take_the_kind_of_their_place() -> None:
    rendered = [*letters("ab", "thinking"), *letters("cdef")]
    found = exact_tokens(rendered, [97, 98, 300, 101, 102, 301], lambda token: (b"?", token == 301))
    assert found is not None
    assert [(one.id, one.kind, one.special) for one in found] == [
        (97, "thinking", False),
        (98, "thinking", False),
        (300, "thinking", False),
        (101, "reply", False),
        (102, "reply", False),
        (301, "reply", True),
    ]
    assert exact_tokens(rendered, [97], lambda token: None) == rendered[:1]
    assert exact_tokens(rendered, [7], lambda token: None) is None


def test_an_engines_own_tokens_are_what_is_recorded(tmp_path: Path) -> None:
    """The prompt as the template renders it, and an answer that was sampled letter by letter."""
    encoder = encoder_for(str(template_folder(tmp_path / "model")))
    tokenizer = encoder._backend  # type: ignore[attr-defined]
    sampled = [tokenizer.token_to_id({" ": "Ġ"}.get(one, one)) for one in "x late"]
    assert len(tokenizer.encode("x late").ids) < len(sampled)
    sessions = ProxySessions(tmp_path / "out", encoder, engine="e")
    dialect = ChatDialect()
    exchange = dialect.asked({"messages": [{"role": "user", "content": "Well?"}]}, 0)
    assert exchange is not None
    session = sessions.session(exchange.messages)
    (request,) = encoder.requests(
        sessions._messages.parse(_found([*exchange.messages, {"role": "assistant", "content": ""}]))
    )
    exchange.prompt_ids = [token.id for token in request.prompt]
    for at_us, (letter, token) in enumerate(zip("x late", sampled, strict=True), start=1):
        dialect.event(
            exchange, {"choices": [{"index": 0, "delta": {"content": letter}, "token_ids": [token]}]}, at_us
        )
    dialect.event(
        exchange, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "token_ids": []}]}, 9
    )
    sessions.record(session, exchange)
    (one,) = read_recording(tmp_path / "out" / f"{session.name}.recording.jsonl")
    assert one.ids.tolist() == [*exchange.prompt_ids, *sampled]
    assert b"".join(one.bytes[-6:]) == b"x late" and one.arrival_us[-6:].tolist() == [1, 2, 3, 4, 5, 6]


def _found(messages: list[dict[str, str]]) -> object:
    from inkplex_data.corpus.traces import Found

    return Found({"messages": messages}, "")


def test_a_token_is_there_with_its_last_byte_and_what_follows_a_part_with_the_next() -> None:
    answer = Answer()
    answer.add("thinking", "ab", 10)
    answer.add("reply", "c", 20)
    answer.add("reply", "de", 30)
    answer.finish(40)
    tokens = [*letters("<ab>", "thinking"), *letters("<"), Spelled(0, b"cd", "reply", 0), *letters("e>")]
    assert answer.arrivals_us(tokens) == [10, 10, 10, 20, 20, 30, 30, 40]
    answer.finished_us = None
    assert answer.arrivals_us(tokens) == [10, 10, 10, 20, 20, 30, 30], "the end never came"


def test_a_call_is_there_as_a_whole_or_not_at_all() -> None:
    answer = Answer()
    answer.add("reply", "x", 5)
    answer.add("tool_call", "", 10, name="f", id="1")
    answer.add("tool_call", "{}", 20)
    assert "tool_calls" not in answer.message()
    answer.finish(30)
    assert answer.arrivals_us([*letters("x"), *letters("f{}", "tool_call")]) == [5, 30, 30, 30]


def test_sessions_are_told_by_their_answers_and_equal_ones_are_kept_apart() -> None:
    talks: Conversations[str] = Conversations()
    start = [{"role": "user", "content": "hi"}]
    for name in "ab":
        assert talks.going_on(start) is None
        talks.stands(name, [*start, {"role": "assistant", "content": "yes "}])
    more = [
        *start,
        {"role": "assistant", "content": [{"type": "text", "text": "yes"}]},
        {"role": "user", "content": "?"},
    ]
    assert [talks.going_on(more) for _ in range(3)] == ["a", "b", None]


def test_a_loop_of_ones_own_writes_valid_recordings(tmp_path: Path) -> None:
    recorder = SessionRecorder(
        tmp_path / "t.recording.jsonl", recording="t", tokenizer="o200k", time=SessionTime(5_000_000_000, 0)
    )
    assert recorder.recording_starts_at_s(7.25) == 2.25
    prompt = [ArrivedToken(1, "user", b"a", 0), ArrivedToken(2, "user", b"\xff", 3, 2)]
    answer = [ArrivedToken(3, "reply", b"c", 10), ArrivedToken(4, "reply", b"d", 9)]
    assert recorder.add(prompt, answer) == 0
    assert (
        recorder.add(
            [*prompt, *answer, ArrivedToken(5, "tool_result", b"e", 20)], [ArrivedToken(6, "reply", b"f", 30)]
        )
        == 1
    )
    # Computed meanwhile: what arrived later is nobody's prefix.
    assert recorder.add([*prompt, *answer], [ArrivedToken(7, "reply", b"g", 8)]) == 2
    assert validate_path(recorder.path) == []
    first, second, third = read_recording(recorder.path)
    assert first.arrival_us.tolist() == [3, 3, 10, 10] and first.bytes[1] == b"\xff"
    assert (second.cached, third.cached) == ((0, 4), (0, 2))
    assert first.kinds.tolist() == [KINDS.index(kind) for kind in ("user", "user", "reply", "reply")]
    with pytest.raises(UsageError, match="there is a recording already"):
        SessionRecorder(recorder.path, recording="t")
