"""Cropping a sidecar: everything in it moves together, so that no group tells another time.

Each group has its own rule for what a cut leaves (seeds/000, "Minimal dataset and private stream
contract"): the past stays known, with negative times; the future goes, because a clip must not know it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from inkplex_data.clock import FRAME_US, seconds_to_us, us_to_samples, us_to_seconds
from inkplex_data.corpus.fields import Interval
from inkplex_data.corpus.sidecars.clip_time import in_clip_time
from inkplex_data.corpus.sidecars.history_models import History, HistorySegment, Spans
from inkplex_data.corpus.sidecars.sidecar_models import (
    Audio,
    Available,
    Claim,
    Evidence,
    Excluded,
    Masks,
    PermittedUpdate,
    PrivateUpdates,
    Sidecar,
    Target,
    Targets,
    Valid,
    Words,
)
from inkplex_data.errors import UsageError

Arriving = TypeVar("Arriving", bound=Available)
Timed = TypeVar("Timed", bound=Interval)


def crop(sidecar: Sidecar, start_us: int, end_us: int) -> Sidecar:
    """The sidecar of the clip's part [start_us, end_us), both on the clip's timeline, as are all times of the result.

    - audio: the same file and digest, further in and shorter;
    - words, claims: kept where they begin inside, ends clipped. Where text would stand that the whole clip has and the
      part has not, a stretch carries no text loss (`cut_text`);
    - private updates, evidence: kept unless they arrive at `end_us` or later; those of before stay;
    - targets: clipped and marked `cut`; untimed ones stay;
    - history: what lies before stays, what begins at `end_us` or later goes; `begins` becomes `cut`;
    - masks: clipped.

    `crop(crop(s, a, b), c, d) == crop(s, a + c, a + d)` for d ≤ b − a. Raises UsageError for an empty
    part or one that begins before the clip.
    """
    if not 0 <= start_us < end_us:
        raise UsageError(
            f"a crop needs 0 ≤ start < end, got {start_us} µs to {end_us} µs",
            where=sidecar.identity.clip_id,
        )
    sidecar = in_clip_time(sidecar)
    window = _Window(start_us, end_us)
    updates = sidecar.private_updates and _private_updates(sidecar.private_updates, window)
    return sidecar.model_copy(
        update={
            "audio": sidecar.audio and _audio(sidecar.audio, window),
            "words": sidecar.words and _words(sidecar.words, window),
            "private_updates": updates,
            "evidence": sidecar.evidence and _evidence(sidecar.evidence, window),
            "targets": sidecar.targets and _targets(sidecar.targets, window),
            "history": _history(sidecar.history, window),
            "masks": _masks(
                sidecar.masks,
                window,
                known={update.id for update in updates.updates} if updates else set(),
                cut_words=cut_text(
                    (
                        (word.text, seconds_to_us(word.start_s), seconds_to_us(word.end_s))
                        for word in (sidecar.words.items if sidecar.words else ())
                    ),
                    start_us,
                    end_us,
                ),
            ),
        }
    )


class _Window:
    """The part that is kept, and the arithmetic of moving into it; exact, in microseconds."""

    def __init__(self, start_us: int, end_us: int) -> None:
        self.start_us = start_us
        self.end_us = end_us

    def moved(self, seconds: float) -> float:
        return us_to_seconds(seconds_to_us(seconds) - self.start_us)

    def begins_inside(self, seconds: float) -> bool:
        return self.start_us <= seconds_to_us(seconds) < self.end_us

    def begins_after(self, seconds: float) -> bool:
        return seconds_to_us(seconds) >= self.end_us

    def end_clipped(self, seconds: float) -> float:
        return us_to_seconds(min(seconds_to_us(seconds), self.end_us) - self.start_us)

    def clipped(self, start_s: float, end_s: float) -> tuple[float, float] | None:
        """The stretch inside the window, or None where they share no time."""
        start = max(seconds_to_us(start_s), self.start_us)
        end = min(seconds_to_us(end_s), self.end_us)
        if start >= end:
            return None
        return us_to_seconds(start - self.start_us), us_to_seconds(end - self.start_us)


def _audio(audio: Audio, window: _Window) -> Audio:
    offset_us = seconds_to_us(audio.offset_s)
    update: dict[str, object] = {
        "offset_s": us_to_seconds(offset_us + window.start_us),
        "times": "clip",
    }
    if audio.samples is not None and audio.sample_rate_hz is not None:
        # Counted from the file's start, so that rounding to samples happens once, however often one crops.
        rate = audio.sample_rate_hz
        last = us_to_samples(offset_us, rate) + audio.samples
        first = min(us_to_samples(offset_us + window.start_us, rate), last)
        update["samples"] = min(us_to_samples(offset_us + window.end_us, rate), last) - first
    return audio.model_copy(update=update)


def _words(words: Words, window: _Window) -> Words:
    kept = _by_onset(words.items, window)
    update: dict[str, object] = {"items": kept}
    if words.mismatch == "known" and (words.mismatches or any(word.mismatch for word in words.items)):
        # Of a word that was running at the cut, what is heard of it still differs.
        running = [word for word in words.items if word.mismatch and not window.begins_inside(word.start_s)]
        left = _inside([*words.mismatches, *running], window) or []
        update["mismatches"] = sorted(left, key=lambda span: (span.start_s, span.end_s))
        # With nothing named, `known` would be said of the whole crop.
        update["mismatch"] = "known" if left or any(word.mismatch for word in kept) else "none"
    main_before = [word for word in words.items if word.speaker == words.main_speaker]
    main_after = [word.text for word in kept if word.speaker == words.main_speaker]
    if words.transcript is not None and len(main_after) < len(main_before):
        update["transcript"] = " ".join(main_after)
    return words.model_copy(update=update)


def _by_onset(items: Iterable[Timed], window: _Window) -> list[Timed]:
    return [
        item.model_copy(
            update={"start_s": window.moved(item.start_s), "end_s": window.end_clipped(item.end_s)}
        )
        for item in items
        if window.begins_inside(item.start_s)
    ]


def cut_text(words: Iterable[tuple[str, int, int]], start_us: int, end_us: int) -> list[Excluded]:
    """Where the text of the part [start_us, end_us) differs from what stands there in the text of the whole: relative
    to the part. `words`: (text, start, end) in µs.

    A word that began before the part has pieces in it for as long as it sounds, and at most a frame for each of its
    bytes and one more, for no tokenizer makes more pieces; a word that begins in the frame behind the part has its
    end of padding in the last one. This holds for words of either side, each of which may be the agent one day
    (`corpus.swap`). Text that is delayed, or queued behind another word, may reach further.
    """
    window = _Window(start_us, end_us)
    cut = []
    for text, begins_us, until_us in words:
        if begins_us < start_us:
            first_us = start_us
            last_us = max(until_us, begins_us + (len(text.encode()) + 1) * FRAME_US)
        elif end_us <= begins_us < end_us + FRAME_US:
            first_us, last_us = begins_us - FRAME_US, end_us
        else:
            continue
        if inside := window.clipped(us_to_seconds(first_us), us_to_seconds(last_us)):
            cut.append(Excluded(modality="text", start_s=inside[0], end_s=inside[1], reason="cut_word"))
    return cut


def _arriving(items: Iterable[Arriving], window: _Window) -> list[Arriving]:
    kept = []
    for item in items:
        if window.begins_after(item.arrival_s):
            continue
        update = {"available_at_s": window.moved(item.available_at_s)}
        if item.ready_at_s is not None:
            update["ready_at_s"] = window.moved(item.ready_at_s)
        kept.append(item.model_copy(update=update))
    return kept


def _private_updates(updates: PrivateUpdates, window: _Window) -> PrivateUpdates:
    mapping = updates.mapping
    if mapping is not None:
        starts_us = seconds_to_us(mapping.recording_starts_at_s) + window.start_us
        mapping = mapping.model_copy(update={"recording_starts_at_s": us_to_seconds(starts_us)})
    return updates.model_copy(update={"mapping": mapping, "updates": _arriving(updates.updates, window)})


def _evidence(evidence: Evidence, window: _Window) -> Evidence:
    items = _arriving(evidence.items, window)
    known = {item.id for item in items}
    # What took an item's place only after the crop is not known in it.
    items = [
        item
        if item.superseded_by is None or item.superseded_by in known
        else item.model_copy(update={"superseded_by": None, "status": "unknown"})
        for item in items
    ]
    claims: list[Claim] = []
    for claim in evidence.claims:
        update: dict[str, object] = {"supported_by": [name for name in claim.supported_by if name in known]}
        if claim.start_s is not None and claim.end_s is not None:
            if not window.begins_inside(claim.start_s):
                continue
            update |= {"start_s": window.moved(claim.start_s), "end_s": window.end_clipped(claim.end_s)}
        claims.append(claim.model_copy(update=update))
    return evidence.model_copy(update={"items": items, "claims": claims})


def _targets(targets: Targets, window: _Window) -> Targets:
    items = [moved for target in targets.items if (moved := _target(target, window)) is not None]
    response = targets.response_start_s
    if response is not None:
        response = window.moved(response) if window.begins_inside(response) else None
    return targets.model_copy(update={"items": items, "response_start_s": response})


def _target(target: Target, window: _Window) -> Target | None:
    if target.start_s is None or target.end_s is None:
        return target
    inside = window.clipped(target.start_s, target.end_s)
    if inside is None and target.start_s == target.end_s and window.begins_inside(target.start_s):
        inside = (window.moved(target.start_s), window.moved(target.start_s))
    if inside is None:
        return None
    whole = inside == (window.moved(target.start_s), window.moved(target.end_s))
    return target.model_copy(
        update={"start_s": inside[0], "end_s": inside[1], "cut": target.cut or not whole}
    )


def _history(history: History | None, window: _Window) -> History | None:
    if window.start_us > 0:
        history = (history or History()).model_copy(update={"begins": "cut"})
    if history is None:
        return None
    segments = [moved for part in history.segments if (moved := _segment(part, window)) is not None]
    return history.model_copy(update={"segments": segments})


def _segment(segment: HistorySegment, window: _Window) -> HistorySegment | None:
    extents = {name: getattr(segment, name) for name in ("generated", "queued", "played", "cancelled")}
    starts = [span.start_s for spans in extents.values() for span in spans or ()]
    if starts and window.begins_after(min(starts)):
        return None
    update: dict[str, object] = {name: _until_end(spans, window) for name, spans in extents.items()}
    ends = [span.end_s for spans in extents.values() for span in spans or ()]
    late = any(seconds_to_us(end) > window.end_us for end in ends) or any(map(window.begins_after, starts))
    update["cut"] = segment.cut or late
    ack = segment.playback_ack
    if ack is not None:
        # At the crop's end an acknowledgement that came later had not been received: unknown again.
        moved = ack.model_copy(update={"at_s": window.moved(ack.at_s)})
        update["playback_ack"] = None if window.begins_after(ack.at_s) else moved
    return segment.model_copy(update=update)


def _until_end(spans: Spans, window: _Window) -> Spans:
    """Spans with the future taken away; the past stays, before zero."""
    if spans is None:
        return None
    return [
        Interval(start_s=window.moved(span.start_s), end_s=window.end_clipped(span.end_s))
        for span in spans
        if not window.begins_after(span.start_s)
    ]


def _masks(
    masks: Masks | None, window: _Window, *, known: set[str], cut_words: list[Excluded]
) -> Masks | None:
    if masks is None and not cut_words:
        return None
    masks = masks or Masks()
    excluded = [
        span.model_copy(update={"start_s": inside[0], "end_s": inside[1]})
        for span in masks.excluded
        if (inside := window.clipped(span.start_s, span.end_s)) is not None
    ]
    valid = Valid(
        text=_inside(masks.valid.text, window),
        agent=_inside(masks.valid.agent, window),
        caller=_inside(masks.valid.caller, window),
    )
    # A list of which nothing is left still is one: it permits nothing in this part.
    permitted = masks.permitted_updates and [
        moved
        for update in masks.permitted_updates
        if update.update in known and (moved := _permitted(update, window)) is not None
    ]
    ordered = sorted(
        excluded + cut_words, key=lambda span: (span.start_s, span.end_s, span.modality, span.reason)
    )
    cropped = masks.model_copy(update={"valid": valid, "excluded": ordered, "permitted_updates": permitted})
    # Masks that say nothing are none, so that it does not show in how many steps a crop was made.
    return cropped if cropped != Masks() else None


def _inside(spans: Spans, window: _Window) -> Spans:
    if spans is None:
        return None
    clipped = (window.clipped(span.start_s, span.end_s) for span in spans)
    return [Interval(start_s=part[0], end_s=part[1]) for part in clipped if part is not None]


def _permitted(update: PermittedUpdate, window: _Window) -> PermittedUpdate | None:
    start_us = seconds_to_us(update.start_s)
    if start_us >= window.end_us:
        return None
    if update.end_s is not None and seconds_to_us(update.end_s) <= window.start_us:
        return None
    return update.model_copy(
        update={
            "start_s": us_to_seconds(max(start_us - window.start_us, 0)),
            "end_s": None if update.end_s is None else window.end_clipped(update.end_s),
        }
    )
