"""Traces become recordings: kinds, request chains, times; one bad dialogue never stops the others."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from inkplex_data.corpus.recordings.recording import Recording, read_recording
from inkplex_data.corpus.traces import formats, read_traces
from inkplex_data.corpus.traces.arrival_schedule import TraceSchedule, schedule_of
from inkplex_data.corpus.traces.dialogue import ToolCall
from inkplex_data.corpus.traces.dialogue_requests import call_arguments
from inkplex_data.corpus.traces.importer import TraceImport, import_traces
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import ConfigError, CorpusError, UsageError
from inkplex_data.memory.ownership import Ownership, tabulate

CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "What is my bill?"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "I look it up.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "bill", "arguments": '{"b": 1, "a": "é"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"pounds": 80}'},
    {"role": "assistant", "content": "It is eighty pounds."},
]


def write(folder: Path, document: Any, name: str = "trace.json") -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def imported(folder: Path, document: Any, name: str = "trace.json", **options: Any) -> TraceImport:
    options.setdefault("tokenizer", "bytes")
    return import_traces(write(folder, document, name), folder / "out", **options)


def only(result: TraceImport) -> Recording:
    (one,) = result.written
    return read_recording(one.path)


def spelled(recording: Recording) -> list[list[tuple[str, str]]]:
    """For each request the stretches of one kind: (kind, text)."""
    found = []
    for table in tabulate(list(recording))[0].partition_by("call", maintain_order=True):
        runs = table.with_columns(run=pl.col("kind").rle_id()).group_by("run", maintain_order=True)
        found.append([(part["kind"][0], b"".join(part["bytes"]).decode()) for _, part in runs])
    return found


def test_all_airline_dialogues(real_data: Path, tmp_path: Path) -> None:
    path = real_data / "traces" / "airline_12.json"
    result = import_traces(path, tmp_path)
    dialogues = json.loads(path.read_text())
    assert (len(result.written), result.refused, result.format) == (12, (), "tau-bench")
    for one, dialogue in zip(result.written, dialogues, strict=True):
        assert validate_path(one.path) == []
        recording = read_recording(one.path)
        assert (recording.header.times, recording.header.tokenizer) == ("constructed", "inkling-o200k")
        assert recording.header.schedule == TraceSchedule().model_dump()
        requests = list(recording)
        ownership = Ownership(requests)
        answers = [message for message in dialogue["traj"] if message["role"] == "assistant"]
        trailing = dialogue["traj"][-1]["role"] != "assistant"
        assert len(requests) == len(answers) + trailing
        for before, request in pairwise(requests):
            assert request.cached == (before.call, ownership.context_tokens(before.call))
        tokens = tabulate(requests)[0]
        text = b"".join(tokens.filter(pl.col("special") == False)["bytes"])  # noqa: E712
        for message in dialogue["traj"]:
            assert (message["content"] or "").encode() in text
        kinds = set(tokens["kind"].unique())
        assert kinds == {"setup", "user", "reply"} | (
            {"tool_call", "tool_result"} if any(m["role"] == "tool" for m in dialogue["traj"]) else set()
        )


def test_abcd_dialogues(real_data: Path, tmp_path: Path) -> None:
    path = real_data / "traces" / "abcd_sample.json"
    result = import_traces(path, tmp_path, tokenizer="bytes")
    assert [one.recording for one in result.written] == [
        f"abcd_sample-{number}" for number in (3592, 9489, 3695)
    ]
    assert all(validate_path(one.path) == [] for one in result.written)
    runs = [run for request in spelled(read_recording(result.written[0].path)) for run in request]
    at = runs.index(
        (
            "tool_call",
            "<|message_model|>pull-up-account<|content_invoke_tool_json|>"
            '{"name":"pull-up-account","args":{"values":["crystal minh"]}}'
            "<|end_message|><|content_model_end_sampling|>",
        )
    )
    assert runs[at + 1] == (
        "tool_result",
        "<|message_tool|>pull-up-account<|content_text|>"
        "Account has been pulled up for Crystal Minh.<|end_message|>",
    )


def test_abcd_actions_without_a_button_are_results_alone(tmp_path: Path) -> None:
    turns = [["agent", "Hi"], ["action", "Done."], ["customer", "Thanks"]]
    result = imported(tmp_path, {"train": [{"convo_id": 7, "original": turns}], "dev": [], "test": []})
    assert [kind for request in spelled(only(result)) for kind, _ in request] == [
        "reply",
        "tool_result",
        "user",
    ]


def test_framing_is_that_of_the_published_renderers(tmp_path: Path) -> None:
    """The strings are the model's own: role, author, content kind, text, end; an answer ends with a token."""
    recording = only(imported(tmp_path, CHAT))
    assert spelled(recording) == [
        [
            ("setup", "<|message_system|><|content_text|>Be kind.<|end_message|>"),
            ("user", "<|message_user|><|content_text|>What is my bill?<|end_message|>"),
            ("thinking", "<|message_model|><|content_thinking|>I look it up.<|end_message|>"),
            (
                "tool_call",
                '<|message_model|>bill<|content_invoke_tool_json|>{"name":"bill","args":{"a":"é","b":1}}'
                "<|end_message|><|content_model_end_sampling|>",
            ),
        ],
        [
            ("tool_result", '<|message_tool|>bill<|content_text|>{"pounds": 80}<|end_message|>'),
            (
                "reply",
                "<|message_model|><|content_text|>It is eighty pounds.<|end_message|>"
                "<|content_model_end_sampling|>",
            ),
        ],
    ]


