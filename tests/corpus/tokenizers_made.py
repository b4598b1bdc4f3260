"""Tokenizer files made on the spot: a byte-level one with Inkling's special tokens, and one with byte fallback."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from inkplex_data.corpus.recordings.vocabulary import AUDIO, IMAGE, SPECIAL_IDS

LINES = ["the bill is eighty pounds, the bill is late", "search flight to the SEA", "der Käse, ein Brief"] * 4

TEMPLATE = """
{%- macro block(opener, author, content, text) -%}
<|{{ opener }}|>{{ author }}<|{{ content }}|>{{ text }}<|end_message|>
{%- endmacro -%}
{%- if tools -%}
{{ block("message_system", "tool_declare", "content_xml", tools | map(attribute="function") | list | tojson) }}
{%- endif -%}
{%- for m in messages -%}
{%- if m.role == "assistant" -%}
{%- if m.reasoning_content -%}{{ block("message_model", "", "content_thinking", m.reasoning_content) }}{%- endif -%}
{%- if m.content -%}{{ block("message_model", "", "content_text", m.content) }}{%- endif -%}
{%- for c in m.tool_calls or [] -%}
{{ block("message_model", c.function.name, "content_invoke_tool_json", '{"name":"' ~ c.function.name ~ '","args":' ~ c.function.arguments | tojson ~ '}') }}
{%- endfor -%}
{%- if not (m.reasoning_content or m.content or m.tool_calls) -%}<|message_model|>{%- endif -%}
<|content_model_end_sampling|>
{%- elif m.role == "tool" -%}{{ block("message_tool", m.name, "content_text", m.content) }}
{%- else -%}{{ block("message_" ~ m.role, "", "content_text", m.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|message_model|>{%- endif -%}
"""
"""Inkling's framing as a chat template, without the tool arguments' canonical spacing."""


def byte_level_file(path: Path) -> Path:
    """A byte-level BPE whose special tokens have Inkling's names (and other ids)."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    names = [name for name in SPECIAL_IDS if name not in (AUDIO, IMAGE)]
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    tokenizer.save(str(path))
    return path


def fallback_file(path: Path) -> Path:
    """A BPE in SentencePiece's manner: `▁` for spaces, bytes as `<0xNN>` for what has no piece."""
    characters = sorted({character for line in LINES for character in line if character.isascii()} | {"▁"})
    vocabulary = {"<unk>": 0}
    for token in [*(f"<0x{value:02X}>" for value in range(256)), *characters, "th", "the", "▁the"]:
        vocabulary.setdefault(token, len(vocabulary))
    merges = [("t", "h"), ("th", "e"), ("▁", "the")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.save(str(path))
    return path


def template_folder(folder: Path, template: str = TEMPLATE) -> Path:
    """A tokenizer folder as checkpoints have it."""
    folder.mkdir()
    byte_level_file(folder / "tokenizer.json")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
