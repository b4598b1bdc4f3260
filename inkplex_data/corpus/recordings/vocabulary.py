"""Inkling's token ids and the bytes that each stands for: from its `tokenizer.json`, or offline.

Offline the ids of text are those of o200k, whose ranks the splintr package bundles and which Inkling's
vocabulary begins with; the special tokens follow it from 199,999 on. Text is always encoded as text: what
looks like markup in it stays ordinary tokens, so that nobody can end a message by writing its end mark.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.libraries import require

END_OF_TEXT: Final = "<|endoftext|>"
MESSAGE_USER: Final = "<|message_user|>"
MESSAGE_MODEL: Final = "<|message_model|>"
MESSAGE_SYSTEM: Final = "<|message_system|>"
MESSAGE_TOOL: Final = "<|message_tool|>"
CONTENT_TEXT: Final = "<|content_text|>"
CONTENT_IMAGE: Final = "<|content_image|>"
CONTENT_THINKING: Final = "<|content_thinking|>"
CONTENT_AUDIO: Final = "<|content_audio_input|>"
CONTENT_XML: Final = "<|content_xml|>"
CONTENT_TOOL_JSON: Final = "<|content_invoke_tool_json|>"
CONTENT_TOOL_TEXT: Final = "<|content_invoke_tool_text|>"
END_SAMPLING: Final = "<|content_model_end_sampling|>"
END_MESSAGE: Final = "<|end_message|>"
AUDIO_END: Final = "<|audio_end|>"
AUDIO: Final = "<|audio|>"
IMAGE: Final = "<|image|>"

SPECIAL_IDS: Final = {
    END_OF_TEXT: 199_999,
    MESSAGE_USER: 200_000,
    MESSAGE_MODEL: 200_001,
    MESSAGE_SYSTEM: 200_002,
    MESSAGE_TOOL: 200_003,
    CONTENT_TEXT: 200_004,
    CONTENT_IMAGE: 200_005,
    END_SAMPLING: 200_006,
    CONTENT_THINKING: 200_008,
    END_MESSAGE: 200_010,
    CONTENT_AUDIO: 200_020,
    CONTENT_XML: 200_024,
    AUDIO_END: 200_043,
    CONTENT_TOOL_JSON: 200_049,
    AUDIO: 200_053,
    IMAGE: 200_054,
    CONTENT_TOOL_TEXT: 200_057,
}
"""Ids of Inkling's special tokens. Five stand in seeds/000, "Proposed model-role wrapper"; the placeholders
AUDIO and IMAGE, whose names here are ours, in the configuration of transformers; the others in the parsers
of vLLM and SGLang for this model."""

O200K: Final = "o200k"
BYTES: Final = "bytes"

_PLACEHOLDERS: Final = (AUDIO, IMAGE)
_FALLBACK: Final = re.compile(r"<0x([0-9A-F]{2})>")


class Vocabulary(Protocol):
    """What turns text into tokens."""

    @property
    def identity(self) -> str:
        """Name, and digest where it came from a file: what a recording's header says."""
        ...

    def encode(self, text: str) -> list[tuple[int, bytes]]:
        """(id, bytes) of every token; the bytes of all are `text` in UTF-8."""
        ...

    def special(self, name: str) -> int:
        """Id of a special token. Raises ConfigError where the vocabulary has none of that name."""
        ...


class RanksVocabulary:
    """o200k ranks with Inkling's special tokens."""

    identity = "inkling-o200k"

    @cached_property
    def _ranks(self) -> Any:
        splintr = require("splintr", extra="memory", needed_for="the offline vocabulary o200k")
        return splintr.Tokenizer.from_pretrained("o200k_base")

    @cached_property
    def _spelled(self) -> dict[int, bytes]:
        return {}

    def encode(self, text: str) -> list[tuple[int, bytes]]:
        return [(token, self._bytes_of(token)) for token in self._ranks.encode_ordinary(text)]

    def special(self, name: str) -> int:
        return SPECIAL_IDS[name]

    def _bytes_of(self, token: int) -> bytes:
        if token not in self._spelled:
            self._spelled[token] = bytes(self._ranks.decode_bytes([token]))
        return self._spelled[token]


