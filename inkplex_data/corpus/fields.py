"""Field types that the corpus models share. Nothing is coerced: text is no number and `true` is no 1."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    Strict,
    ValidationError,
    model_validator,
)

from inkplex_data.corpus.jsontext import read_document
from inkplex_data.errors import CorpusError
from inkplex_data.faults import Fault, FaultError, faults_of

SECONDS_LIMIT = 9.2e12
"""Largest time whose microseconds fit in 64 bits."""

Seconds = Annotated[
    float, Strict(), Field(allow_inf_nan=False, ge=-SECONDS_LIMIT, le=SECONDS_LIMIT, description="seconds")
]
"""Seconds as JSON spells them; `clock.seconds_to_us` makes the exact integer of it."""

Duration = Annotated[float, Strict(), Field(allow_inf_nan=False, ge=0, le=SECONDS_LIMIT)]
"""A length of time in seconds, not negative."""

Text = Annotated[str, Strict()]
Name = Annotated[str, Strict(), Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""An identifier or path: not empty, no control characters; spaces, dots, colons and any script are fine."""

Sha256 = Annotated[str, Strict(), Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Strict(), Field(ge=0, le=2**63 - 1)]
Index = Annotated[int, Strict(), Field(ge=0, le=2**31 - 1)]
Flag = Annotated[bool, Strict()]
JsonObject = dict[str, JsonValue]


class Model(BaseModel):
    """Base of every corpus model: immutable, and an unknown field is a fault, since it is mostly a typo."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True, validate_by_name=True)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that reads back as this model; fields that were not given stay out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


Read = TypeVar("Read", bound=Model)


def read_model(path: Path, model: type[Read]) -> Read:
    """The JSON document in `path` as a model. Raises FaultError with every fault."""
    try:
        data = read_document(path)
        return model.model_validate(data)
    except ValidationError as error:
        raise FaultError(*faults_of(error, data, model)) from error
    except FaultError:
        raise
    except (CorpusError, OSError) as error:
        raise FaultError(Fault(str(error))) from error


class Interval(Model):
    """Half-open stretch [start_s, end_s) of a timeline, in seconds."""

    start_s: Seconds
    end_s: Seconds

    @model_validator(mode="after")
    def _ends_after_start(self) -> Interval:
        if self.end_s < self.start_s:
            raise ValueError("end_s must not be before start_s")
        return self
