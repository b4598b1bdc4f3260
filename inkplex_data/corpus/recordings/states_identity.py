"""Whose states they are: what a file of states and the recording that names it say of the model that computed them.

States mean nothing without their model (seeds/000, "Minimal dataset and private stream contract", reasoning model):
which weights, which tokenizer, which runtime, which streams of it, and which exact input. States that say none of it
are `unidentified`, and stay so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field, ValidationError, model_validator

from inkplex_data.corpus.fields import Count, Flag, Model, Name, Sha256
from inkplex_data.faults import FaultError, faults_of
from inkplex_data.grid import STATE_ROWS

FILE_SCHEMA: Final = "inkplex/states@1"
STREAMS: Final = (*(f"completed_block_output:{row}" for row in STATE_ROWS[:-1]), "final_normalized")
"""What rows 28, 34 and 42 are: completed outputs of zero-based blocks, and that of the final norm."""
CAPTURE_PROFILE: Final = "inkplex-data capture"
"""How the runtime profile of what this package captured begins."""

_REQUIRED: Final = ("model", "revision", "tokenizer_sha256", "runtime_profile", "streams", "input_sha256")
_DIGEST: Final = re.compile(r"(?:^|:)([0-9a-f]{64})$")


class StatesIdentity(Model):
    """The model, its runtime and its input. Everything is required unless the states are `unidentified`."""

    model: Name | None = None
    revision: Name | None = Field(default=None, description="commit or SHA-256 of the weights")
    tokenizer_sha256: Sha256 | None = None
    runtime_profile: Name | None = Field(
        default=None, description="engine and settings that states depend on"
    )
    streams: list[Name] | None = Field(
        default=None, description=f"of each row, in order: {', '.join(STREAMS)}"
    )
    dtype: Name = Field(description="arithmetic of the model; of unidentified states the dtype of their file")
    width: Count
    input_sha256: Sha256 | None = Field(default=None, description="of the input with its history")
    untrained: Flag = False
    unidentified: Flag = False

    @model_validator(mode="after")
    def _is_whole(self) -> StatesIdentity:
        if self.streams is not None and (wrong := streams_fault(self.streams)):
            raise ValueError(wrong)
        lacking = [name for name in _REQUIRED if getattr(self, name) is None]
        if lacking and not self.unidentified:
            raise ValueError(f"lacks {', '.join(lacking)}")
        return self

    @property
    def captured(self) -> bool:
        """Whether this package computed the states."""
        return (self.runtime_profile or "").startswith(CAPTURE_PROFILE)

    @property
    def chunks(self) -> tuple[int, int | None] | None:
        """Tokens of a chunk, and most scores where it says them, of this package's capture; None for another runtime."""
        found = re.fullmatch(
            capture_profile(r"(\d+)") + r"(?: and (\d+) scores)?", self.runtime_profile or ""
        )
        return None if found is None else (int(found[1]), int(found[2]) if found[2] else None)

    @property
    def name(self) -> str:
        return "unidentified states" if self.model is None else self.model

    def of_input(self, input_sha256: str | None) -> StatesIdentity:
        """The same model with another input."""
        return self.model_copy(update={"input_sha256": input_sha256})

    def dumped_as(self, dtype: str) -> StatesIdentity:
        """The same, marked as rounded by a dump in `dtype`, where that has fewer bits for a value than bfloat16 or
        another range: nobody takes them for exact."""
        mark = f", dumped as {dtype}"
        if dtype in ("bfloat16", "float32") or self.runtime_profile is None or mark in self.runtime_profile:
            return self
        return self.model_copy(update={"runtime_profile": f"{self.runtime_profile}{mark}"})

    def as_dict(self) -> dict[str, Any]:
        """Every field, as JSON values: what the column `states_identity` of a store's recordings holds."""
        return self.model_dump(mode="json")

    def described(self) -> dict[str, Any]:
        """The model without its input, as `store.json` names it."""
        fields = self.as_dict()
        del fields["input_sha256"]
        del fields["model"]
        return {"id": self.name, "sha256": fields.pop("revision"), **fields}

    def differences(self, other: StatesIdentity) -> list[str]:
        """The fields in which two models differ, with both values; the inputs are not compared."""
        return differing_fields(self.described(), other.described())


def capture_profile(chunk_tokens: int | str, most_scores: int | None = None) -> str:
    """The runtime profile of this package's capture. Which experts a model takes can depend on the chunks."""
    scores = "" if most_scores is None else f" and {most_scores} scores"
    return f"{CAPTURE_PROFILE}, transformers, chunks of {chunk_tokens} tokens{scores}"


def differing_fields(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The fields of two descriptions (`StatesIdentity.described`) that differ, with both values. A field that one of
    them lacks, as descriptions of before do, says nothing."""
    named = {"id": "model", "sha256": "revision"}
    return [
        f"{named.get(name, name)} {one[name]!r} and {other[name]!r}"
        for name in one
        if name in other and one[name] != other[name]
    ]


def streams_fault(streams: list[str]) -> str:
    """What is wrong with the streams of states, "" for the right ones. A raw tap is no completed output."""
    others = [name for name in streams if name not in STREAMS]
    if others:
        return (
            f"{others[0]!r} is not a stream that states consist of: {', '.join(STREAMS)}; "
            "a raw auxiliary tap is not the completed output of its block"
        )
    return (
        "" if tuple(streams) == STREAMS else f"the streams are {', '.join(streams)}, not {', '.join(STREAMS)}"
    )


def tokenizer_sha256(tokenizer: str | None) -> str:
    """The digest at the end of a tokenizer's name in a recording's header; without one that of the name itself."""
    found = _DIGEST.search(tokenizer or "")
    return found[1] if found else hashlib.sha256((tokenizer or "").encode()).hexdigest()


def names_digest(tokenizer: str | None) -> bool:
    """Whether a tokenizer's name ends in the digest of its file."""
    return _DIGEST.search(tokenizer or "") is not None


def to_metadata(identity: StatesIdentity, request: int) -> dict[str, str]:
    """The metadata of a states file, text by text as safetensors has it."""
    fields = {name: value for name, value in identity.as_dict().items() if value is not None}
    flat = {
        name: ",".join(value)
        if isinstance(value, list)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
        for name, value in fields.items()
    }
    return {"schema": FILE_SCHEMA, "request": str(request), **flat}


def from_metadata(metadata: Mapping[str, Any]) -> StatesIdentity | None:
    """The identity in the metadata of a states file, None where it says nothing of the model.

    Raises FaultError where it says a part, or something that cannot be.
    """
    fields: dict[str, Any] = {
        name: metadata[name] for name in StatesIdentity.model_fields if name in metadata
    }
    if "model" not in fields and "streams" not in fields and fields.get("unidentified") != "true":
        return None
    if isinstance(fields.get("streams"), str):
        fields["streams"] = [name.strip() for name in fields["streams"].split(",")]
    for name in ("untrained", "unidentified"):
        if name in fields:
            fields[name] = {"true": True, "false": False}.get(fields[name], fields[name])
    if isinstance(fields.get("width"), str) and fields["width"].isdecimal():
        fields["width"] = int(fields["width"][:20])
    try:
        return StatesIdentity.model_validate(fields)
    except ValidationError as error:
        raise FaultError(*faults_of(error, fields, StatesIdentity)) from error