def test_tools_unknown_roles_media_and_plain_arguments(tmp_path: Path) -> None:
    messages = [
        {"role": "critic", "content": "hm"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {}}],
        },
        {"role": "assistant", "content": "", "function_call": {"name": "run", "arguments": "ls -l"}},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
    ]
    tools = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
    recording = only(imported(tmp_path, {"messages": messages, "tools": tools}))
    requests = spelled(recording)
    assert requests[0] == [
        (
            "setup",
            "<|message_system|>tool_declare<|content_xml|>"
            '[{"description":"","name":"run","parameters":{"type":"object"},"type":"function"}]<|end_message|>',
        ),
        ("other", "<|message_system|>critic<|content_text|>hm<|end_message|>"),
        (
            "user",
            "<|message_user|><|content_text|>see<|end_message|><|message_user|><|content_image|><|end_message|>",
        ),
        (
            "tool_call",
            "<|message_model|>run<|content_invoke_tool_text|>ls -l<|end_message|>"
            "<|content_model_end_sampling|>",
        ),
    ]
    tokens = tabulate(list(recording))[0]
    media = tokens.filter(pl.col("media").is_not_null())
    assert media.select("media", "token_id", "kind").rows() == [
        ("image", 200_054, "user"),
        ("audio", 200_053, "user"),
    ]
    # What came after the last answer is a prompt without one: nothing of the trace is lost.
    assert requests[1][0][0] == "user"
    assert len(requests) == 2


def test_recorded_times(tmp_path: Path) -> None:
    stamps = ["2025-06-01T10:00:00Z", "2025-06-01T12:00:01.5+02:00", 1748772003.25, "1748772004250"]
    timed = [{**message, "timestamp": stamp} for message, stamp in zip(CHAT[1:], stamps, strict=True)]
    recording = only(imported(tmp_path, [CHAT[0], *timed]))
    header = recording.header
    assert (header.times, header.schedule) == ("recorded", None)
    assert header.provenance is not None
    assert header.provenance["session_starts_at_s"] == 1748772000.0
    tokens = tabulate(list(recording))[0]
    arrivals = {kind: sorted(set(part["arrival_us"])) for (kind,), part in tokens.group_by("kind")}
    assert arrivals == {
        "setup": [0],
        "user": [0],
        # The token that opens an answer is the end of its prompt.
        "thinking": [0, 1_500_000],
        "tool_call": [1_500_000],
        "tool_result": [3_250_000],
        "reply": [3_250_000, 4_250_000],
    }


def test_session_seconds_are_kept(tmp_path: Path) -> None:
    timed = [{**message, "at": 10 * index + 2.5} for index, message in enumerate(CHAT)]
    tokens = tabulate(list(only(imported(tmp_path, timed))))[0]
    assert tokens["arrival_us"].max() == 42_500_000
    assert tokens["arrival_us"].min() == 12_500_000  # no row was computed before the first question


def test_times_that_run_backwards_are_refused_by_name(tmp_path: Path) -> None:
    timed = [{**message, "at": at} for message, at in zip(CHAT, (0, 5, 4, 6, 7), strict=True)]
    result = imported(tmp_path, [{"messages": timed}, {"messages": CHAT}])
    (problem,) = result.refused
    assert problem.code == "trace-time"
    assert "/0/messages/2 has the time 4000000 µs, before /0/messages/1 at 5000000 µs" in problem.message
    assert len(result.written) == 1


