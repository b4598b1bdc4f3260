"""The recipe section `augment`. Its numbers are those of Moshi's training (seeds/002, "The engineering that makes
two streams behave like two people", and stages 2 and 5)."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from inkplex_data.config.section import Section

Probability: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Decibels: TypeAlias = Annotated[float, Field(ge=-120, le=60)]
Seconds: TypeAlias = Annotated[float, Field(ge=0, le=600)]


class _Ranges(Section):
    """A section in which no `min_…` is above its `max_…`."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for name, low in vars(self).items():
            upper = name.replace("min_", "max_", 1)
            if name.startswith("min_") and low > getattr(self, upper):
                raise ValueError(f"{name} must not be above {upper}")
        return self


class GainAugment(_Ranges):
    """One gain for the whole of the caller's stream."""

    probability: Probability = Field(0.5, description="share of the calls")
    min_db: Decibels = Field(-24.0, description="smallest gain")
    max_db: Decibels = Field(15.0, description="largest gain; nothing is clipped")


class NoiseAugment(_Ranges):
    """Noise throughout the caller's stream."""

    probability: Probability = Field(0.3, description="share of the calls")
    min_db: Decibels = Field(
        -30.0, description="smallest level of the noise relative to the caller's RMS over the call"
    )
    max_db: Decibels = Field(6.0, description="largest such level; the signal-to-noise ratio is its negative")
    folder: str | None = Field(
        None,
        description="folder of noise files, repeated to the call's length; null: white, pink or brown noise",
    )


class RoomAugment(_Ranges):
    """The caller's room: the agent's voice comes back from the loudspeaker, and the caller's own reverberates."""

    probability: Probability = Field(
        0.3, description="share of the calls; echo and reverberation come together"
    )
    max_echo: Annotated[float, Field(ge=0, le=1)] = Field(
        0.2, description="largest scale of the agent's echo; the smallest is 0"
    )
    min_delay_s: Seconds = Field(0.1, description="shortest delay of the echo")
    max_delay_s: Seconds = Field(0.5, description="longest delay of the echo")
    min_reverb_s: Annotated[float, Field(ge=0.05, le=2)] = Field(
        0.1, description="shortest reverberation time, to −60 dB"
    )
    max_reverb_s: Annotated[float, Field(ge=0.05, le=2)] = Field(
        0.5, description="longest reverberation time, to −60 dB"
    )


class SilenceAugment(Section):
    """Stretches of digital silence in the caller's stream."""

    probability: Probability = Field(0.5, description="share of the calls")
    where: Literal["pauses", "anywhere"] = Field(
        "pauses",
        description="pauses: only where the caller says nothing; anywhere: sound and silence take turns, and the agent answers what nobody hears",
    )
    max_s: Annotated[float, Field(gt=0, le=600)] = Field(30.0, description="longest stretch")


class BargeInAugment(Section):
    """Barge-ins constructed where the caller begins while the agent speaks: audio and words of the agent end there."""

    probability: Probability = Field(0.5, description="share of the possible onsets")
    reaction_s: Seconds = Field(
        0.2, description="seconds from the caller's onset to the agent's silence; 0 cuts at the onset"
    )


class AugmentConfig(Section):
    """Changes made to training calls; `augment: {}` is Moshi's list for the caller's stream."""

    seed: int = Field(
        0,
        description="seed of all draws; the same seed and call id give the same changes, whatever else is in the corpus",
    )
    splits: tuple[Literal["train", "validation", "test"], ...] = Field(
        ("train",), description="splits whose calls are changed"
    )
    gain: GainAugment | None = Field(GainAugment(), description="gain of the caller's stream; null: none")
    noise: NoiseAugment | None = Field(NoiseAugment(), description="noise in the caller's stream; null: none")
    room: RoomAugment | None = Field(RoomAugment(), description="echo and reverberation; null: none")
    silence: SilenceAugment | None = Field(
        SilenceAugment(), description="silence in the caller's stream; null: none"
    )
    barge_in: BargeInAugment | None = Field(None, description="constructed barge-ins; null: none")
    text_delay_s: Annotated[float, Field(ge=0, le=5)] = Field(
        0.0,
        description="draw a text delay within ± this for each call, on top of text.delay_s (Moshi: 0.6)",
    )
    text_mask: Probability = Field(
        0.0,
        description="share of the agent's words, or of their pieces, that are withheld from the model (Moshi: 0.3)",
    )
    text_mask_unit: Literal["word", "piece"] = Field(
        "word", description="what is withheld: whole words, or single pieces (Moshi)"
    )
    text_mask_loss: Literal["drop", "keep"] = Field(
        "drop",
        description="what is withheld carries no loss, or stays a target that the model does not get as input (Moshi: keep)",
    )
