"""The vocabulary of the frame grid: ids, tags, loss masks, token kinds and sizes that every room shares.

Constants only, and nothing is imported, so that whoever reads a file of text need not load a table library.
"""

from __future__ import annotations

from typing import Final

# Text and audio ids (seeds/000, "Native temporal computation" and section 9 of the current chapter).
PAD: Final = 3
EPAD: Final = 0
NO_INPUT: Final = -1
NOT_GENERATED: Final = -2
TEXT_CARD: Final = 32_000
AUDIO_CARD: Final = 2_048
CODEBOOKS: Final = 8
"""Codebooks per channel; a call stores 16: agent q0–7, then caller q0–7."""

# What the text stream does in a frame, as a tagger would say it. The stored array is called `role`.
TAG_PAD: Final = 0
TAG_EPAD: Final = 1
TAG_FIRST: Final = 2
TAG_LATER: Final = 3
TAG_PREFIX: Final = 4

# Bits of the per-frame loss mask: the modality is present and certain, so it may carry loss.
MASK_TEXT: Final = 1
MASK_AGENT: Final = 2
MASK_CALLER: Final = 4
MASK_ALL: Final = MASK_TEXT | MASK_AGENT | MASK_CALLER
MASK_HIDDEN_TEXT: Final = 8
"""In the same byte: the frame's text is a target that the model does not get as input (`augment.text_mask_loss: keep`)."""

LEVEL_FLOOR_DB: Final = -120
"""Digital silence in the `level` array, which holds each frame's RMS in dBFS for timelines."""

KINDS: Final = ("setup", "user", "thinking", "tool_call", "reply", "tool_result", "other")
"""Token kinds in the order of the writer's embedding table (seeds/000, section 4)."""
MEDIA: Final = ("audio", "image")
"""What a placeholder token can stand for."""
SPLITS: Final = ("train", "validation", "test")

STATE_ROWS: Final = (28, 34, 42)
"""The hidden rows that are kept of every token (DESIGN §4)."""
WINDOW: Final = 40_000
"""Newest tokens that are live."""
PLAN_LIMIT: Final = 131_072
"""Versions that one chunk of steps may see together."""