@pytest.mark.parametrize("bad", ["noon", True, [1], {"s": 1}, 1e300, ""])
def test_a_time_that_is_none(tmp_path: Path, bad: object) -> None:
    result = imported(tmp_path, [{**CHAT[1], "timestamp": bad}, CHAT[4]])
    assert [problem.code for problem in result.refused] == ["trace-time"]


def test_declared_schedule(tmp_path: Path) -> None:
    schedule = schedule_of(
        {
            "prefill_s": 1,
            "prefill_tokens_per_s": 1e6,
            "tool_latency_s": 7,
            "tool_call_tokens_per_s": 1,
            "user_words_per_s": 2,
            "user_pause_s": 0.5,
        }
    )
    recording = only(imported(tmp_path, CHAT, schedule=schedule))
    assert recording.header.schedule == schedule.model_dump()
    tokens = tabulate(list(recording))[0]
    user = tokens.filter(kind="user")
    # 0.5 s of pause and four words at two a second, then one second of prefill.
    prompt = tokens.filter(call=0, kind="setup").height + user.height + 1
    assert set(user["arrival_us"]) == {3_500_000 + prompt}
    calls = tokens.filter(kind="tool_call")["arrival_us"]
    assert (calls.diff().drop_nulls() == 1_000_000).all()
    result = tokens.filter(kind="tool_result")
    assert set(result["arrival_us"]) == {calls[-1] + 7_000_000 + 1_000_000 + result.height + 1}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tool_latency": 1}, "did you mean 'tool_latency_s'"),
        ({"reply_tokens_per_s": 0}, "greater than 0"),
        ({"prefill_s": -1, "user_pause_s": "x"}, "prefill_s.*user_pause_s"),
    ],
)
def test_a_bad_schedule_names_every_fault(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        schedule_of(settings)


def test_the_same_file_gives_the_same_bytes_and_leaves_nothing_else(tmp_path: Path) -> None:
    first = only(imported(tmp_path, CHAT)).path.read_bytes()
    assert only(imported(tmp_path, CHAT)).path.read_bytes() == first
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["trace-0000.recording.jsonl"]


def test_ids_and_file_names(tmp_path: Path) -> None:
    def names(*ids: Any) -> list[tuple[str, str]]:
        dialogues = [{"id": one, "messages": CHAT} if one is not None else CHAT for one in ids]
        result = imported(tmp_path, dialogues, name="my trace.x.json")
        return [(one.recording, one.path.name) for one in result.written]

    assert names("a b", 3) == [
        ("my trace-a b", "my_trace-a_b.recording.jsonl"),
        ("my trace-3", "my_trace-3.recording.jsonl"),
    ]
    numbered = ["my trace-0000", "my trace-0001"]
    assert [name for name, _ in names("a", "a")] == numbered
    assert [name for name, _ in names("a", None)] == numbered
    assert [name for name, _ in names("a/b", "a:b")] == numbered  # one file name for both
    assert names("../../up")[0][1] == "my_trace-.._.._up.recording.jsonl"
    assert not list(tmp_path.glob("*.jsonl"))


def test_lines_of_a_jsonl(tmp_path: Path) -> None:
    lines = [json.dumps({"messages": CHAT}), "{broken", json.dumps({"other": 1}), json.dumps(CHAT), ""]
    result = imported(tmp_path, "\n".join(lines), name="many.jsonl")
    assert [one.recording for one in result.written] == ["many-0000", "many-0002"]
    assert [problem.message.split(":")[0] for problem in result.refused] == ["line 2", "line 3"]


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"role": 3, "content": "x"}, "/0/1/role must name who speaks"),
        ({"content": "x"}, "/0/1/role"),
        ({"role": "user", "content": 7}, "/0/1/content must be text"),
        ({"role": "user", "content": [{"type": "video"}]}, "/0/1/content/0 is a part of an unknown kind"),
        ({"role": "user", "content": [{"type": ["image"]}]}, "/0/1/content/0 is a part of an unknown kind"),
        ({"role": "assistant", "tool_calls": "x"}, "/0/1/tool_calls must be a list"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "/0/1/tool_calls/0 names no function"),
        ({"role": "user", "content": "\ud83d"}, "is not Unicode"),
        ({"role": "assistant", "content": "x", "thinking": "\udc00"}, "is not Unicode"),
    ],
)
def test_one_bad_dialogue_never_stops_the_others(tmp_path: Path, message: dict[str, Any], named: str) -> None:
    result = imported(tmp_path, [[CHAT[0], message], CHAT], tokenizer=None)
    assert [problem.code for problem in result.refused] == ["trace-message"]
    assert named in result.refused[0].message
    assert len(result.written) == 1


