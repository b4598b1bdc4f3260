"""Audit of the stored prefixes: each is voice, silence, role text, silence, over one steady tone (seeds/000, section 9).

Which codes silence and tone have depends on the codec, which an audit does not load. But a codec starts afresh for
each of them, so in every prefix of a store they are the same codes, as far as the shorter one reaches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from inkplex_data.grid import AUDIO_CARD, CODEBOOKS, PAD, TAG_PREFIX
from inkplex_data.speech.prefix import SILENCE_FRAMES, wrap_role
from inkplex_data.store.call import StoredPrefix

_SPACE = "▁"


class PrefixAudit:
    """One pass over a store's prefixes. `pieces`: the tokenizer's vocabulary, None where the store keeps none."""

    def __init__(self, pieces: pl.Series | None) -> None:
        self._pieces = pieces
        self._steady: dict[str, np.ndarray] = {}

    def faults(self, prefix: StoredPrefix) -> Iterator[str]:
        """What is wrong with one prefix of P frames."""
        row, frames = prefix.row, prefix.frames
        voice, role_pieces = row["voice_frames"] or 0, row["role_pieces"] or 0
        role_start = voice + SILENCE_FRAMES
        if frames != role_start + role_pieces + SILENCE_FRAMES or voice < 0 or role_pieces < 0:
            yield (
                f"it has {frames} frames; {voice} of voice, {role_pieces} of role text and twice {SILENCE_FRAMES} of "
                "silence are another number"
            )
            return
        if (row["voice"] is None) != (voice == 0):
            yield f"it has {voice} frames of voice {row['voice']!r}"
        if (prefix.role != TAG_PREFIX).any():
            yield "its frames are not all tagged as a prefix"
        if (prefix.codes >= AUDIO_CARD).any():
            yield "it has a code that is none of 0…2047"
        text = prefix.text
        silent = np.concatenate([text[:role_start], text[role_start + role_pieces :]])
        if (silent != PAD).any():
            yield "it has text outside its role"
        yield from self._role_faults(row["role"], text[role_start : role_start + role_pieces])
        yield from self._steady_faults("silence", prefix.codes[:CODEBOOKS, voice:], row["prefix_id"])
        yield from self._steady_faults("tone", prefix.codes[CODEBOOKS:], row["prefix_id"])

    def _role_faults(self, role: str | None, ids: np.ndarray) -> Iterator[str]:
        if role is None:
            if len(ids):
                yield f"it has no role, and {len(ids)} pieces of one"
            return
        if self._pieces is None:
            return
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(self._pieces):
            yield "its role has a piece that the tokenizer does not have"
            return
        spelled = spell(self._pieces.gather(ids.tolist()).to_list())
        wanted = wrap_role(role)
        if "".join(spelled.split()) != "".join(wanted.split()):
            yield f"its text says {spelled!r:.80}, and its role is {wanted!r:.80}"

    def _steady_faults(self, name: str, codes: np.ndarray, prefix_id: str) -> Iterator[str]:
        longest = self._steady.get(name)
        if longest is not None:
            common = min(codes.shape[1], longest.shape[1])
            if not np.array_equal(codes[:, :common], longest[:, :common]):
                yield f"its {name} has other codes than that of the prefixes before it"
                return
        if longest is None or codes.shape[1] > longest.shape[1]:
            self._steady[name] = codes


def spell(pieces: list[str]) -> str:
    """What pieces spell together: `▁` is a space, `<0xE2>` a byte."""
    text = bytearray()
    for piece in pieces:
        is_byte = len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
        text += bytes([int(piece[3:5], 16)]) if is_byte else piece.replace(_SPACE, " ").encode()
    return text.decode("utf-8", "replace").strip()
