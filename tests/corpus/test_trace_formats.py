"""Every trace format: a sample becomes the same session, with its real times; mutations of it never end in a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from inkplex_data.corpus.recordings.recording import Recording, read_recording
from inkplex_data.corpus.traces import formats, read_traces
from inkplex_data.corpus.traces.arrival_schedule import TraceSchedule, time_requests
from inkplex_data.corpus.traces.importer import encoder_for, import_traces
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import CallRefused, CorpusError
from inkplex_data.memory.ownership import tabulate
from tests.corpus.traces_made import (
    ASKED,
    CALL,
    CHAT,
    LANGFUSE,
    LOGGED,
    RESULT,
    SAID,
    SAMPLES,
    SYSTEM,
    TAU2,
    THOUGHT,
    attribute,
    day,
    event,
    span,
)

MUTATIONS = 200


def imported(folder: Path, *documents: Any) -> list[Recording]:
    path = folder / "trace.json"
    path.write_text("\n".join(json.dumps(document) for document in documents))
    result = import_traces(path, folder / "out", tokenizer="bytes")
    assert result.refused == ()
    return [read_recording(one.path) for one in result.written]


def table(recording: Recording) -> pl.DataFrame:
    return tabulate(list(recording))[0]


def said(recording: Recording) -> dict[str, str]:
    """Kind → its text, without special tokens."""
    tokens = table(recording).filter(special=False)
    return {
        kind: b"".join(part["bytes"]).decode()
        for (kind,), part in tokens.group_by("kind", maintain_order=True)
    }


def seconds(recording: Recording, column: str) -> dict[str, float]:
    """Kind → the last time of its tokens, in seconds."""
    tokens = table(recording).drop_nulls(column)
    return {kind: part[column].max() / 1e6 for (kind,), part in tokens.group_by("kind")}  # type: ignore[operator]


def test_every_format_has_a_sample() -> None:
    assert {form.name for form in formats()} == {*SAMPLES, "abcd"}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_the_session(tmp_path: Path, name: str) -> None:
    sample = SAMPLES[name]
    path = tmp_path / f"{name}.json"
    path.write_text(sample.text())
    result = import_traces(path, tmp_path / "out", tokenizer="bytes")
    assert (result.format, result.refused, len(result.written)) == (name, (), 1)
    recording = read_recording(result.written[0].path)
    assert validate_path(recording.path) == []
    found = said(recording)
    assert found["user"].endswith(ASKED) and found["tool_result"].endswith(RESULT)
    assert found["reply"] == SAID
    assert '{"name":"bill","args":{"account":7}}' in found["tool_call"]
    assert found.get("thinking") == (THOUGHT if sample.thinks else None)
    assert (SYSTEM in found.get("setup", "")) == sample.opens
    requests = list(recording)
    assert len(requests) == 2, "a request for each answer"
    for before, request in pairwise(requests):
        assert request.cached is not None and request.cached[0] == before.call
    assert recording.header.times == sample.times
    if sample.arrivals is not None:
        arrived = seconds(recording, "available_us")
        assert {kind: pytest.approx(at, abs=1e-5) for kind, at in sample.arrivals.items()} == {
            kind: arrived[kind] for kind in sample.arrivals
        }
    happened = seconds(recording, "source_us")
    assert happened == {kind: pytest.approx(at, abs=1e-5) for kind, at in (sample.events or {}).items()}


def test_an_answer_is_spread_from_its_first_token_on(tmp_path: Path) -> None:
    (recording,) = imported(tmp_path, LANGFUSE)
    reply = table(recording).filter(kind="reply", special=False)["available_us"]
    assert reply.min() > 4_000_000 and reply.max() < 5_000_000 and reply.n_unique() == len(reply)


def test_requests_that_share_no_past_are_sessions_of_their_own(tmp_path: Path) -> None:
    other = {
        "request": {"messages": [{"role": "user", "content": "Hello?"}]},
        "response": {"id": "r9", "choices": [{"message": {"content": "Hi."}}]},
    }
    first, second = imported(tmp_path, LOGGED[0], other, LOGGED[1])
    assert said(first)["reply"] == SAID and said(second) == {"user": "Hello?", "reply": "Hi."}


def test_a_retry_is_a_session_of_its_own(tmp_path: Path) -> None:
    retried = {**LOGGED[1], "response": {"id": "r3", "choices": [{"message": {"content": "Ninety."}}]}}
    recordings = imported(tmp_path, *LOGGED, retried)
    assert sorted(said(one)["reply"] for one in recordings) == [SAID, "Ninety."]


def test_whole_seconds_count_at_their_end(tmp_path: Path) -> None:
    entries = [
        {
            "messages": CHAT[:2],
            "choices": [{"message": {"content": "Yes."}}],
            "created": 1772359200,
            "end_time": 1772359203.0,
        }
    ]
    (recording,) = imported(tmp_path, *entries)
    provenance = recording.header.provenance
    assert provenance is not None and provenance["session_starts_at_s"] == 1772359201.0
    assert seconds(recording, "available_us")["reply"] == 2.0


def test_what_the_user_does_alone_is_no_part_of_the_agents_session(tmp_path: Path) -> None:
    (recording,) = imported(tmp_path, TAU2)
    assert "signal" not in "".join(said(recording).values())
    assert recording.header.provenance is not None
    assert recording.header.provenance["user_tool_messages_left_out"] == 2


def test_spoken_content_is_sound(tmp_path: Path) -> None:
    spoken = [
        {"role": "user", "content": "UklGRg==", "is_audio": True},
        {"role": "assistant", "content": "Yes."},
    ]
    (recording,) = imported(tmp_path, {"simulations": [{"id": "s", "messages": spoken}]})
    assert "UklGRg" not in str(said(recording))
    assert table(recording).filter(media="audio").height == 1


def test_events_of_earlier_conventions(tmp_path: Path) -> None:
    events = [
        {"name": "gen_ai.user.message", "attributes": {"content": ASKED}},
        {
            "name": "gen_ai.choice",
            "attributes": {"message": json.dumps({"content": "", "tool_calls": [CALL]})},
        },
    ]
    flat = {
        "name": "chat",
        "context": {"trace_id": "0x1", "span_id": "0x2"},
        "start_time": day(1),
        "end_time": day(2),
        "attributes": {"gen_ai.request.model": "m"},
        "events": events,
    }
    (recording,) = imported(tmp_path, flat)
    assert said(recording)["user"] == ASKED and "bill" in said(recording)["tool_call"]
    assert recording.header.provenance is not None and recording.header.provenance["model"] == "m"


def test_a_first_chunks_time(tmp_path: Path) -> None:
    one = span(
        1,
        1,
        5,
        "chat",
        [
            attribute(
                "gen_ai.input.messages", [{"role": "user", "parts": [{"type": "text", "content": ASKED}]}]
            ),
            attribute(
                "gen_ai.output.messages",
                [{"role": "assistant", "parts": [{"type": "text", "content": SAID}]}],
            ),
            {"key": "gen_ai.response.time_to_first_chunk", "value": {"doubleValue": 2.0}},
        ],
    )
    (recording,) = imported(tmp_path, {"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]})
    reply = table(recording).filter(kind="reply", special=False)["available_us"]
    assert 2_000_000 < reply.min() < reply.max() < 4_000_000


def test_a_realtime_log_without_times_has_those_of_its_audio(tmp_path: Path) -> None:
    log = [one["event"] for one in SAMPLES["openai-realtime"].documents]
    (recording,) = imported(tmp_path, *log)
    assert recording.header.times == "constructed"
    user = table(recording).filter(kind="user", special=False)
    assert set(user["available_us"]) == {1_500_000} and set(user["source_us"]) == {1_500_000}


def test_two_sessions_of_one_log(tmp_path: Path) -> None:
    log = SAMPLES["openai-realtime"].documents
    later = [{**one, "timestamp": one["timestamp"].replace("10:00", "11:00")} for one in log]
    later[0] = {
        **later[0],
        "event": {**later[0]["event"], "session": {"id": "other", "instructions": "Be brief."}},
    }
    first, second = imported(tmp_path, *log, *later)
    assert said(first)["reply"] == said(second)["reply"] == SAID and said(second)["setup"] == "Be brief."


def test_a_speech_that_is_cut_off_has_what_was_said(tmp_path: Path) -> None:
    log = SAMPLES["openai-realtime"].documents[:-3]
    done = event(
        7,
        "response.output_item.done",
        response_id="r2",
        item={
            "id": "i4",
            "type": "message",
            "role": "assistant",
            "status": "incomplete",
            "content": [{"type": "output_audio", "transcript": "It"}],
        },
    )
    (recording,) = imported(tmp_path, *log, done)
    assert said(recording)["reply"] == "It"


JUNK: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1e300,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[]],
    {"a": []},
    10**30,
    ["x", None],
)


def mutated(value: Any, random: random.Random) -> Any:
    """The same document with one place of it changed: replaced, left out, or given twice."""
    places = list(_places(value))
    parent, key = random.choice(places)
    kind = random.randrange(4)
    if kind == 0 and isinstance(parent, dict):
        del parent[key]
    elif kind == 0:
        parent.insert(key, parent[key])
    elif kind == 1:
        other, name = random.choice(places)
        parent[key] = json.loads(
            json.dumps(other[name] if name in other or isinstance(other, list) else None)
        )
    else:
        parent[key] = random.choice(JUNK)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from _places(inner)


@pytest.mark.parametrize("name", SAMPLES)
def test_mutations_are_read_or_refused(tmp_path: Path, name: str) -> None:
    chance = random.Random(0)
    encoder, schedule = encoder_for("bytes"), TraceSchedule()
    path = tmp_path / "trace.json"
    read = refused = 0
    for number in range(MUTATIONS):
        documents = mutated(json.loads(json.dumps(SAMPLES[name].documents)), chance)
        lines = [json.dumps(document) for document in documents]
        path.write_text("\n".join(lines))
        try:
            found = read_traces(path, None if number % 4 else name)
        except CorpusError:
            refused += 1
            continue
        for one in found.found:
            try:
                dialogue = found.format.parse(one)
                if number % 4 == 0:
                    time_requests(dialogue, encoder.requests(dialogue), schedule)
                read += 1
            except (CallRefused, UnicodeError):
                refused += 1
    assert read and refused