def test_a_key_given_twice_refuses_its_line_and_stays_as_it_stands_in_arguments(tmp_path: Path) -> None:
    twice = '{"role": "user", "content": "one", "content": "two"}'
    result = imported(tmp_path, f'{{"messages": [{twice}]}}\n{json.dumps({"messages": CHAT})}\n')
    assert [problem.code for problem in result.refused] == ["trace-message"]
    assert "line 1: gives the key 'content' twice" in result.refused[0].message
    assert call_arguments(ToolCall("f", '{"a": 1, "a": 2}')) is None
    assert call_arguments(ToolCall("f", '{"a": 1}')) == {"a": 1}


def test_an_empty_dialogue_is_refused(tmp_path: Path) -> None:
    result = imported(tmp_path, [[{"role": "system", "content": ""}], CHAT])
    assert "/0 holds nothing that a model could read" in result.refused[0].message


@pytest.mark.parametrize(
    "document", ["", "[", "[]", "{}", "7", '{"messages": []}', '[{"role": "x"}', "\x00", '{"a": NaN}']
)
def test_what_is_no_trace(tmp_path: Path, document: str) -> None:
    with pytest.raises(CorpusError, match="holds no dialogue of a known format"):
        imported(tmp_path, document)
    assert not (tmp_path / "out").exists()


def test_formats_are_found_by_content_and_can_be_named(tmp_path: Path, real_data: Path) -> None:
    assert [form.name for form in formats()][-2:] == ["abcd", "messages"]  # what takes the most is asked last
    assert read_traces(real_data / "traces" / "abcd_sample.json").format.name == "abcd"
    with pytest.raises(CorpusError):
        read_traces(real_data / "traces" / "abcd_sample.json", "messages")
    with pytest.raises(UsageError, match=r"Known formats: .*, abcd, messages"):
        read_traces(real_data / "traces" / "abcd_sample.json", "xml")
    with pytest.raises(CorpusError, match="cannot be read"):
        read_traces(tmp_path / "none.json")


def arrivals(recording: Any, kind: str) -> list[int]:
    tokens = tabulate(list(recording))[0].filter(kind=kind)
    return sorted(tokens["arrival_us"].to_list())


USER = {"role": "user", "content": "My bill?", "start": 0.0, "end": 1.0}


def test_a_reply_is_spread_between_its_beginning_and_its_end(tmp_path: Path) -> None:
    reply = {"role": "agent", "content": "Eighty pounds.", "start": 1.5, "end": 6.0}
    recording = only(imported(tmp_path, [USER, reply]))
    times = arrivals(recording, "reply")
    # The token that opens the answer ends its prompt, which was computed by the time at which the answer begins.
    assert times[0] == 1_080_000 + round(len(USER["content"]) * 0) or times[0] <= 1_500_000
    own = times[1:]
    steps = np.diff([1_500_000, *own])
    assert own[-1] == 6_000_000 and steps.min() > 0 and steps.max() - steps.min() <= 1
    assert arrivals(recording, "user")[0] >= 1_000_000, "nothing of the question before it was complete"
    assert (
        recording.header.times == "constructed"
        and recording.header.provenance["prefill"] == "by the schedule"
    )


@pytest.mark.parametrize(
    "times",
    [
        {"start": 1.5, "end": 6.0},
        {"started_at": 1.5, "finished_at": 6.0},
        {"time": {"start": 1.5, "end": 6.0}},
        {"timestamp": [1.5, 6.0]},
        {"timestamp": "1970-01-01T00:00:01.5Z", "end_time": 6.0, "start": 1.5},
    ],
)
def test_spellings_of_a_messages_times(tmp_path: Path, times: dict[str, Any]) -> None:
    recording = only(imported(tmp_path, [USER, {"role": "bot", "content": "Eighty pounds.", **times}]))
    assert arrivals(recording, "reply")[-1] == 6_000_000
    assert arrivals(recording, "reply")[1] > 1_500_000


