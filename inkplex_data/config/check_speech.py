"""The recipe section `check_speech`: what a build does about a call whose agent's audio does not match its text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inkplex_data.config.section import Section


class CheckSpeechConfig(Section):
    """Compare the agent's audio with its text by means of Whisper (English only)."""

    model: str = Field(
        "packaged:tiny.en",
        description="Whisper model that listens: packaged:tiny.en, a size such as medium, a file, folder or hub id",
    )
    max_wer: Annotated[float, Field(ge=0)] = Field(
        0.75,
        description="word error rate above which a call fails; tiny.en mishears up to 60% of clear speech",
    )
    margin: Annotated[float, Field(ge=0)] = Field(
        2.0,
        description="nats by which another number, amount, date or negation must be likelier than the text's; at least 3 for names",
    )
    on_failure: Literal["mask", "refuse", "report"] = Field(
        "mask",
        description="what happens to a failed call: its text and agent audio carry no loss, it is refused, or it is only reported",
    )
