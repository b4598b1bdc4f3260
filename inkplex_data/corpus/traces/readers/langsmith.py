"""LangSmith runs, exported as JSON or JSONL: those of type `llm` are requests, those of type `tool` say when a call was done.

Runs of one trace are joined. Messages stand as LangChain serialises them, or as the model's interface has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inkplex_data.corpus.traces.dialogue import Dialogue, Found, TraceFormat, own_id
from inkplex_data.corpus.traces.exchanges import Exchange, gather_traces, session_dialogue
from inkplex_data.corpus.traces.langchain import chat_of
from inkplex_data.corpus.traces.raw import as_dict, as_list, within


def _runs(document: Any, place: str, depth: int = 0) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Runs with their places and traces."""
    if depth > 50:
        return
    if isinstance(document, list):
        for index, item in enumerate(document):
            yield from _runs(item, f"{place}/{index}", depth + 1)
    elif isinstance(document, dict) and isinstance(document.get("run_type"), str):
        yield document, place, own_id(document, "trace_id", "id")
        yield from _runs(as_list(document.get("child_runs")), f"{place}/child_runs", depth + 1)
    elif isinstance(document, dict) and isinstance(document.get("runs"), list):
        yield from _runs(document["runs"], f"{place}/runs", depth + 1)


def _result(run: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    output = within(run.get("outputs"), "output")
    call_id = own_id(as_dict(within(output, "kwargs") or output), "tool_call_id")
    if run.get("run_type") == "tool" and call_id and run.get("end_time") is not None:
        yield call_id, run["end_time"]


def _exchange(run: dict[str, Any], place: str, done: dict[str, Any]) -> Iterator[Exchange]:
    if run.get("run_type") != "llm":
        return
    asked = within(run.get("inputs"), "messages")
    if isinstance(within(asked, 0), list):  # a batch of one
        asked = within(asked, 0)
    parameters = as_dict(within(run.get("extra"), "invocation_params"))
    yield Exchange(
        place,
        as_list(asked),
        _answer(as_dict(run.get("outputs"))),
        tools=parameters.get("tools") or within(run.get("inputs"), "tools"),
        start=run.get("start_time"),
        first=run.get("first_token_time") or _first_token(run),
        end=run.get("end_time"),
        id=own_id(run, "id"),
        details={"model": parameters.get("model") or parameters.get("model_name")},
        results=done,
    )


def _first_token(run: dict[str, Any]) -> Any:
    events = [as_dict(event) for event in as_list(run.get("events"))]
    return next((event.get("time") for event in events if event.get("name") == "new_token"), None)


def _answer(outputs: dict[str, Any]) -> list[Any]:
    """The model's message: LangChain's generations, the interface's choices, or the message itself."""
    generation = within(outputs, "generations", 0)
    if isinstance(generation, list):
        generation = within(generation, 0)
    for message in (
        within(generation, "message"),
        within(outputs, "choices", 0, "message"),
        outputs.get("message"),
        as_list(outputs.get("messages"))[-1] if as_list(outputs.get("messages")) else None,
        outputs if "role" in outputs else None,
    ):
        if isinstance(message, dict):
            return [
                message
                if "role" in message or "kwargs" in message or "type" in message
                else {"role": "assistant", **message}
            ]
    text = within(generation, "text")
    return [{"role": "assistant", "content": text}] if isinstance(text, str) else []


def _parse(found: Found) -> Dialogue:
    return session_dialogue(found, chat_of)


FORMAT = TraceFormat(
    "langsmith", "LangSmith runs", _parse, gather=gather_traces(_runs, _result, _exchange), priority=40
)
