"""Reading sidecars, and what follows from one: what was heard, and what came too early."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.fields import read_model
from inkplex_data.corpus.sidecars.clip_time import in_clip_time
from inkplex_data.corpus.sidecars.history_models import HistorySegment
from inkplex_data.corpus.sidecars.sidecar_models import Masks, Sidecar
from inkplex_data.faults import Fault, FaultError
from inkplex_data.problems import refusal


def read_sidecar(path: Path) -> Sidecar:
    """The sidecar in `path`, its times those of the clip. Raises CallRefused (sidecar-invalid), which names every fault."""
    try:
        return in_clip_time(read_model(path, Sidecar))
    except FaultError as error:
        next_step = f"Correct the sidecar; `inkplex-data validate '{path}'` lists all its faults."
        raise refusal("sidecar-invalid", f"{path.name}: {error.what}", next_step=next_step) from error


@dataclass(frozen=True)
class Heard:
    """What a device played of one history segment. `extents_us` is None where that is unknown."""

    segment: str
    extents_us: tuple[tuple[int, int], ...] | None


def heard_spans(sidecar: Sidecar) -> list[Heard]:
    """What may be called heard, segment by segment (seeds/000, "Playback and feedback").

    A generated token, a queued frame and a rendered file are no evidence: only a playback
    acknowledgement with the observation of a playback device makes the played extent known. Without
    one, or where the device did not say how much it played, the extent is unknown, neither all nor none.
    """
    segments = sidecar.history.segments if sidecar.history else []
    return [Heard(segment.id, _device_played(segment)) for segment in segments]


def _device_played(segment: HistorySegment) -> tuple[tuple[int, int], ...] | None:
    ack = segment.playback_ack
    if ack is None or ack.observation != "playback_device" or segment.played is None:
        return None
    return tuple((seconds_to_us(span.start_s), seconds_to_us(span.end_s)) for span in segment.played)


def availability_faults(sidecar: Sidecar) -> list[Fault]:
    """Where an update may be read before it arrived, or updates are out of order.

    A frame may read an update only from the later of its `available_at_s` and `ready_at_s` on.
    """
    faults = []
    updates = sidecar.private_updates.updates if sidecar.private_updates else []
    for index, (earlier, later) in enumerate(pairwise(updates), start=1):
        if seconds_to_us(later.arrival_s) < seconds_to_us(earlier.arrival_s):
            rule = f"arrives before {earlier.id!r} at {earlier.arrival_s} s, which is listed before it"
            faults.append(Fault(rule, f"{later.arrival_s} s", f"/private_updates/updates/{index}"))
    arrival = {update.id: update.arrival_s for update in updates}
    permissions = sidecar.masks.permitted_updates if sidecar.masks else None
    for index, permitted in enumerate(permissions or ()):
        arrives_s = arrival[permitted.update]
        # A crop puts the start of what was permitted long before to zero, which stays at or after arrival.
        if seconds_to_us(permitted.start_s) < seconds_to_us(arrives_s):
            rule = f"permits {permitted.update!r} before it arrives at {arrives_s} s"
            faults.append(Fault(rule, f"{permitted.start_s} s", f"/masks/permitted_updates/{index}/start_s"))
    return faults


def with_constructed_sides(given: Sidecar, made: Sidecar) -> Sidecar:
    """What a corpus says of a one-channel call, with what its division into two streams adds: both sides are
    constructed, by what, and which stretches carry no loss because both speak in them."""
    audio, extra = given.audio, made.audio
    if audio is not None and extra is not None:
        sides = {"agent": (audio.agent, extra.agent), "caller": (audio.caller, extra.caller)}
        update: dict[str, object] = {
            side: own.model_copy(update={"index": new.index, "origin": new.origin})
            for side, (own, new) in sides.items()
        }
        update["transforms"] = [*audio.transforms, *extra.transforms]
        extra = audio.model_copy(update=update)
    masks, added = given.masks or Masks(), made.masks or Masks()
    masks = masks.model_copy(update={"excluded": [*masks.excluded, *added.excluded]})
    return given.model_copy(update={"audio": extra, "masks": masks})
