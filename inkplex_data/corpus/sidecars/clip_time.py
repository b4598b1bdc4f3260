"""From the timeline of a clip's source to the clip's own: every time of a sidecar moves by where the clip begins in it."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from inkplex_data.clock import seconds_to_us, us_to_seconds
from inkplex_data.corpus.fields import SECONDS_LIMIT, Model
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.faults import Fault, FaultError

TIMES: Final = frozenset(
    {"start_s", "end_s", "available_at_s", "ready_at_s", "response_start_s", "at_s", "event_at_s"}
)
"""Fields that hold a time of the clip's or its source's timeline. `recording_starts_at_s` is session time."""

ELSEWHERE: Final = frozenset({"prompt"})
"""Groups without a time of that timeline: a voice segment is a stretch of another call."""

Moved = TypeVar("Moved", bound=Model)


def in_clip_time(sidecar: Sidecar) -> Sidecar:
    """The same sidecar with `times: clip`. One whose clip is the beginning of its source stays as it is.

    Raises FaultError for a time that does not fit in 64-bit microseconds once it is moved.
    """
    audio = sidecar.audio
    if audio is None or audio.times == "clip" or not audio.offset_s:
        return sidecar
    moved = _moved(sidecar, seconds_to_us(audio.offset_s))
    return moved.model_copy(update={"audio": audio.model_copy(update={"times": "clip"})})


def _moved(model: Moved, by_us: int) -> Moved:
    """The model with each of TIMES in it earlier by `by_us`, exact in microseconds."""
    update: dict[str, Any] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        if name in ELSEWHERE:
            continue
        if isinstance(value, Model):
            update[name] = _moved(value, by_us)
        elif isinstance(value, list) and value and isinstance(value[0], Model):
            update[name] = [_moved(item, by_us) for item in value]
        elif name in TIMES and value is not None:
            update[name] = us_to_seconds(seconds_to_us(value) - by_us)
            if update[name] < -SECONDS_LIMIT:
                raise FaultError(Fault("is too long before the clip", f"{value} s", f"/{name}"))
    return model.model_copy(update={name: new for name, new in update.items() if new != getattr(model, name)})
