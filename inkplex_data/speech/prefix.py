"""The prefix of a call: voice sample, silence, role text, silence, over a steady tone on the caller's side.

    frames      voice V    silence 6    role R, one piece a frame    silence 6
    text        PAD        PAD          <system> … <system>          PAD
    agent       voice      silence      silence                      silence
    caller      sine       sine         sine                         sine

The rule is that of seeds/000, section 9. A prefix carries no loss, and it is never trimmed: one that fills the
model's context is refused. Planning and composing are pure; whoever calls brings codes and a codec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from inkplex_data.clock import FRAME_RATE_HZ, FRAME_SAMPLES, SAMPLE_RATE_HZ
from inkplex_data.errors import UsageError
from inkplex_data.grid import AUDIO_CARD, CODEBOOKS, EPAD, PAD, TAG_PREFIX, TEXT_CARD
from inkplex_data.problems import refusal
from inkplex_data.speech.codec_identity import CHUNK_SAMPLES

Codes = npt.NDArray[np.uint16]
Chunk = npt.NDArray[np.float32]
Encode = Callable[[Iterable[Chunk]], Codes]
"""A codec's `encode`: chunks of a 24 kHz waveform to uint16 [frames, 8], afresh each time."""

SILENCE_FRAMES: Final = int(0.5 * FRAME_RATE_HZ)
CONTEXT_FRAMES: Final = 3_000
SINE_HZ: Final = 440
SINE_AMPLITUDE: Final = 0.5

# Codes of silence and of the tone with the released Mimi weights. The released models were trained on these
# in every frame, also in the first ones, where the codec itself has not settled yet.
SILENCE_CODES: Final = (948, 243, 1178, 546, 1736, 1030, 1978, 2008)
SINE_CODES: Final = (430, 1268, 381, 1611, 1095, 1495, 56, 472)

ROLE_TAG: Final = "<system>"


def wrap_role(role: str) -> str:
    """The role text as the model is prompted with it: `<system> … <system>`, once."""
    text = role.strip()
    wrapped = text.startswith(ROLE_TAG) and text.endswith(ROLE_TAG) and len(text) >= 2 * len(ROLE_TAG)
    return text if wrapped else f"{ROLE_TAG} {text} {ROLE_TAG}"


@dataclass(frozen=True)
class PrefixLayout:
    """Where the parts of one prefix lie. `role_pieces` are the ids of the wrapped role text."""

    voice_frames: int
    role_pieces: tuple[int, ...]

    @property
    def role_start(self) -> int:
        """Frame of the first role piece."""
        return self.voice_frames + SILENCE_FRAMES

    @property
    def frames(self) -> int:
        """P, all frames of the prefix; 12 without voice and role."""
        return self.role_start + len(self.role_pieces) + SILENCE_FRAMES


@dataclass(frozen=True)
class Prefix:
    """One prefix as the store keeps it: codes uint16 [P, 16], text int32 [P], role uint8 [P]."""

    layout: PrefixLayout
    codes: Codes
    text: npt.NDArray[np.int32]
    role: npt.NDArray[np.uint8]


def plan_prefix(
    voice_frames: int, role_pieces: Sequence[int], *, context_frames: int = CONTEXT_FRAMES
) -> PrefixLayout:
    """Lay out a prefix; no voice is 0 frames, no role is no pieces.

    Raises CallRefused (`prefix-too-long`) where the prefix is as long as the context or longer, UsageError
    for a negative voice and for pieces that are no text, among them PAD and EPAD.
    """
    if voice_frames < 0:
        raise UsageError(f"a voice sample cannot have {voice_frames} frames")
    for piece in role_pieces:
        if not 0 <= piece < TEXT_CARD or piece in {PAD, EPAD}:
            raise UsageError(
                f"id {piece} cannot be a piece of a role text",
                next_step="Tokenize the role with the speech model's text tokenizer.",
            )
    layout = PrefixLayout(voice_frames, tuple(role_pieces))
    if layout.frames >= context_frames:
        raise refusal(
            "prefix-too-long",
            f"the prefix has {layout.frames} frames ({voice_frames} of voice, {len(role_pieces)} of role text, "
            f"{2 * SILENCE_FRAMES} of silence); the model's context has {context_frames}",
        )
    return layout


