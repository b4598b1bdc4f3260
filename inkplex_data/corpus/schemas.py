"""JSON Schema 2020-12 of every file that people write or read, generated from the models.

A schema says what a file looks like; rules between fields (a word ends after it starts, an id is there
once) are the models' own, and `validate` checks both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from inkplex_data.atomic import together
from inkplex_data.corpus.models import AlignmentFile, ManifestEntry, SplitsFile, StoreDescription
from inkplex_data.corpus.recordings.recording_models import RecordingHeader, RequestLine
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SUBJECTS: dict[str, tuple[Any, str]] = {
    "manifest": (ManifestEntry, "One line of a manifest (JSONL)"),
    "alignment": (AlignmentFile, "Word timings beside an audio file"),
    "sidecar": (Sidecar, "Everything known about a clip besides its audio"),
    "recording": (RecordingHeader | RequestLine, "One line of a task recording (JSONL): header or request"),
    "splits": (SplitsFile, "Frozen assignment of families to splits"),
    "store": (StoreDescription, "store.json of a store"),
}


def schemas() -> dict[str, dict[str, Any]]:
    """JSON Schema by name: manifest, alignment, sidecar, recording, splits, store."""
    made = {}
    for name, (subject, title) in _SUBJECTS.items():
        body = TypeAdapter(subject).json_schema(by_alias=True, schema_generator=_Plain)
        made[name] = {"$schema": DIALECT, "$id": f"inkplex/{name}.schema.json", **body, "title": title}
    return made


def schema_text(schema: dict[str, Any]) -> str:
    """The one spelling in which schemas are committed."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def export_schemas(folder: Path) -> list[Path]:
    """Write `NAME.schema.json` for each schema into `folder`; the files written, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {folder / f"{name}.schema.json": schema_text(schema) for name, schema in schemas().items()}
    with together() as new:
        for path, text in texts.items():
            new(path).write(text.encode())
    return list(texts)


class _Plain(GenerateJsonSchema):
    """Without the titles that pydantic makes of field names: they say nothing that the name does not."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False
