"""The recipe section `check_speech`: what a build does about a call whose agent does not say its text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inkplex_data.config.section import Section


class CheckSpeechConfig(Section):
    """Hold the agent's audio against its text with Whisper (English only)."""

    model: str = Field(
        "packaged:tiny.en",
        description="Whisper that listens: packaged:tiny.en, a size such as medium, a file, folder or hub id",
    )
    max_wer: Annotated[float, Field(ge=0)] = Field(
        0.75,
        description="word error rate above which a call fails; tiny.en mishears up to 60% of clear speech",
    )
    margin: Annotated[float, Field(ge=0)] = Field(
        2.0,
        description="nats by which another number, amount, date or negation must be likelier than the text's; names need 3 or more",
    )
    on_failure: Literal["mask", "refuse", "report"] = Field(
        "mask",
        description="a failed call is kept with its text and agent audio out of the loss, or refused, or only reported",
    )