class ByteVocabulary:
    """One token for every UTF-8 byte, ids 0–255, with Inkling's special tokens. Needs no library."""

    identity = "inkling-bytes"

    def encode(self, text: str) -> list[tuple[int, bytes]]:
        return [(value, bytes([value])) for value in text.encode()]

    def special(self, name: str) -> int:
        return SPECIAL_IDS[name]


class FileVocabulary:
    """A `tokenizer.json`, read by the tokenizers package."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError for a file that is no tokenizer."""
        tokenizers = require("tokenizers", extra="memory", needed_for="a tokenizer.json")
        try:
            data = path.read_bytes()
            self.backend = tokenizers.Tokenizer.from_buffer(data)
        except Exception as error:  # the library raises plain Exceptions
            raise ConfigError(f"cannot be read as a tokenizer.json ({error})", where=str(path)) from error
        self.backend.encode_special_tokens = True
        self._speller = Speller(self.backend)
        self.identity = f"{path.name}:{hashlib.sha256(data).hexdigest()}"
        self._where = str(path)

    def encode(self, text: str) -> list[tuple[int, bytes]]:
        encoding = self.backend.encode(text, add_special_tokens=False)
        return list(zip(encoding.ids, self._speller.spell(encoding, text), strict=True))

    def special(self, name: str) -> int:
        spelled = [name, f"<|unused_{SPECIAL_IDS[name]}|>"]
        for token in (self.backend.token_to_id(spelling) for spelling in spelled):
            if token is not None:
                return int(token)
        if name in _PLACEHOLDERS:
            return SPECIAL_IDS[name]
        raise ConfigError(
            f"the tokenizer has no special token {name}, which Inkling's messages need",
            where=self._where,
            next_step="Give the checkpoint's folder, whose chat template is then applied, or Inkling's tokenizer.json.",
        )


def load_vocabulary(spec: str | None = None) -> Vocabulary:
    """The vocabulary of `spec`: `o200k` (the default), `bytes`, or the path of a `tokenizer.json`.

    Raises UsageError for anything else, ConfigError for an unreadable file.
    """
    if spec in (None, O200K):
        return RanksVocabulary()
    if spec == BYTES:
        return ByteVocabulary()
    assert spec is not None
    path = Path(spec)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise UsageError(
            f"there is no tokenizer {spec!r}",
            next_step=f"Give {O200K}, {BYTES}, a tokenizer.json, or a folder that has one.",
        )
    return FileVocabulary(path)


class Speller:
    """The bytes of the tokens of one `tokenizers` backend."""

    def __init__(self, backend: Any) -> None:
        decoder = json.loads(backend.to_str()).get("decoder") or {}
        self._byte_level = any(
            part.get("type") == "ByteLevel" for part in [decoder, *decoder.get("decoders", ())]
        )
        self._added = {
            token: str(added.content) for token, added in backend.get_added_tokens_decoder().items()
        }

    def token(self, token: int, spelled: str | None) -> bytes | None:
        """The bytes of one token alone, which a byte-level vocabulary spells `spelled`; None where text around it decides."""
        if token in self._added:
            return self._added[token].encode()
        return _unmapped(spelled) if self._byte_level and spelled is not None else None

    def spell(self, encoding: Any, text: str) -> list[bytes]:
        """The bytes of every token of an `Encoding` of `text`, special tokens included.

        A byte-level vocabulary spells its tokens itself. With others a token has the bytes of its stretch
        of `text`, together with what was skipped before it, so that no whitespace between words is lost.
        """
        if self._byte_level:
            return [
                self._added[token].encode() if token in self._added else _unmapped(spelled)
                for token, spelled in zip(encoding.ids, encoding.tokens, strict=True)
            ]
        found, reached = [], 0
        for spelled, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
            fallback = _FALLBACK.fullmatch(spelled)
            own = bytes([int(fallback[1], 16)]) if fallback else text[max(start, reached) : end].encode()
            found.append(text[reached : max(start, reached)].encode() + own)
            reached = max(end, reached)
        return found


def _unmapped(spelled: str) -> bytes:
    alphabet = _byte_alphabet()
    return bytes(alphabet[character] for character in spelled)


@lru_cache(maxsize=1)
def _byte_alphabet() -> dict[str, int]:
    """Character → byte of the byte-level scheme: printable Latin-1 stands for itself, the rest from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [value for value in range(256) if value not in printable]
    return {chr(value): value for value in printable} | {
        chr(0x100 + index): value for index, value in enumerate(others)
    }
