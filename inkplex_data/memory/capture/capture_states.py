"""Hidden rows of a recording's tokens, computed by Inkling chunk by chunk and handed out as they come.

Nothing but caches and the chunk in work is held: neither a request's states nor its logits ever exist whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inkplex_data.memory.capture.capture_plan import ChunkRule, Fork, RequestPlan, plan_capture, without_done
from inkplex_data.memory.capture.inkling import Inkling
from inkplex_data.memory.capture.inkling_cache import fork_cache, share_prefix
from inkplex_data.memory.capture.native_input import Audio
from inkplex_data.memory.capture.state_bits import first_not_finite, from_tensor
from inkplex_data.memory.ownership import Ownership, Request
from inkplex_data.problems import recording_refusal

if TYPE_CHECKING:
    import torch

AUDIO, IMAGE = 1, 2
"""Values of `Request.media`."""


def capture_states(
    requests: Sequence[Request],
    model: Inkling,
    *,
    chunk_tokens: int | ChunkRule = 512,
    source: str = "recording.jsonl",
    audio: Audio | None = None,
    done: Collection[int] = (),
) -> Iterator[tuple[int, int, NDArray[np.uint16]]]:
    """(request, first position, states) of every chunk, in layout order.

    States are bfloat16 bits, uint16 [n, 3, D]. A request that begins with a cached prefix goes on from the
    cache of the request that computed it. Where `audio` brings the dMel rows of audio placeholders, they are embedded
    by the model's own front end. Requests that are `done` are computed only as far as others go on from them, and not
    handed out.

    Raises RecordingError for contradictions between requests, for a token that the model's vocabulary does
    not have, for media that are not there, and for states that are not finite.
    """
    for number, first, rows in capture_rows(
        requests, model, chunk_tokens=chunk_tokens, source=source, audio=audio, done=done
    ):
        states = from_tensor(rows)
        bad = first_not_finite(states)
        if bad is not None:
            raise recording_refusal(
                "recording-states-invalid",
                f"request {number}: the model's states at position {first + bad} are not finite in bfloat16",
                source,
            )
        yield number, first, states


def capture_rows(
    requests: Sequence[Request],
    model: Inkling,
    *,
    chunk_tokens: int | ChunkRule = 512,
    source: str = "recording.jsonl",
    audio: Audio | None = None,
    done: Collection[int] = (),
) -> Iterator[tuple[int, int, torch.Tensor]]:
    """As `capture_states`, before rounding: [n, 3, D] in the model's dtype, which hold until the next are asked for."""
    ownership = Ownership(requests, source=source)
    by_number = {request.call: request for request in requests}
    for request in requests:
        check_request(request, model, source=source, audio=audio)
    kept: dict[Fork, Any] = {}
    cache: Any = None
    for plan in without_done(plan_capture(ownership, ChunkRule.of(chunk_tokens)), done):
        cache = _start(plan, kept, model)
        request = by_number[plan.number]
        mine: list[Any] = []
        prefix = plan.chunks[0][0]
        for start, stop in plan.chunks:
            rows = _compute(request, model, cache, slice(start - prefix, stop - prefix), audio)
            for earlier in mine:
                share_prefix(earlier, cache)
            if stop in plan.keep:
                ended = stop == plan.chunks[-1][1]
                kept[Fork(plan.number, stop)] = cache if ended else fork_cache(cache)
                mine += [] if ended else [kept[Fork(plan.number, stop)]]
            if plan.number not in done:
                yield plan.number, start, rows


def _start(plan: RequestPlan, kept: dict[Fork, Any], model: Inkling) -> Any:
    if plan.fork is None:
        return model.new_cache() if plan.with_cache else None
    return kept.pop(plan.fork) if plan.last else fork_cache(kept[plan.fork])


def _compute(request: Request, model: Inkling, cache: Any, own: slice, audio: Audio | None) -> torch.Tensor:
    media = request.media[own]
    heard = media == AUDIO
    if not heard.any():
        return model.rows(request.ids[own], cache)
    assert audio is not None  # checked before
    before = int((request.media[: own.start] == AUDIO).sum())
    dmel = audio[request.call][before : before + int(heard.sum())]
    return model.rows(request.ids[own], cache, audio_at=heard, audio=dmel)


def check_request(request: Request, model: Inkling, *, source: str, audio: Audio | None = None) -> None:
    """Raise RecordingError where the model cannot compute the request's tokens."""
    where, name = f"{source}:{request.line}", f"request {request.call}"
    unknown = np.flatnonzero((request.media == 0) & ~((request.ids >= 0) & (request.ids < model.vocabulary)))
    if len(unknown):
        at = int(unknown[0])
        raise recording_refusal(
            "recording-token-id",
            f"token {at} of request {request.call} has id {request.ids[at]}; {model.identity.id} has "
            f"{model.vocabulary} ids",
            where,
        )
    images = np.flatnonzero(request.media == IMAGE)
    heard = int((request.media == AUDIO).sum())
    given = None if audio is None else audio.get(request.call)
    absent = ""
    if len(images):
        absent = f"token {images[0]} of {name} stands for an image, which the recording does not carry"
    elif heard and given is None:
        absent = f"{heard} tokens of {name} stand for audio, which the recording does not carry"
    elif heard and model.audio is None:
        absent = f"{model.identity.id} has no audio front end for the audio tokens of {name}"
    elif given is not None and len(given) != heard:
        absent = f"{name} has {heard} audio tokens and {len(given)} dMel rows"
    if absent:
        raise recording_refusal("recording-media-absent", absent, where)
