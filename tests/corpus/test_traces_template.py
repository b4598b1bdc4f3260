"""A tokenizer's own chat template: the same session as Inkling's framing where the template writes that."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.corpus.recordings.vocabulary import FileVocabulary
from inkplex_data.corpus.traces.dialogue import Dialogue, Message, Part, ToolCall
from inkplex_data.corpus.traces.dialogue_requests import DialogueRequest, InklingEncoder
from inkplex_data.corpus.traces.importer import encoder_for, import_traces
from inkplex_data.corpus.traces.template import TemplateEncoder
from inkplex_data.corpus.validate import validate_path
from inkplex_data.errors import ConfigError
from tests.corpus.test_traces import write
from tests.corpus.tokenizers_made import TEMPLATE, byte_level_file, template_folder

CALL = ToolCall("bill", "{}", "c1")
DIALOGUE = Dialogue(
    (
        Message("system", "/0", (Part("Be kind."),)),
        Message("user", "/1", (Part("Käse?"),)),
        Message("assistant", "/2", (Part("One moment."),), thinking="One look", calls=(CALL, CALL)),
        Message("tool", "/3", (Part("eighty"),), name="bill", call_id="c1"),
        Message("tool", "/4", (Part("ninety"),), name="bill", call_id="c1"),
        Message("assistant", "/5", thinking="So.", calls=(CALL,)),
        Message("tool", "/6", (Part("eighty"),), name="bill", call_id="c1"),
        Message("assistant", "/7", (Part("One."),)),
        Message("assistant", "/8", (Part("Two."),)),
        Message("user", "/9", (Part("thanks"),)),
    ),
    "",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template_folder(tmp_path_factory.mktemp("inkling") / "checkpoint")


def test_the_template_of_the_framing_gives_the_framing(folder: Path) -> None:
    """Two routes to the same requests, token by token with kinds and messages."""
    encoder = encoder_for(str(folder))
    assert isinstance(encoder, TemplateEncoder)
    framed = InklingEncoder(FileVocabulary(folder / "tokenizer.json"))
    assert list(encoder.requests(DIALOGUE)) == list(framed.requests(DIALOGUE))


def test_a_dialogue_may_begin_with_an_answer(folder: Path) -> None:
    """There is no prompt to render then, so all of the first request counts as answered."""
    dialogue = Dialogue(DIALOGUE.messages[5:8], "")
    first, second = TemplateEncoder(folder).requests(dialogue)
    framed = InklingEncoder(FileVocabulary(folder / "tokenizer.json"))
    whole = next(framed.requests(dialogue))
    assert first.prompt == ()
    assert first.generated == whole.prompt + whole.generated
    assert second.cached == len(first.generated)


def test_declared_tools_reach_the_template(folder: Path) -> None:
    tool = {"name": "bill", "description": "the bill"}
    dialogue = Dialogue(DIALOGUE.messages[:3], "", (tool,))
    (request,) = TemplateEncoder(folder).requests(dialogue)
    assert b"tool_declare" in text(request)
    assert b"the bill" in text(request)


def test_a_template_that_forgets_thinking_computes_its_context_again(tmp_path: Path) -> None:
    """What a later request renders otherwise is not cached: it is computed, and owned, by that request."""
    forgetful = TEMPLATE.replace(
        "{%- if m.reasoning_content -%}", "{%- if m.reasoning_content and loop.last -%}"
    )
    folder = template_folder(tmp_path / "forgetful", forgetful)
    first, second, *_ = TemplateEncoder(folder).requests(DIALOGUE)
    assert b"One look" in text(first)
    whole = (*first.prompt, *first.generated)
    kept = whole[: second.cached]
    # It agrees up to the mark that says thinking: that one is a reply then.
    assert [token.kind for token in kept][-1] == "thinking"
    assert b"One look" not in b"".join(token.spelled for token in kept) + text(second)
    again = [token for token in second.prompt if token.message == 2]
    assert [kind for kind, _ in groupby(token.kind for token in again)] == ["reply", "tool_call"]
    assert {token.kind for token in second.prompt if token.message == 3} == {"tool_result"}
    target = write(tmp_path, [openai(message) for message in DIALOGUE.messages])
    result = import_traces(target, tmp_path / "out", tokenizer=str(folder))
    assert validate_path(result.written[0].path) == []


def test_a_template_that_refuses(tmp_path: Path) -> None:
    refusing = "{{ raise_exception('no tools here') if messages[-1].role == 'tool' else TEMPLATE }}"
    folder = template_folder(tmp_path / "refusing", refusing)
    documents = [[openai(message) for message in DIALOGUE.messages], [openai(DIALOGUE.messages[1])]]
    result = import_traces(write(tmp_path, documents), tmp_path / "out", tokenizer=str(folder))
    (problem,) = result.refused
    assert problem.code == "trace-template"
    assert "no tools here" in problem.message
    assert len(result.written) == 1


def test_a_tokenizer_without_a_template_gets_the_framing(tmp_path: Path) -> None:
    path = byte_level_file(tmp_path / "tokenizer.json")
    for spec in (path, tmp_path):
        encoder = encoder_for(str(spec))
        assert isinstance(encoder, InklingEncoder)
        assert encoder.identity.startswith("tokenizer.json:")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        TemplateEncoder(tmp_path / "nothing-here")


def text(request: DialogueRequest) -> bytes:
    return b"".join(token.spelled for token in (*request.prompt, *request.generated))


def openai(message: Message) -> dict[str, Any]:
    calls = [
        {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.calls
    ]
    return {
        "role": message.role,
        "content": message.text,
        "reasoning_content": message.thinking or None,
        "tool_calls": calls or None,
        "name": message.name or None,
        "tool_call_id": message.call_id or None,
    }