def compose_prefix(layout: PrefixLayout, voice: Codes | None, silence: Codes, sine: Codes) -> Prefix:
    """Put the parts together.

    `voice` uint16 [V, 8] or None for V = 0; `silence` uint16 [P − V, 8], the agent after the voice; `sine`
    uint16 [P, 8], the caller. Raises UsageError where a part has another shape or an id that is no code.
    """
    voice = np.zeros((0, CODEBOOKS), np.uint16) if voice is None else voice
    parts = {
        "voice": (voice, layout.voice_frames),
        "silence": (silence, layout.frames - layout.voice_frames),
        "sine": (sine, layout.frames),
    }
    for name, (codes, frames) in parts.items():
        if codes.shape != (frames, CODEBOOKS):
            raise UsageError(f"{name} codes have shape {codes.shape}; the prefix needs {(frames, CODEBOOKS)}")
        if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < AUDIO_CARD:
            raise UsageError(
                f"{name} codes reach from {codes.min()} to {codes.max()}; codes are 0…{AUDIO_CARD - 1}"
            )
    codes = np.concatenate(
        [np.concatenate([voice, silence]), sine], axis=1, dtype=np.uint16, casting="same_kind"
    )
    text = np.full(layout.frames, PAD, np.int32)
    text[layout.role_start : layout.role_start + len(layout.role_pieces)] = layout.role_pieces
    return Prefix(layout, codes, text, np.full(layout.frames, TAG_PREFIX, np.uint8))


def build_prefix(
    voice: Codes | None,
    role_pieces: Sequence[int],
    encode: Encode | None,
    *,
    context_frames: int = CONTEXT_FRAMES,
) -> Prefix:
    """Plan and compose the prefix of a voice sample's codes uint16 [V, 8] and a tokenized role.

    `encode` makes the codes of silence and tone, each a stream of its own; None takes those of the released
    Mimi weights (`codec_is_released` tells whether that is right). Raises as `plan_prefix` and
    `compose_prefix` do.
    """
    layout = plan_prefix(0 if voice is None else len(voice), role_pieces, context_frames=context_frames)
    quiet = layout.frames - layout.voice_frames
    if encode is None:
        silence, sine = _steady(SILENCE_CODES, quiet), _steady(SINE_CODES, layout.frames)
    else:
        # The codec starts afresh after the voice sample, so silence is a stream of its own.
        silence, sine = encode(silence_chunks(quiet)), encode(sine_chunks(layout.frames))
    return compose_prefix(layout, voice, silence, sine)


def codec_is_released(encode: Encode) -> bool:
    """Whether a codec has the released Mimi weights: it gives their codes for two seconds of silence.

    Most frames must agree in six codebooks or more, which leaves room for near ties between processors.
    """
    agreeing = (encode(silence_chunks(25)) == np.array(SILENCE_CODES, np.uint16)).sum(axis=1) >= 6
    return bool(agreeing.mean() > 0.5)


def silence_chunks(frames: int) -> Iterator[Chunk]:
    """`frames` frames of digital silence, float32, in the codec's chunks."""
    for _, count in _chunks(frames):
        yield np.zeros(count, np.float32)


def sine_chunks(frames: int) -> Iterator[Chunk]:
    """`frames` frames of the 440 Hz tone of amplitude 0.5, float32, in the codec's chunks; phase 0 at first."""
    # 11 periods are exactly 600 samples, so reading a table keeps the phase exact however long the tone is.
    period = SAMPLE_RATE_HZ * 11 // SINE_HZ
    table = (SINE_AMPLITUDE * np.sin(2 * np.pi * 11 / period * np.arange(period))).astype(np.float32)
    for start, count in _chunks(frames):
        yield table[(start + np.arange(count)) % period]


def _chunks(frames: int) -> Iterator[tuple[int, int]]:
    samples = frames * FRAME_SAMPLES
    for start in range(0, samples, CHUNK_SAMPLES):
        yield start, min(CHUNK_SAMPLES, samples - start)


def _steady(codes: Sequence[int], frames: int) -> Codes:
    return np.tile(np.array(codes, np.uint16), (frames, 1))
