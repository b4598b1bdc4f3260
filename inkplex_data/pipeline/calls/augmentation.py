"""Augmentation of one call while it is built: what is drawn for it, and what that does to words, text and sidecar."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inkplex_data.audio.activity import STEP_US, LevelMeter, speech_activity
from inkplex_data.audio.augment_caller import CallSound, spans_s
from inkplex_data.audio.augment_plan import AugmentPlan, plan_augment
from inkplex_data.audio.turns import units_of_activity
from inkplex_data.clock import FRAME_US, samples_to_us, seconds_to_us, us_to_seconds
from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.folder import AUDIO_SUFFIXES
from inkplex_data.corpus.sidecars.sidecar_models import Audio, Channel, Identity, Sidecar, Transform
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.errors import ConfigError
from inkplex_data.pipeline.calls.call_streams import CallStreams
from inkplex_data.pipeline.calls.prepare import main_speaker


@dataclass(frozen=True)
class Augmentation:
    """The changes of one call, and the caller's RMS that its noise is relative to."""

    plan: AugmentPlan
    caller_rms: float
    seed: int
    noise_folder: Path | None


def prepare(streams: CallStreams, recipe: Recipe, call_id: str, split: str) -> Augmentation | None:
    """Listen to both sides once, without encoding, and draw the call's changes; None where it gets none."""
    config = recipe.augment
    if config is None or split not in config.splits:
        return None
    meters, caller_squares = (LevelMeter(), LevelMeter()), 0.0
    for agent, caller in zip(*streams.open(), strict=True):
        meters[0].push(agent)
        meters[1].push(caller)
        caller_squares += float(np.square(caller, dtype=np.float64).sum())
    units = [units_of_activity(speech_activity(meter.levels_db()), STEP_US) for meter in meters]
    folder = config.noise.folder if config.noise is not None else None
    names = noise_files(folder) if folder is not None else ()
    rms = (caller_squares / max(streams.scan.samples, 1)) ** 0.5
    sound = CallSound(streams.scan.samples, units[0], units[1], rms, names)
    plan = plan_augment(config, call_id, sound)
    return Augmentation(plan, rms, config.seed, None if folder is None else Path(folder))


def noise_files(folder: str) -> tuple[str, ...]:
    """Names of the audio files in `folder` and below, sorted. Raises ConfigError where there are none."""
    root = Path(folder)
    found = sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.suffix.lower() in AUDIO_SUFFIXES and path.is_file()
    )
    if not found:
        raise ConfigError(
            "the folder holds no audio file" if root.is_dir() else "there is no such folder",
            where=f"augment.noise.folder: {folder}",
            next_step="Name a folder of noise files, or null for coloured noise.",
        )
    return tuple(found)


def cut_words(
    words: Sequence[TimedWord], plan: AugmentPlan, speaker: str | None
) -> tuple[list[TimedWord], int]:
    """The words that are left where the agent falls silent, and how many ended early or are gone.

    A word that a cut goes through keeps its onset and ends there; one that begins inside a cut is gone.
    """
    cuts = [(samples_to_us(start), samples_to_us(end)) for start, end in plan.cuts]
    kept, touched = [], 0
    for word in words:
        hit = next((cut for cut in cuts if word.start_us < cut[1] and word.end_us > cut[0]), None)
        if not word.is_by(speaker) or hit is None:
            kept.append(word)
            continue
        touched += 1
        if word.start_us < hit[0]:
            kept.append(dataclasses.replace(word, end_us=hit[0], method="cut"))
    return kept, touched


def keeping_text(
    augmentation: Augmentation, words: Sequence[TimedWord], recipe: Recipe, frames: int
) -> Augmentation:
    """The changes without those that would leave the agent without a word to place: a call is not lost to them."""
    plan, speaker = augmentation.plan, main_speaker(recipe)
    delay_us = seconds_to_us(recipe.text.delay_s)

    def places(plan: AugmentPlan) -> bool:
        late_us = delay_us + plan.text_delay_us
        kept, _ = cut_words(words, plan, speaker)
        return any(
            word.is_by(speaker) and word.end_us > late_us and word.start_us - late_us < frames * FRAME_US
            for word in kept
        )

    for less in ({}, {"text_delay_us": 0}, {"cuts": ()}):
        left = dataclasses.replace(plan, **less)
        if places(left):
            return dataclasses.replace(augmentation, plan=left)
    return dataclasses.replace(augmentation, plan=dataclasses.replace(plan, text_delay_us=0, cuts=()))


def transforms(augmentation: Augmentation) -> list[Transform]:
    """The changes as the sidecar records them, in the order in which they are made."""
    plan, seed = augmentation.plan, augmentation.seed
    made: list[tuple[str, dict[str, Any]]] = []
    if plan.cuts:
        made.append(("barge-in", {"channel": "agent", "cuts_s": spans_s(plan.cuts)}))
    for change in plan.caller:
        made += change.record()
    if plan.text_delay_us:
        made.append(("text-delay", {"delay_s": us_to_seconds(plan.text_delay_us)}))
    if plan.text_mask:
        told = {"unit": plan.text_mask_unit, "loss": plan.text_mask_loss}
        unusual = {key: value for key, value in told.items() if value not in ("word", "drop")}
        made.append(("text-mask", {"part": plan.text_mask, "seed": plan.text_seed, **unusual}))
    return [Transform(name=name, seed=max(seed, 0), settings=settings) for name, settings in made]


def recorded(
    sidecar: Sidecar | None, call_id: str, made: Sequence[Transform], *, constructed: bool
) -> Sidecar | None:
    """The sidecar with what was done added to it; a new one where the call has none. `constructed`: the agent's side
    is no longer what was recorded."""
    if not made:
        return sidecar
    if sidecar is None:
        sidecar = Sidecar(schema_="inkplex/sidecar@1", identity=Identity(clip_id=call_id))
    audio = sidecar.audio or Audio()
    update: dict[str, Any] = {"transforms": [*audio.transforms, *made]}
    if constructed:
        update["agent"] = (audio.agent or Channel()).model_copy(update={"origin": "constructed"})
    return sidecar.model_copy(update={"audio": audio.model_copy(update=update)})
