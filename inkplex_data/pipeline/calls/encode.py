"""Both sides of a call through the codec, measured as they pass: one decoding of the audio, flat memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.activity import LevelMeter, speech_activity
from inkplex_data.audio.augment_caller import Surroundings
from inkplex_data.audio.augment_plan import AugmentPlan
from inkplex_data.audio.augment_streams import change_agent, change_caller
from inkplex_data.audio.files.blocks import twice
from inkplex_data.audio.files.decoders import Samples
from inkplex_data.audio.levels import frame_energy_db
from inkplex_data.grid import LEVEL_FLOOR_DB
from inkplex_data.pipeline.calls.augmentation import Augmentation
from inkplex_data.pipeline.calls.call_streams import CallStreams
from inkplex_data.speech.codec_identity import CHUNK_FRAMES
from inkplex_data.speech.codec_stream import Codec, Codes
from inkplex_data.speech.prefix import silence_chunks

Levels = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Encoded:
    """One call's two streams. `codes` uint16 [F, 16], agent q0–7, then caller q0–7, each side a stream of its own;
    `level` int8 [F, 2] in dBFS; `activity` bool [steps of 10 ms] of agent and caller."""

    codes: npt.NDArray[np.uint16]
    level: Levels
    activity: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]


def encode(streams: CallStreams, codec: Codec, augmentation: Augmentation | None = None) -> Encoded:
    """Encode agent and caller, changed as `augmentation` says. Turns are heard before noise and echo come in.

    Raises CallRefused where the audio differs from its scan.
    """
    plan = augmentation.plan if augmentation is not None else AugmentPlan()
    meters = LevelMeter(), LevelMeter()
    agent, caller = streams.open()
    agent, caller = meters[0].watch(change_agent(agent, plan)), meters[1].watch(caller)
    if augmentation is not None:
        echoed: Iterable[Samples] = ()
        if plan.hears_agent:
            agent, echoed = twice(agent)
        around = Surroundings(
            streams.scan.samples, augmentation.caller_rms, echoed, augmentation.noise_folder
        )
        caller = change_caller(caller, plan, around)
    levels: tuple[list[Levels], list[Levels]] = ([], [])
    sides = zip(_measured(agent, levels[0]), _measured(caller, levels[1]), strict=True)
    codes = _beside_silence(codec, sides) if streams.audio.is_single else codec.encode_pair(sides)
    return Encoded(
        codes,
        np.stack([np.concatenate(own) for own in levels], axis=1),
        (speech_activity(meters[0].levels_db()), speech_activity(meters[1].levels_db())),
    )


def _beside_silence(codec: Codec, sides: Iterable[tuple[Samples, Samples]]) -> Codes:
    """Codes uint16 [F, 16] of a single stream: the agent's, and beside them those of settled silence in every frame."""
    agent = codec.encode(own for own, _ in sides)
    settled = codec.encode(silence_chunks(CHUNK_FRAMES))[-1:]
    return np.concatenate([agent, np.repeat(settled, len(agent), axis=0)], axis=1)


def _measured(chunks: Iterable[Samples], heard: list[Levels]) -> Iterator[Samples]:
    """Pass chunks on, and note the level of their frames: int8, whole dB. Chunks are of whole frames but the last."""
    for chunk in chunks:
        level_db = frame_energy_db([chunk])
        heard.append(np.clip(np.rint(level_db), LEVEL_FLOOR_DB, 0).astype(np.int8))
        yield chunk
