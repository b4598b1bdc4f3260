"""One call told from the other side: the caller becomes the agent. Moshi's stage 4 has each speaker once as the
model (seeds/002, "Stage 4 — Fisher")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from inkplex_data.corpus.entry import AgentCaller, CallEntry, ChannelSpec
from inkplex_data.corpus.sidecars.history_models import History
from inkplex_data.corpus.sidecars.sidecar_models import Masks, Sidecar, Transform, Valid
from inkplex_data.problems import Problem, refusal

SUFFIX: Final = "~swapped"
TRANSFORM: Final = "swap-roles"
_OTHER: Final[dict[str, Literal["agent", "caller"]]] = {"agent": "caller", "caller": "agent"}


def swapped(entry: CallEntry) -> CallEntry:
    """The entry with its sides exchanged, as `ID~swapped`, in the same family and split.

    Role prompt, voice, text conditions and task recording belong to the agent of the call as it was; who now
    speaks as the agent had none of them.
    """
    channels, audio = entry.channels, entry.audio
    turned = ChannelSpec(channels.caller, channels.agent) if channels is not None else None
    if isinstance(audio, AgentCaller):
        audio = AgentCaller(agent=audio.caller, caller=audio.agent)
    elif turned is None:
        turned = ChannelSpec(1, 0)
    return replace(
        entry,
        call_id=entry.call_id + SUFFIX,
        audio=audio,
        channels=turned,
        recording=None,
        recording_starts_at_us=0,
        role=None,
        voice=None,
        voice_prompt=None,
        voice_segment=None,
        past=(),
        text_conditions=None,
        swapped=not entry.swapped,
        channels_assumed=entry.channels_assumed or (channels is None and turned is not None),
    )


def with_swapped(entries: Sequence[CallEntry]) -> tuple[list[CallEntry], list[Problem]]:
    """Every entry followed by its exchanged twin; a twin whose id is taken is left out, with a problem."""
    taken = {entry.call_id for entry in entries}
    kept, problems = [], []
    for entry in entries:
        kept.append(entry)
        twin = swapped(entry)
        if twin.call_id in taken:
            what = f"is the id of another call, so {entry.call_id!r} is not built with its sides exchanged"
            error = refusal("duplicate-id", what, entry.where)
            problems.append(Problem.of_refusal(twin.call_id, error))
        else:
            kept.append(twin)
    return kept, problems


def swapped_sidecar(sidecar: Sidecar) -> Sidecar:
    """What a sidecar still says once the sides are exchanged: identity, audio, and what carries loss in it.

    Words, prompt, evidence, targets and history are the former agent's. The text of the new agent was nobody's
    concern, so no exclusion of text carries over, but where a crop cut words of either side. That the conversation
    began before the clip is as true as it was.
    """
    audio, masks = sidecar.audio, sidecar.masks
    if audio is not None:
        turned = {"agent": audio.caller, "caller": audio.agent}
        audio = audio.model_copy(
            update={**turned, "transforms": [*audio.transforms, Transform(name=TRANSFORM)]}
        )
    if masks is not None:
        masks = Masks(
            valid=Valid(agent=masks.valid.caller, caller=masks.valid.agent),
            excluded=[
                span.model_copy(update={"modality": _OTHER.get(span.modality, span.modality)})
                for span in masks.excluded
                if span.modality != "text" or span.reason == "cut_word"
            ],
        )
    is_cut = sidecar.history is not None and sidecar.history.begins == "cut"
    return Sidecar(
        schema_="inkplex/sidecar@1",
        identity=sidecar.identity,
        audio=audio,
        history=History(begins="cut") if is_cut else None,
        masks=masks if masks != Masks() else None,
    )
