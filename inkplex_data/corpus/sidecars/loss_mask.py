"""What of a clip may carry loss, as its sidecar says: uint8 a frame, bits of `grid`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from inkplex_data.clock import FRAME_US, samples_to_us, seconds_to_us
from inkplex_data.corpus.fields import Interval
from inkplex_data.corpus.sidecars.history_models import Spans
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar, Words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SpanUs = tuple[int, int]


def frame_mask(
    sidecar: Sidecar, frames: int, *, uncertainty_limit_us: int | None = None, text_ahead_us: int = 0
) -> NDArray[np.uint8]:
    """Loss mask of the clip, uint8 [frames], bits MASK_TEXT, MASK_AGENT and MASK_CALLER of `grid`.

    A bit is off in every frame that an excluded stretch touches or a valid one leaves partly uncovered:
    a modality that is missing or uncertain is no silence (seeds/000, "Reuse the available evidence").
    A channel of origin `missing` is off throughout. The zero-padded rest of the last frame counts as covered.
    Where text and audio are known to differ, text and agent are off. Around a word of the main speaker whose times may
    be off by more than `uncertainty_limit_us` the text is off, as far as the word may reach; None: no word is.
    `text_ahead_us`: by how much the text stream is ahead of the audio, on whose timeline all stretches are.
    """
    import numpy as np

    from inkplex_data.grid import MASK_AGENT, MASK_ALL, MASK_CALLER, MASK_TEXT

    mask = np.full(frames, MASK_ALL, np.uint8)
    grid_us = frames * FRAME_US
    for modality, bit in (("text", MASK_TEXT), ("agent", MASK_AGENT), ("caller", MASK_CALLER)):
        ahead_us = text_ahead_us if modality == "text" else 0
        spans = _lost(sidecar, modality, grid_us)
        if modality == "text" and sidecar.words is not None and uncertainty_limit_us is not None:
            spans += uncertain_words(sidecar.words, uncertainty_limit_us)
        for start_us, end_us in spans:
            # What goes on to the clip's end goes on to the stream's, and likewise at the beginning.
            first = (start_us - ahead_us * (start_us > 0)) // FRAME_US
            last = -(-(end_us - ahead_us * (end_us < grid_us)) // FRAME_US)
            mask[max(first, 0) : max(last, 0)] &= np.uint8(MASK_ALL ^ bit)
    return mask


def _lost(sidecar: Sidecar, modality: str, grid_us: int) -> list[SpanUs]:
    """Stretches of `modality` that carry no loss, in microseconds, none of them empty."""
    lost = []
    audio, masks = sidecar.audio, sidecar.masks
    if audio is not None and modality != "text" and getattr(audio, modality).origin == "missing":
        lost.append((0, grid_us))
    if sidecar.words is not None and modality != "caller":
        lost += mismatched(sidecar.words, grid_us)
    if masks is not None:
        lost += [span for span in _us(masks.excluded, modality) if span[0] < span[1]]
        duration_us = grid_us
        if audio is not None and audio.samples is not None and audio.sample_rate_hz is not None:
            duration_us = min(samples_to_us(audio.samples, audio.sample_rate_hz), grid_us)
        lost += _gaps(getattr(masks.valid, modality), duration_us)
    return lost


def mismatched(words: Words, grid_us: int) -> list[SpanUs]:
    """Where text and audio are known to differ: what is named, or all of [0, grid_us) where nothing is."""
    if words.mismatch != "known":
        return []
    named = [*words.mismatches, *(word for word in words.items if word.mismatch)]
    return [span for span in _us(named, "") if span[0] < span[1]] if named else [(0, grid_us)]


def uncertain_words(words: Words, limit_us: int) -> list[SpanUs]:
    """As far as each word of the main speaker may reach whose times may be off by more than `limit_us`."""
    timed = (
        (seconds_to_us(word.start_s), seconds_to_us(word.end_s), seconds_to_us(word.uncertainty_s))
        for word in words.items
        if word.uncertainty_s is not None and word.speaker == words.main_speaker
    )
    return [(start_us - off_us, end_us + off_us) for start_us, end_us, off_us in timed if off_us > limit_us]


def _us(spans: Iterable[Interval], modality: str) -> list[SpanUs]:
    return [
        (seconds_to_us(span.start_s), seconds_to_us(span.end_s))
        for span in spans
        if getattr(span, "modality", modality) == modality
    ]


def _gaps(valid: Spans, duration_us: int) -> list[SpanUs]:
    """What `valid` leaves uncovered of [0, duration_us)."""
    if valid is None:
        return []
    gaps, covered_us = [], 0
    for start_us, end_us in sorted(_us(valid, "")):
        if start_us > covered_us:
            gaps.append((covered_us, min(start_us, duration_us)))
        covered_us = max(covered_us, end_us)
    gaps.append((covered_us, duration_us))
    return [gap for gap in gaps if gap[0] < gap[1]]
