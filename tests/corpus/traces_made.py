"""A sample of each trace format, small and in our own words: one question about a bill, a look-up, and an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

SYSTEM, ASKED, THOUGHT, RESULT, SAID = (
    "Be kind.",
    "What is my bill?",
    "I look it up.",
    "80 pounds",
    "It is eighty.",
)
MORE, LAST = "Thanks.", "Goodbye."
ARGUMENTS = {"account": 7}
CALL = {"id": "c1", "type": "function", "function": {"name": "bill", "arguments": json.dumps(ARGUMENTS)}}
TOOL = {"type": "function", "function": {"name": "bill", "parameters": {"type": "object"}}}


def day(seconds: float) -> str:
    return f"2026-03-01T10:00:{seconds:09.6f}Z"


EPOCH_S = 1772359200.0
"""2026-03-01T10:00:00Z."""


@dataclass(frozen=True)
class Sample:
    """A file's documents, one or a line each. `times`: recorded or constructed; `arrivals`: of kinds, in seconds after
    the first; `events`: `event_at` of kinds. `thinks`: whether it has the thought, `opens`: the system prompt."""

    documents: list[Any]
    times: str = "constructed"
    arrivals: dict[str, float] | None = None
    events: dict[str, float] | None = None
    thinks: bool = True
    opens: bool = True

    def text(self) -> str:
        lines = [json.dumps(document) for document in self.documents]
        return lines[0] if len(lines) == 1 else "\n".join(lines) + "\n"


CHAT = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": ASKED},
    {"role": "assistant", "content": None, "reasoning_content": THOUGHT, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": RESULT},
    {"role": "assistant", "content": SAID},
]
PLAIN_CALL = {"role": "assistant", "content": None, "tool_calls": [CALL]}

LOGGED = [
    {
        "start_time": day(1),
        "end_time": day(2),
        "request": {"model": "m", "messages": CHAT[:2], "tools": [TOOL]},
        "response": {
            "id": "r1",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": CHAT[2], "finish_reason": "tool_calls"}],
        },
    },
    {
        "start_time": day(4),
        "end_time": day(6),
        "request": {"model": "m", "messages": [*CHAT[:2], PLAIN_CALL, CHAT[3]], "tools": [TOOL]},
        "response": {"id": "r2", "object": "chat.completion", "choices": [{"message": CHAT[4]}]},
    },
]

ITEM_CALL = {
    "type": "function_call",
    "id": "fc",
    "call_id": "c1",
    "name": "bill",
    "arguments": json.dumps(ARGUMENTS),
}
RESPONSES = [
    {
        "request": {
            "input": ASKED,
            "instructions": SYSTEM,
            "tools": [{"type": "function", "name": "bill", "parameters": {}}],
        },
        "response": {
            "id": "resp_1",
            "object": "response",
            "created_at": int(EPOCH_S),
            "completed_at": int(EPOCH_S) + 1,
            "model": "m",
            "output": [
                {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": THOUGHT}]},
                ITEM_CALL,
            ],
        },
    },
    {
        "request": {"input": [{"type": "function_call_output", "call_id": "c1", "output": RESULT}]},
        "response": {
            "id": "resp_2",
            "object": "response",
            "previous_response_id": "resp_1",
            "created_at": int(EPOCH_S) + 3,
            "completed_at": int(EPOCH_S) + 5,
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": SAID, "annotations": []}],
                }
            ],
        },
    },
]

ANTHROPIC_ASKED = {"role": "user", "content": [{"type": "text", "text": ASKED}]}
ANTHROPIC_CALL = [
    {"type": "thinking", "thinking": THOUGHT, "signature": "s"},
    {"type": "tool_use", "id": "c1", "name": "bill", "input": ARGUMENTS},
]
ANTHROPIC = [
    {
        "start_time": day(1),
        "end_time": day(2),
        "request": {
            "model": "m",
            "system": SYSTEM,
            "messages": [ANTHROPIC_ASKED],
            "tools": [{"name": "bill", "input_schema": {}}],
        },
        "response": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": ANTHROPIC_CALL,
            "stop_reason": "tool_use",
            "usage": {"output_tokens": 9},
        },
    },
    {
        "start_time": day(4),
        "end_time": day(6),
        "request": {
            "model": "m",
            "system": SYSTEM,
            "messages": [
                ANTHROPIC_ASKED,
                {"role": "assistant", "content": ANTHROPIC_CALL},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": RESULT}],
                },
            ],
        },
        "response": {
            "id": "msg_2",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": SAID}],
        },
    },
]


def attribute(key: str, value: Any) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value if isinstance(value, str) else json.dumps(value)}}


def span(
    number: int, start: float, end: float, name: str, attributes: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "traceId": "t1",
        "spanId": f"s{number}",
        "name": name,
        "startTimeUnixNano": str(int((EPOCH_S + start) * 1e9)),
        "endTimeUnixNano": str(int((EPOCH_S + end) * 1e9)),
        "attributes": attributes,
    }


OTEL_ASKED = {"role": "user", "parts": [{"type": "text", "content": ASKED}]}
OTEL_CALL = {"type": "tool_call", "id": "c1", "name": "bill", "arguments": ARGUMENTS}
OTEL = {
    "resourceSpans": [
        {
            "scopeSpans": [
                {
                    "spans": [
                        span(
                            3,
                            4,
                            6,
                            "chat m",
                            [
                                attribute("gen_ai.operation.name", "chat"),
                                attribute(
                                    "gen_ai.system_instructions", [{"type": "text", "content": SYSTEM}]
                                ),
                                attribute(
                                    "gen_ai.input.messages",
                                    [
                                        OTEL_ASKED,
                                        {"role": "assistant", "parts": [OTEL_CALL]},
                                        {
                                            "role": "tool",
                                            "parts": [
                                                {"type": "tool_call_response", "id": "c1", "response": RESULT}
                                            ],
                                        },
                                    ],
                                ),
                                attribute(
                                    "gen_ai.output.messages",
                                    [
                                        {
                                            "role": "assistant",
                                            "parts": [{"type": "text", "content": SAID}],
                                            "finish_reason": "stop",
                                        }
                                    ],
                                ),
                            ],
                        ),
                        span(2, 2, 3.5, "execute_tool bill", [attribute("gen_ai.tool.call.id", "c1")]),
                        span(
                            1,
                            1,
                            2,
                            "chat m",
                            [
                                attribute(
                                    "gen_ai.system_instructions", [{"type": "text", "content": SYSTEM}]
                                ),
                                attribute("gen_ai.tool.definitions", [TOOL]),
                                attribute("gen_ai.input.messages", [OTEL_ASKED]),
                                attribute(
                                    "gen_ai.output.messages",
                                    [
                                        {
                                            "role": "assistant",
                                            "parts": [{"type": "reasoning", "content": THOUGHT}, OTEL_CALL],
                                        }
                                    ],
                                ),
                            ],
                        ),
                    ]
                }
            ]
        }
    ]
}


def lang(name: str, **fields: Any) -> dict[str, Any]:
    path = ["langchain", "schema", "messages", name]
    return {
        "lc": 1,
        "type": "constructor",
        "id": path,
        "kwargs": {"type": name.removesuffix("Message").lower(), **fields},
    }


LANG_CALL = {"name": "bill", "args": ARGUMENTS, "id": "c1", "type": "tool_call"}
LANG_ASKED = [lang("SystemMessage", content=SYSTEM), lang("HumanMessage", content=ASKED)]
LANGSMITH = [
    {
        "id": "root",
        "trace_id": "t1",
        "run_type": "chain",
        "name": "agent",
        "start_time": day(0),
        "end_time": day(7),
    },
    {
        "id": "l1",
        "trace_id": "t1",
        "run_type": "llm",
        "start_time": day(1),
        "end_time": day(2),
        "extra": {"invocation_params": {"model": "m", "tools": [TOOL]}},
        "inputs": {"messages": [LANG_ASKED]},
        "outputs": {
            "generations": [
                [
                    {
                        "text": "",
                        "message": lang(
                            "AIMessage",
                            content="",
                            tool_calls=[LANG_CALL],
                            additional_kwargs={"reasoning_content": THOUGHT},
                        ),
                    }
                ]
            ]
        },
    },
    {
        "id": "t",
        "trace_id": "t1",
        "run_type": "tool",
        "start_time": day(2),
        "end_time": day(3.5),
        "outputs": {"output": lang("ToolMessage", content=RESULT, tool_call_id="c1")},
    },
    {
        "id": "l2",
        "trace_id": "t1",
        "run_type": "llm",
        "start_time": day(4),
        "end_time": day(6),
        "inputs": {
            "messages": [
                [
                    *LANG_ASKED,
                    lang("AIMessage", content="", tool_calls=[LANG_CALL]),
                    lang("ToolMessage", content=RESULT, tool_call_id="c1"),
                ]
            ]
        },
        "outputs": {"generations": [[{"text": SAID, "message": lang("AIMessage", content=SAID)}]]},
    },
]

LANGFUSE = {
    "id": "t1",
    "name": "agent",
    "timestamp": day(0),
    "observations": [
        {
            "id": "g2",
            "traceId": "t1",
            "type": "GENERATION",
            "startTime": day(4),
            "completionStartTime": day(5),
            "endTime": day(6),
            "model": "m",
            "input": {"messages": [*CHAT[:2], PLAIN_CALL, CHAT[3]], "tools": [TOOL]},
            "output": CHAT[4],
        },
        {
            "id": "o1",
            "traceId": "t1",
            "type": "TOOL",
            "startTime": day(2),
            "endTime": day(3.5),
            "output": {"role": "tool", "tool_call_id": "c1", "content": RESULT},
        },
        {
            "id": "g1",
            "traceId": "t1",
            "type": "GENERATION",
            "startTime": day(1),
            "endTime": day(2),
            "input": {"messages": CHAT[:2]},
            "output": CHAT[2],
        },
    ],
}

TAU2 = {
    "info": {"num_trials": 1},
    "simulations": [
        {
            "id": "sim",
            "task_id": "3",
            "trial": 0,
            "termination_reason": "user_stop",
            "messages": [
                {"role": "system", "content": SYSTEM, "timestamp": day(0)},
                {
                    "role": "user",
                    "content": None,
                    "timestamp": day(0.5),
                    "tool_calls": [
                        {"id": "u1", "name": "look_at_phone", "arguments": {}, "requestor": "user"}
                    ],
                },
                {
                    "role": "tool",
                    "id": "u1",
                    "content": "no signal",
                    "requestor": "user",
                    "timestamp": day(0.7),
                },
                {"role": "user", "content": ASKED, "timestamp": day(1), "turn_idx": 1},
                {
                    "role": "assistant",
                    "content": f"<think>{THOUGHT}</think>",
                    "timestamp": day(2),
                    "cost": 0.1,
                    "tool_calls": [
                        {"id": "c1", "name": "bill", "arguments": ARGUMENTS, "requestor": "assistant"}
                    ],
                },
                {
                    "role": "tool",
                    "id": "c1",
                    "content": RESULT,
                    "requestor": "assistant",
                    "timestamp": day(4),
                },
                {"role": "assistant", "content": SAID, "timestamp": day(6), "usage": {"total": 3}},
            ],
        }
    ],
}

SWE = {
    "environment": "swe_main",
    "trajectory": [
        {"action": "bill", "observation": RESULT, "response": "", "thought": THOUGHT, "execution_time": 0.4}
    ],
    "history": [
        {"role": "system", "content": SYSTEM, "agent": "main", "message_type": "system_prompt"},
        {
            "role": "user",
            "content": [{"type": "text", "text": ASKED}],
            "agent": "main",
            "message_type": "observation",
        },
        {
            "role": "assistant",
            "content": "",
            "thought": "",
            "action": "bill",
            "agent": "main",
            "message_type": "action",
            "thinking_blocks": [{"type": "thinking", "thinking": THOUGHT, "signature": "s"}],
            "tool_calls": [CALL],
        },
        {
            "role": "tool",
            "content": RESULT,
            "agent": "main",
            "message_type": "observation",
            "tool_call_ids": ["c1"],
        },
        {"role": "assistant", "content": SAID, "agent": "main", "message_type": "action"},
    ],
    "info": {"exit_status": "submitted"},
}

SHAREGPT = [
    {
        "id": "one",
        "system": SYSTEM,
        "tools": json.dumps([TOOL]),
        "conversations": [
            {"from": "human", "value": ASKED},
            {"from": "gpt", "value": f"<think>{THOUGHT}</think>"},
            {"from": "function_call", "value": json.dumps({"name": "bill", "arguments": ARGUMENTS})},
            {"from": "observation", "value": RESULT},
            {"from": "gpt", "value": SAID},
        ],
    }
]


def event(seconds: float, kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": day(seconds), "event": {"type": kind, "event_id": f"e{seconds}", **fields}}


REALTIME = [
    event(
        0,
        "session.created",
        session={
            "id": "sess",
            "instructions": SYSTEM,
            "tools": [{"type": "function", "name": "bill", "parameters": {}}],
        },
    ),
    event(0.55, "input_audio_buffer.speech_started", item_id="i1", audio_start_ms=100),
    event(2.0, "input_audio_buffer.speech_stopped", item_id="i1", audio_end_ms=1500),
    event(
        2.1,
        "conversation.item.added",
        item={
            "id": "i1",
            "type": "message",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": None}],
        },
    ),
    event(
        2.5,
        "conversation.item.input_audio_transcription.completed",
        item_id="i1",
        content_index=0,
        transcript=ASKED,
    ),
    event(3, "response.function_call_arguments.delta", item_id="i2", response_id="r1", delta="{"),
    event(3.5, "response.output_item.done", response_id="r1", item={"id": "i2", **{**ITEM_CALL, "id": "i2"}}),
    event(
        5,
        "conversation.item.added",
        item={"id": "i3", "type": "function_call_output", "call_id": "c1", "output": RESULT},
    ),
    event(6, "response.output_audio_transcript.delta", item_id="i4", response_id="r2", delta="It"),
    event(7, "response.output_audio_transcript.done", item_id="i4", response_id="r2", transcript=SAID),
    event(
        7.5,
        "response.output_item.done",
        response_id="r2",
        item={
            "id": "i4",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_audio", "transcript": SAID}],
        },
    ),
    event(8, "response.done", response={"id": "r2"}),
]

LIVEKIT = {
    "job_id": "j",
    "room": "r",
    "audio_recording_started_at": EPOCH_S,
    "timestamp": EPOCH_S + 60,
    "chat_history": {
        "items": [
            {
                "id": "a",
                "type": "message",
                "role": "system",
                "content": [SYSTEM],
                "created_at": EPOCH_S + 0.2,
            },
            {
                "id": "b",
                "type": "message",
                "role": "user",
                "content": [ASKED],
                "created_at": EPOCH_S + 3,
                "transcript_confidence": 0.9,
                "metrics": {"started_speaking_at": EPOCH_S + 1, "stopped_speaking_at": EPOCH_S + 2.5},
            },
            {
                "id": "c",
                "type": "function_call",
                "call_id": "c1",
                "name": "bill",
                "arguments": json.dumps(ARGUMENTS),
                "created_at": EPOCH_S + 4,
            },
            {
                "id": "d",
                "type": "function_call_output",
                "call_id": "c1",
                "name": "bill",
                "output": RESULT,
                "is_error": False,
                "created_at": EPOCH_S + 5,
            },
            {
                "id": "e",
                "type": "message",
                "role": "assistant",
                "content": [SAID],
                "interrupted": False,
                "created_at": EPOCH_S + 6,
                "metrics": {"started_speaking_at": EPOCH_S + 6.2},
            },
        ]
    },
    "events": [],
}


def rtvi(seconds: float, kind: str, **data: Any) -> dict[str, Any]:
    return {"timestamp": day(seconds), "message": {"label": "rtvi-ai", "type": kind, "id": "x", "data": data}}


PIPECAT = [
    rtvi(0, "bot-ready", version="1.4.0"),
    rtvi(1, "user-started-speaking"),
    rtvi(2, "user-stopped-speaking"),
    rtvi(2.2, "user-transcription", text="What is", final=False, user_id="u", timestamp=day(2)),
    rtvi(2.5, "user-transcription", text=ASKED, final=True, user_id="u", timestamp=day(2.1)),
    rtvi(3, "bot-llm-started"),
    rtvi(3.5, "llm-function-call-in-progress", tool_call_id="c1", function_name="bill", arguments=ARGUMENTS),
    rtvi(
        5,
        "llm-function-call-stopped",
        tool_call_id="c1",
        cancelled=False,
        function_name="bill",
        result=RESULT,
    ),
    rtvi(5.5, "bot-llm-started"),
    rtvi(6, "bot-llm-text", text="It is "),
    rtvi(6.5, "bot-llm-text", text="eighty."),
    rtvi(6.6, "bot-llm-stopped"),
    rtvi(7, "bot-transcription", text=SAID),
]

LOGGED_TIMES = {"user": 0.0, "tool_result": 3.0, "tool_call": 1.0, "reply": 5.0}
SAMPLES: dict[str, Sample] = {
    "messages": Sample([CHAT]),
    "chat-completions": Sample(LOGGED, "recorded", LOGGED_TIMES),
    "responses": Sample(
        RESPONSES, "recorded", {"user": 0.0, "tool_call": 1.0, "tool_result": 3.0, "reply": 5.0}
    ),
    "anthropic": Sample(ANTHROPIC, "recorded", LOGGED_TIMES),
    "otel": Sample([OTEL], "recorded", LOGGED_TIMES, {"tool_result": 2.5}),
    "langsmith": Sample(LANGSMITH, "recorded", LOGGED_TIMES, {"tool_result": 2.5}),
    "langfuse": Sample([LANGFUSE], "constructed", LOGGED_TIMES, {"tool_result": 2.5}),
    "tau-bench": Sample(
        [TAU2], "recorded", {"user": 1.0, "tool_call": 2.0, "tool_result": 4.0, "reply": 6.0}
    ),
    "swe-agent": Sample([SWE]),
    "sharegpt": Sample([SHAREGPT]),
    # The audio began 0.45 s after the log: its speech was heard at 100 ms and logged at 0.55 s.
    "openai-realtime": Sample(
        REALTIME,
        "constructed",
        {"user": 2.05, "tool_call": 3.05, "tool_result": 4.55, "reply": 7.05},
        {"user": 1.5},
        thinks=False,
    ),
    "livekit": Sample(
        [LIVEKIT],
        "recorded",
        {"user": 3.0, "tool_call": 4.0, "tool_result": 5.0, "reply": 6.0},
        {"user": 2.5},
        thinks=False,
    ),
    "pipecat": Sample(
        PIPECAT,
        "constructed",
        {"user": 0.0, "tool_call": 1.0, "tool_result": 2.5, "reply": 4.1},
        {"user": -0.5},
        thinks=False,
        opens=False,
    ),
}
