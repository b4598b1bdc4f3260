"""Both sides of a call through the codec, measured as they pass: one decoding of the audio, flat memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.activity import LevelMeter, speech_activity
from inkplex_data.audio.augment_plan import AugmentPlan
from inkplex_data.audio.augment_streams import change_agent, change_caller
from inkplex_data.audio.call_scan import ROLES
from inkplex_data.audio.levels import frame_energy_db
from inkplex_data.config.recipe import Recipe
from inkplex_data.grid import LEVEL_FLOOR_DB
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.augmentation import Augmentation
from inkplex_data.pipeline.calls.call_streams import CallStreams


@dataclass(frozen=True)
class Encoded:
    """One call's two streams. `codes` uint16 [F, 16], agent q0–7, then caller q0–7, each side a stream of its own;
    `level` int8 [F, 2] in dBFS; `activity` bool [steps of 10 ms] of agent and caller."""

    codes: npt.NDArray[np.uint16]
    level: npt.NDArray[np.int8]
    activity: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]


def encode(streams: CallStreams, recipe: Recipe, augmentation: Augmentation | None = None) -> Encoded:
    """Encode agent and caller, changed as `augmentation` says. Turns are heard before noise and echo come in.

    Raises CallRefused where the audio differs from its scan.
    """
    mimi = tools.codec(recipe.codec.id)

    def agent() -> Iterator[npt.NDArray[np.float32]]:
        plan = augmentation.plan if augmentation is not None else AugmentPlan()
        return change_agent(streams.open("agent"), plan)

    codes, levels, activity = [], [], []
    for role in ROLES:
        heard: list[npt.NDArray[np.int8]] = []
        meter = LevelMeter()
        stream = meter.watch(agent() if role == "agent" else streams.open("caller"))
        if role == "caller" and augmentation is not None:
            stream = change_caller(
                stream,
                augmentation.plan,
                samples=streams.scan.samples,
                rms=augmentation.caller_rms,
                agent=agent,
                noise_folder=augmentation.noise_folder,
            )
        codes.append(mimi.encode(_measured(stream, heard)))
        levels.append(np.concatenate(heard))
        activity.append(speech_activity(meter.levels_db()))
    return Encoded(np.concatenate(codes, axis=1), np.stack(levels, axis=1), (activity[0], activity[1]))


def _measured(
    chunks: Iterable[npt.NDArray[np.float32]], heard: list[npt.NDArray[np.int8]]
) -> Iterator[npt.NDArray[np.float32]]:
    """Pass chunks on, and note the level of their frames: int8, whole dB. Chunks are of whole frames but the last."""
    for chunk in chunks:
        level_db = frame_energy_db([chunk])
        heard.append(np.clip(np.rint(level_db), LEVEL_FLOOR_DB, 0).astype(np.int8))
        yield chunk
