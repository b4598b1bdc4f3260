"""Recordings: read line by line into columns; every fault is named with its line and place."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.clock import UNKNOWN_US, seconds_to_us
from inkplex_data.corpus.recordings.recording import (
    RecordedRequest,
    Recording,
    read_recording,
)
from inkplex_data.corpus.schemas import schemas
from inkplex_data.errors import RecordingError
from inkplex_data.grid import KINDS

HEADER = {"schema": "inkplex/recording@1", "recording": "bill", "model": "inkling", "tokenizer": "o200k"}
TOKEN = {"id": 5, "kind": "user", "text": " a", "at": 1.5}


def write(folder: Path, *lines: Any, end: str = "\n") -> Path:
    path = folder / "task.recording.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + end)
    return path


def call(*tokens: Any, **fields: Any) -> dict[str, Any]:
    return {"call": 0, "tokens": list(tokens), **fields}


def test_columns(tmp_path: Path) -> None:
    (tmp_path / "s.safetensors").write_bytes(b"x")
    path = write(
        tmp_path,
        HEADER | {"branch_of": {"recording": "twin", "at": 2.32}, "times": "constructed"},
        call(
            {"id": 1, "kind": "setup", "text": "é", "at": 2.32},
            {
                "id": 2,
                "kind": "thinking",
                "bytes_b64": base64.b64encode(b"\xf0\x9f").decode(),
                "at": 1,
                "ready_at": 3,
                "event_at": -0.5,
            },
            {"id": 3, "kind": "other", "special": True, "at": 4, "ready_at": 3.5},
            {"id": 4, "kind": "user", "media": "image", "text": "<img>", "at": -1},
            states="s.safetensors",
        ),
        {"call": 7, "cached": {"call": 0, "tokens": 3}, "tokens": []},
    )
    recording = read_recording(path)
    assert recording.header.recording == "bill"
    assert recording.header.fork == ("twin", 2_320_000)
    assert recording.header.times == "constructed"
    first, second = recording
    assert (first.call, first.cached, len(first), first.line) == (0, None, 4, 2)
    assert first.ids.tolist() == [1, 2, 3, 4]
    assert first.ids.dtype == np.int32
    assert [KINDS[kind] for kind in first.kinds] == ["setup", "thinking", "other", "user"]
    assert first.bytes == ["é".encode(), b"\xf0\x9f", b"", b""]
    assert first.arrival_us.tolist() == [2_320_000, 3_000_000, 4_000_000, -1_000_000]
    assert first.arrival_us.dtype == np.int64
    assert first.available_us.tolist() == [2_320_000, 1_000_000, 4_000_000, -1_000_000]
    assert first.ready_us.tolist() == [UNKNOWN_US, 3_000_000, 3_500_000, UNKNOWN_US]
    assert first.source_us.tolist() == [UNKNOWN_US, -500_000, UNKNOWN_US, UNKNOWN_US]
    assert first.special.tolist() == [False, False, True, False]
    assert first.media.tolist() == [0, 0, 0, 2]
    assert first.states_path == tmp_path / "s.safetensors"
    assert (second.call, second.cached, second.states_path, second.line) == (7, (0, 3), None, 3)
    assert [len(each) for each in recording] == [4, 0], "a recording can be read again"


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("", "is empty"),
        (call(TOKEN), "is not a header"),
        (
            {**HEADER, "schema": "inkplex/recording@2"},
            "must be 'inkplex/recording@1' (got 'inkplex/recording@2')",
        ),
        ({"schema": "inkplex/recording@1"}, "/recording is missing"),
        (HEADER | {"recording": 3}, "/recording input should be a valid string (got 3)"),
        (HEADER | {"modle": "x"}, "did you mean 'model'?"),
        (HEADER | {"branch_of": {"recording": "x"}}, "/branch_of/at is missing"),
        (HEADER | {"times": "guessed"}, "/times"),
        ("{", "is not JSON"),
        ("[1]", "is not a header"),
    ],
)
def test_a_missing_or_wrong_header(tmp_path: Path, header: Any, words: str) -> None:
    path = write(tmp_path, header, call(TOKEN), end="\n") if header != "" else write(tmp_path, end="")
    with pytest.raises(RecordingError) as caught:
        read_recording(path)
    assert caught.value.code == "recording-header"
    assert caught.value.where == "task.recording.jsonl:1"
    assert words in str(caught.value)


TWO_TIMES = '{"call": 0, "tokens": [{"id": 5, "kind": "user", "text": "a", "at": 1, "at": 2}]}'
BAD_CALLS: list[tuple[Any, str, str]] = [
    (call(TOKEN | {"kind": "thought"}), "recording-kind", "/tokens/0/kind must be one of setup,"),
    (call(TOKEN | {"kind": 3}), "recording-kind", "(got 3)"),
    (call(TOKEN | {"kind": None}), "recording-kind", "/tokens/0/kind"),
    (call(TOKEN, TOKEN | {"text": None}), "recording-bytes", "/tokens/1 needs text or bytes_b64"),
    (call(TOKEN | {"text": 5}), "recording-bytes", "/tokens/0/text must be text (got 5)"),
    (
        '{"call": 0, "tokens": [{"id": 1, "kind": "user", "text": "\\ud83d", "at": 1}]}',
        "recording-bytes",
        "surrogate",
    ),
    (call(TOKEN | {"bytes_b64": "YQ=="}), "recording-bytes", "both text and bytes_b64"),
    *(
        (call({"id": 1, "kind": "user", "bytes_b64": text, "at": 1}), "recording-bytes", "standard base64")
        for text in ("YQ=", "Y", "@@@@", "YQ==YQ==", "Y Q==", "YQ==\n", "é===", 5, True)
    ),
    (TWO_TIMES, "recording-time", "gives the key 'at' twice (got 1 and 2)"),
    (call(TOKEN | {"at": [1, 2]}), "recording-time", "not several (got [1, 2])"),
    (call(TOKEN | {"at": None}), "recording-time", "/tokens/0/at is missing"),
    (call(TOKEN | {"at": "1"}), "recording-time", "(got '1')"),
    (call(TOKEN | {"at": True}), "recording-time", "(got True)"),
    (call(TOKEN | {"at": 1e18}), "recording-time", "(got 1e+18)"),
    (call(TOKEN | {"ready_at": "x"}), "recording-time", "/tokens/0/ready_at"),
    (call(TOKEN | {"event_at": "x"}), "recording-time", "/tokens/0/event_at"),
    (
        call(TOKEN | {"event_at": 1.6}),
        "recording-time",
        "/tokens/0/event_at is after the token was available",
    ),
    (call(TOKEN | {"time": 3}), "recording-token", "/tokens/0/time is not a known field"),
    (call(TOKEN | {"id": -1}), "recording-token", "/tokens/0/id"),
    (call(TOKEN | {"id": True}), "recording-token", "/tokens/0/id"),
    (call(TOKEN | {"id": 2**31}), "recording-token", "/tokens/0/id"),
    (call({"kind": "user", "text": "a", "at": 1}), "recording-token", "/tokens/0/id is missing"),
    (call(TOKEN | {"special": 1}), "recording-token", "/tokens/0/special"),
    (call(TOKEN | {"media": "video"}), "recording-token", "/tokens/0/media"),
    (call(TOKEN | {"media": ["audio"]}), "recording-token", "/tokens/0/media"),
    (call(5), "recording-token", "/tokens/0 is not a JSON object"),
    ({"call": 0, "tokens": {}}, "recording-line", "/tokens must be a list"),
    ({"call": 0}, "recording-line", "/tokens must be a list"),
    ({"tokens": []}, "recording-line", "/call is missing"),
    ({"call": "0", "tokens": []}, "recording-line", "/call"),
    (call(cached=3), "recording-line", "/cached"),
    (call(cached={"call": 0}), "recording-line", "/cached/tokens is missing"),
    (call(cached={"call": 0, "tokens": -1}), "recording-line", "/cached/tokens"),
    (call(extra=1), "recording-line", "/extra is not a known field"),
    (call(states=""), "recording-line", "/states"),
    (call(states="none.safetensors"), "recording-states", "/states does not exist"),
    (call(states="../up.safetensors"), "path-outside-corpus", "/states lies outside"),
    ("[]", "recording-line", "is not a JSON object"),
    ('{"call": 0, "tokens": [], "tokens": []}', "recording-line", "twice"),
    ('{"call": 0, "tokens": [}', "recording-line", "is not JSON"),
    ('{"call": 0, "tokens": [{"at": NaN}]}', "recording-line", "NaN"),
    ({"call": 1, "tokens": []}, "recording-call-twice", "/call is already described on line 2"),
]


@pytest.mark.parametrize(("line", "code", "words"), BAD_CALLS, ids=lambda value: str(value)[:50])
def test_a_bad_line_is_named(tmp_path: Path, line: Any, code: str, words: str) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (tmp_path / "up.safetensors").write_bytes(b"x")
    path = write(corpus, HEADER, {"call": 1, "tokens": [TOKEN]}, "", line, {"call": 9, "tokens": []})
    reader = iter(read_recording(path))
    assert len(next(reader)) == 1, "what stands before the fault is read"
    with pytest.raises(RecordingError) as caught:
        next(reader)
    assert caught.value.code == code
    assert caught.value.where == "task.recording.jsonl:4"
    assert words in str(caught.value)
    assert caught.value.next_step


def test_a_last_line_cut_in_half(tmp_path: Path) -> None:
    whole = json.dumps(call(TOKEN, TOKEN))
    for cut in range(1, len(whole) - 1):
        path = write(tmp_path, HEADER, whole[:cut], end="")
        with pytest.raises(RecordingError, match="ends within this line") as caught:
            list(read_recording(path))
        assert caught.value.code == "recording-cut"
    assert len(list(read_recording(write(tmp_path, HEADER, whole, end="")))) == 1


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER)
    path.write_bytes(path.read_bytes() + b'{"call": 0, "tokens": [{"text": "\xff"}]}\n')
    with pytest.raises(RecordingError, match="not UTF-8 at byte"):
        list(read_recording(path))
    with pytest.raises(RecordingError, match="cannot be read"):
        read_recording(tmp_path / "none.jsonl")


def test_states_may_lie_above_the_recording_inside_the_root(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (tmp_path / "s.safetensors").write_bytes(b"x")
    path = write(folder, HEADER, call(states="../s.safetensors"))
    (request,) = read_recording(path, root=tmp_path)
    assert request.states_path is not None
    assert request.states_path.samefile(tmp_path / "s.safetensors")


def test_a_large_call_is_read_one_line_at_a_time(tmp_path: Path) -> None:
    tokens = [
        {"id": i % 200_000, "kind": "thinking", "text": " w", "at": i // 7 / 100} for i in range(20_000)
    ]
    path = write(tmp_path, HEADER, *({"call": n, "tokens": tokens} for n in range(3)))
    recording = read_recording(path)
    assert isinstance(recording, Recording)
    for request in recording:
        assert isinstance(request, RecordedRequest)
        assert request.arrival_us.tolist() == [seconds_to_us(token["at"]) for token in tokens]  # type: ignore[arg-type]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([1.25, "user", "reply", "YQ==", "YQ", "audio", "", "é", [1], {}, 2**31]),
)
TOKENS = st.fixed_dictionaries(
    {
        "id": st.one_of(st.just(1), VALUES),
        "kind": st.one_of(st.just("user"), VALUES),
        "at": st.one_of(st.just(1), VALUES),
    },
    optional={
        "text": st.one_of(st.just("a"), VALUES),
        "bytes_b64": st.one_of(st.just("YQ=="), VALUES),
        "ready_at": VALUES,
        "event_at": VALUES,
        "special": VALUES,
        "media": VALUES,
        "extra": VALUES,
    },
)
CALLS = st.fixed_dictionaries(
    {"call": st.one_of(st.just(0), VALUES), "tokens": st.one_of(st.lists(TOKENS, max_size=2), VALUES)},
    optional={"cached": st.one_of(st.just({"call": 0, "tokens": 1}), VALUES), "extra": VALUES},
)
VALIDATOR = jsonschema.Draft202012Validator(schemas()["recording"])


def beyond_the_schema(document: Any) -> bool:
    """The three rules between fields that a schema of this size does not state."""
    return any(
        token.get("event_at") is not None and token["event_at"] > token["at"] for token in document["tokens"]
    ) or any(
        (token.get("text") is None) == (token.get("bytes_b64") is None)
        and (
            token.get("text") is not None or (token.get("special") is not True and token.get("media") is None)
        )
        for token in document["tokens"]
    )


@given(CALLS)
def test_the_fast_reader_and_the_schema_agree(
    tmp_path_factory: pytest.TempPathFactory, document: Any
) -> None:
    path = write(tmp_path_factory.mktemp("r"), HEADER, document)
    good = VALIDATOR.is_valid(document) and not beyond_the_schema(document)
    if good:
        assert len(list(read_recording(path))) == 1
    else:
        with pytest.raises(RecordingError):
            list(read_recording(path))
