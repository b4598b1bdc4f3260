"""The call with its evidence as text in the role prompt: the same information by the way that the model already has."""

from __future__ import annotations

import numpy as np

from inkplex_data.errors import ConfigError
from inkplex_data.grid import PAD, TAG_PREFIX
from inkplex_data.memory.branches import NEVER_US
from inkplex_data.speech.prefix import SILENCE_FRAMES, wrap_role
from inkplex_data.speech.tokenizer import TextTokenizer
from inkplex_data.store.call import OWN, Call, ComposedCall, StoredPrefix
from inkplex_data.store.reader import Store
from inkplex_data.trainer.grounding.cases import Branch

MAX_PIECES = 400
"""Of the evidence; as many frames go before the call."""


def store_tokenizer(store: Store) -> TextTokenizer | None:
    """The tokenizer that a store was built with; None where it is not at hand."""
    wanted = store.description.get("tokenizer", {}).get("sha256")
    for path in (None, store.setting("text", "tokenizer")):
        try:
            tokenizer = TextTokenizer.load(path)
        except ConfigError:
            continue
        if tokenizer.sha256 == wanted:
            return tokenizer
    return None


def evidence_text(branch: Branch) -> str:
    """All results that a branch ever has, in order of arrival."""
    return " ".join(
        item.text.strip()
        for item in branch.items
        if not item.given and item.status != "pending" and item.arrival_us < NEVER_US // 2
    )


class PromptedCall(Call):
    """A call behind its own prefix, whose role text goes on with `text`."""

    def __init__(self, store: Store, call: Call, tokenizer: TextTokenizer, text: str) -> None:
        super().__init__(store, call.row)
        self._prefix = _prompted(call.with_prefix().prefix, tokenizer, text)

    def with_prefix(self, *, voice: str | None = OWN, role: str | None = OWN) -> ComposedCall:
        return ComposedCall(self, self._prefix)


def _prompted(prefix: StoredPrefix, tokenizer: TextTokenizer, text: str) -> StoredPrefix:
    """The prefix with more role text, one piece a frame, over the sound that it has between its role and the call."""
    role = str(prefix.row.get("role") or "")
    pieces = tokenizer.encode(wrap_role(f"{role} {text}".strip()))[:MAX_PIECES]
    if not prefix.frames:
        return prefix
    own = prefix.stored["text"]
    spoken = np.flatnonzero(own != PAD)
    first = int(spoken[0]) if len(spoken) else prefix.frames - SILENCE_FRAMES
    after = int(spoken[-1]) + 1 if len(spoken) else first
    quiet = np.arange(after, prefix.frames)
    filling = np.resize(quiet, len(pieces))
    frames = np.concatenate([np.arange(first), filling, quiet])
    stored = {name: stream[frames].copy() for name, stream in prefix.stored.items()}
    stored["text"][:] = PAD
    stored["text"][first : first + len(pieces)] = pieces
    stored["role"][:] = TAG_PREFIX
    return StoredPrefix({**prefix.row, "role": f"{role} {text}".strip()}, stored)
