"""What is done to a call for augmentation, drawn before anything is done. Pure.

Each kind of change has a random stream of its own, seeded by the recipe's seed and the call's id, so that a call is
changed in the same way whatever else is in the corpus, and turning one kind off leaves the others as they were.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from inkplex_data.audio.augment_caller import (
    CallerChange,
    CallSound,
    Gain,
    Noise,
    Room,
    Silence,
    Spans,
    draw_seed,
)
from inkplex_data.clock import US_PER_S, us_to_samples
from inkplex_data.config.augment import AugmentConfig, BargeInAugment

CHANGES: Final[tuple[type[CallerChange], ...]] = (Gain, Room, Noise, Silence)
"""The changes of the caller's stream, in the order in which they are made."""


@dataclass(frozen=True)
class AugmentPlan:
    """Every change of one call. `caller`: those of the caller's stream, in their order.

    `cuts`: where the agent falls silent for a constructed barge-in. `text_delay_us` adds to the recipe's.
    """

    caller: tuple[CallerChange, ...] = ()
    cuts: Spans = ()
    text_delay_us: int = 0
    text_mask: float = 0.0
    text_mask_unit: Literal["word", "piece"] = "word"
    text_mask_loss: Literal["drop", "keep"] = "drop"
    text_seed: int = 0

    @property
    def hears_agent(self) -> bool:
        """Whether a change of the caller's stream reads the agent's."""
        return any(change.hears_agent for change in self.caller)


def draws(seed: int, call_id: str, kind: str) -> np.random.Generator:
    """The random stream of one kind of change in one call."""
    digest = hashlib.sha256(f"{seed}\0{kind}\0{call_id}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


def plan_augment(config: AugmentConfig, call_id: str, call: CallSound) -> AugmentPlan:
    """Draw the changes of a call."""
    caller = []
    for kind in CHANGES:
        section, random = getattr(config, kind.name), draws(config.seed, call_id, kind.name)
        if section is not None and random.random() < section.probability:
            caller.append(kind.draw(section, random, call))
    text = draws(config.seed, call_id, "text")
    delay_s = config.text_delay_s * text.uniform(-1.0, 1.0)
    return AugmentPlan(
        caller=tuple(change for change in caller if change is not None),
        cuts=_cuts(config.barge_in, draws(config.seed, call_id, "barge-in"), call),
        # Whole milliseconds: finer than a frame by far, and readable in the sidecar.
        text_delay_us=round(delay_s * 1_000) * (US_PER_S // 1_000),
        text_mask=config.text_mask,
        text_mask_unit=config.text_mask_unit,
        text_mask_loss=config.text_mask_loss,
        text_seed=draw_seed(text),
    )


def _cuts(config: BargeInAugment | None, random: np.random.Generator, call: CallSound) -> Spans:
    """From `reaction_s` after an onset of the caller inside a unit of the agent, to the end of the agent's last unit
    that begins before the caller's unit has ended: whoever was interrupted does not go on at once."""
    if config is None:
        return ()
    found: list[tuple[int, int]] = []
    for onset_us, until_us in call.caller.tolist():
        chosen = random.random() < config.probability
        inside = call.agent[(call.agent[:, 0] < onset_us) & (call.agent[:, 1] > onset_us)]
        if not chosen or not len(inside) or (found and us_to_samples(onset_us) < found[-1][1]):
            continue
        start_us = onset_us + round(config.reaction_s * US_PER_S)
        end_us = int(call.agent[call.agent[:, 0] < max(until_us, onset_us + 1), 1].max())
        if start_us < end_us:
            found.append((us_to_samples(start_us), min(us_to_samples(end_us), call.samples)))
    return tuple(found)