def test_one_moment_is_the_end_unless_it_is_declared_to_be_the_start(tmp_path: Path) -> None:
    chat = [
        {"role": "user", "content": "My bill?", "at": 1.0},
        {"role": "assistant", "content": "Eighty.", "at": 4.0},
    ]
    recording = only(imported(tmp_path, chat))
    assert (recording.header.times, recording.header.provenance["message_times"]) == ("recorded", "end")
    assert recording.header.provenance["prefill"] == "not measured"
    assert arrivals(recording, "reply")[1:] == [4_000_000] * (len(arrivals(recording, "reply")) - 1)
    recording = only(imported(tmp_path, chat, moments="start"))
    assert (recording.header.times, recording.header.provenance["message_times"]) == ("constructed", "start")
    assert arrivals(recording, "user")[0] >= 1_800_000, "two words from 1 s on, at 2.5 a second"
    own = arrivals(recording, "reply")[1:]
    assert own[0] > 4_000_000 and len(set(own)) == len(own)


def test_a_message_that_ends_before_it_starts(tmp_path: Path) -> None:
    result = imported(tmp_path, [USER, {"role": "bot", "content": "Eighty.", "start": 3, "end": 2}])
    assert [problem.code for problem in result.refused] == ["trace-time"]


@pytest.mark.parametrize(
    ("spelled", "kind"),
    [
        ("human", "user"),
        ("User", "user"),
        ("agent", "reply"),
        ("bot", "reply"),
        ("assistant", "reply"),
        ("model", "reply"),
    ],
)
@pytest.mark.parametrize("key", ["content", "text", "transcript"])
def test_roles_and_keys_of_a_message(tmp_path: Path, spelled: str, kind: str, key: str) -> None:
    result = imported(tmp_path, {"messages": [{"role": spelled, key: "Hm"}], "system": "Be kind."})
    tokens = tabulate(list(only(result)))[0]
    said = {kind: b"".join(part["bytes"].to_list()).decode() for (kind,), part in tokens.group_by("kind")}
    assert "Hm" in said[kind] and "Be kind." in said["setup"]
    assert not result.unread


@pytest.mark.parametrize(
    ("content", "thinking", "reply"),
    [
        ("<think>Look it up.</think>\n\nEighty.", "Look it up.", "Eighty."),
        ("Look it up.</think>Eighty.", "Look it up.", "Eighty."),
        ("Wait. <think>One</think>Eighty. <think>Two", "One\nTwo", "Wait. Eighty. "),
        ("Eighty, <b>thinking</b> of it.", None, "Eighty, <b>thinking</b> of it."),
    ],
)
def test_think_spans_are_thinking(tmp_path: Path, content: str, thinking: str | None, reply: str) -> None:
    recording = only(imported(tmp_path, [CHAT[1], {"role": "assistant", "content": content}]))
    tokens = tabulate(list(recording))[0].filter(special=False)
    said = {kind: b"".join(part["bytes"].to_list()).decode() for (kind,), part in tokens.group_by("kind")}
    assert (said.get("thinking"), said["reply"]) == (thinking, reply)


def test_what_is_not_understood_is_counted_by_code(tmp_path: Path) -> None:
    chat = [
        {"role": "narrator", "content": "Later.", "mood": "calm", "refusal": None},
        {
            "role": "user",
            "content": [{"type": "text", "text": "My bill?", "cache_control": {"type": "x"}}],
            "mood": "x",
        },
        {"role": "user", "content": "So?", "text": "Other", "tool_calls": [{"function": {"name": "f"}}]},
        {
            "role": "assistant",
            "content": "Eighty.",
            "tool_calls": [{"function": {"name": "f", "strict": True}}],
        },
    ]
    result = imported(tmp_path, {"messages": chat, "notes": "n"})
    found = {(problem.code, problem.item): problem.message for problem in result.unread}
    fields = ["content.cache_control", "mood", "notes", "text", "tool_calls", "tool_calls.function.strict"]
    assert sorted(found) == [
        *(("trace-field-unknown", name) for name in fields),
        ("trace-role-unknown", "narrator"),
    ]
    assert "2 places" in found["trace-field-unknown", "mood"]
    provenance = only(result).header.provenance
    assert provenance is not None and provenance["not_understood"]["mood"] == 2  # type: ignore[index,call-overload]


def test_recorded_samples_hold_nothing_that_is_not_said(real_data: Path, tmp_path: Path) -> None:
    result = import_traces(real_data / "traces" / "airline_12.json", tmp_path, tokenizer="bytes")
    assert {(problem.code, problem.item) for problem in result.unread} == {("trace-field-unknown", "info")}
