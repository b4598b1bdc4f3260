"""Models of a sidecar's history: what was said, and how much of it was generated, queued, played and cancelled.

Meanings: seeds/000, "Playback and feedback". Times as in `sidecar_models`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from inkplex_data.corpus.fields import Flag, Interval, Model, Name, Seconds, Sha256, Text


class PlaybackAck(Model):
    """Acknowledgement of playback. Only the observation of a `playback_device` is evidence of being heard."""

    observation: Literal["playback_device", "local_render", "none"]
    device: Name | None = None
    at_s: Seconds


Spans = list[Interval] | None
"""Null: the extent is unknown. An empty list: there was none."""


class HistorySegment(Model):
    """One stretch of earlier speech, with the four boundaries of seeds/000, "Playback and feedback"."""

    id: Name
    text: Text | None = None
    source: Literal["agent_output", "teacher"]
    generated: Spans = None
    queued: Spans = None
    played: Spans = None
    cancelled: Spans = None
    playback_ack: PlaybackAck | None = None
    cut: Flag = False


class History(Model):
    """What was said before and during the clip. `begins: cut` means that the conversation began before the clip."""

    begins: Literal["conversation", "cut"] = "conversation"
    segments: list[HistorySegment] = Field(default_factory=list)
    sha256: Sha256 | None = Field(default=None, description="digest of the whole history, before any crop")
