"""What became of the agent's speech once it was generated: how far it was heard, and what a model may remember of it.

`generated` is where a segment's samples lie in the agent's stream; a device plays them in that order, perhaps later, so
what it played for so long is the beginning of what was generated, as long as that (seeds/000, "Playback and feedback are
separate observations").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from inkplex_data.clock import seconds_to_us, us_to_samples
from inkplex_data.corpus.sidecars.history_models import Spans
from inkplex_data.corpus.sidecars.sidecar import heard_spans
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar

SpanUs = tuple[int, int]
BOUNDARIES: Final = ("generated", "queued", "played", "cancelled")


@dataclass(frozen=True)
class Unheard:
    """A stretch [start_us, end_us) of the agent's stream that was not heard, where `known`, or may not have been."""

    segment: str
    start_us: int
    end_us: int
    known: bool


def unheard_spans(sidecar: Sidecar) -> list[Unheard]:
    """What of the agent's own output in the clip nobody heard, or perhaps nobody, in the order of the segments.

    With a device's evidence, all behind the extent that it played. Without it the extent stays unknown, and may end as
    early as what was cancelled begins, or, where it is not known what was cancelled, as the segment does. A segment
    of which nothing was cancelled ended by itself. What a teacher said is what its recording holds.
    """
    found = []
    for segment, heard in zip(
        sidecar.history.segments if sidecar.history else (), heard_spans(sidecar), strict=True
    ):
        generated = _us(segment.generated)
        if segment.source != "agent_output" or not generated:
            continue
        end_us = generated[-1][1]
        if heard.extents_us is not None:
            start_us = _behind(generated, sum(end - start for start, end in heard.extents_us))
        elif segment.cancelled is None:
            start_us = generated[0][0]
        else:
            start_us = min((start for start, _ in _us(segment.cancelled)), default=end_us)
        start_us = max(start_us, 0)
        if start_us < end_us:
            found.append(Unheard(segment.id, start_us, end_us, heard.extents_us is not None))
    return found


def history_row(sidecar: Sidecar | None) -> list[dict[str, Any]] | None:
    """The segments of a call's history for its row: each boundary as [start, end) in samples at 24 kHz from the clip's
    first one, null where unknown, and the device's evidence. None without a history."""
    if sidecar is None or sidecar.history is None:
        return None
    rows = []
    for segment, heard in zip(sidecar.history.segments, heard_spans(sidecar), strict=True):
        ack = segment.playback_ack
        rows.append(
            {
                "segment": segment.id,
                "source": segment.source,
                "text": segment.text,
                **{name: _samples(getattr(segment, name)) for name in BOUNDARIES},
                "is_heard_known": heard.extents_us is not None,
                "observation": None if ack is None else ack.observation,
                "device": None if ack is None else ack.device,
                "acknowledged_us": None if ack is None else seconds_to_us(ack.at_s),
                "cut": segment.cut,
            }
        )
    return rows


def _behind(generated: list[SpanUs], played_us: int) -> int:
    """Where in the agent's stream so much of a segment has been played."""
    for start_us, end_us in generated:
        if played_us < end_us - start_us:
            return start_us + played_us
        played_us -= end_us - start_us
    return generated[-1][1]


def _us(spans: Spans) -> list[SpanUs]:
    return sorted((seconds_to_us(span.start_s), seconds_to_us(span.end_s)) for span in spans or ())


def _samples(spans: Spans) -> list[dict[str, int]] | None:
    if spans is None:
        return None
    return [{"start": us_to_samples(start), "end": us_to_samples(end)} for start, end in _us(spans)]
