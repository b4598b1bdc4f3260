"""The committed schemas are those of the models, and say what the models say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from inkplex_data.corpus.models import ManifestEntry
from inkplex_data.corpus.schemas import DIALECT, export_schemas, schema_text, schemas
from inkplex_data.faults import Fault, json_pointer
from tests.conftest import ROOT

NAMES = ["manifest", "alignment", "sidecar", "recording", "splits", "store"]


def test_names_and_dialect() -> None:
    made = schemas()
    assert list(made) == NAMES
    for schema in made.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == DIALECT


@pytest.mark.parametrize("name", NAMES)
def test_committed_files_are_in_step(name: str) -> None:
    committed = (ROOT / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")
    assert committed == schema_text(schemas()[name]), "run `make schemas`"


def test_export(tmp_path: Path) -> None:
    written = export_schemas(tmp_path / "out")
    assert [path.name for path in written] == [f"{name}.schema.json" for name in NAMES]
    assert json.loads(written[0].read_bytes()) == schemas()["manifest"]


DOCUMENTS: list[tuple[str, Any, bool]] = [
    ("manifest", {"id": "a", "path": "b.wav"}, True),
    ("manifest", {"id": "a", "path": {"agent": "b", "caller": "c"}, "words": None, "split": "test"}, True),
    ("manifest", {"id": "a", "path": {"agent": "b"}}, False),
    ("manifest", {"id": "a"}, False),
    ("manifest", {"id": "a", "path": "b", "recording_starts_at": "0"}, False),
    ("manifest", {"id": "a", "path": "b", "unknown": 1}, False),
    ("alignment", {"alignments": [["a", [0, 1.5], "SPEAKER_MAIN"]], "anything": 1}, True),
    ("alignment", {"alignments": [["a", [0], "SPEAKER_MAIN"]]}, False),
    ("alignment", {"alignments": [["a", [0, "1"], "SPEAKER_MAIN"]]}, False),
    ("splits", {"schema": "inkplex/splits@1", "families": {"a": "train"}}, True),
    ("splits", {"schema": "inkplex/splits@1", "families": {"a": "eval"}}, False),
    ("store", {"format": 1, "codec": {"id": "x"}, "more": 1}, True),
    ("store", {"format": 2}, False),
    ("sidecar", {"schema": "inkplex/sidecar@1", "identity": {"clip_id": "a"}}, True),
    ("sidecar", {"identity": {"clip_id": "a"}}, False),
]


@pytest.mark.parametrize(("name", "document", "good"), DOCUMENTS, ids=str)
def test_schemas_judge_documents(name: str, document: Any, good: bool) -> None:
    assert jsonschema.Draft202012Validator(schemas()[name]).is_valid(document) == good


def test_pointers_are_escaped() -> None:
    assert json_pointer(["a/b", 0, "c~d"]) == "/a~1b/0/c~0d"
    assert str(Fault("is wrong", "5", "/a")) == "/a is wrong (got 5)"


def test_models_do_not_coerce() -> None:
    with pytest.raises(ValueError, match="3 validation errors"):
        ManifestEntry.model_validate({"id": 1, "path": "a", "duration": "3", "recording_starts_at": True})


def test_the_corpus_imports_without_heavy_libraries() -> None:
    modules = [
        *("read_corpus", "families.splits", "validate", "word_repair", "schemas", "transcripts"),
        *("recordings.recording", "sidecars.sidecar"),
    ]
    program = "import sys\n" + "".join(f"import inkplex_data.corpus.{name}\n" for name in modules)
    program += "print([name for name in ('torch', 'polars', 'zarr', 'transformers', 'soundfile') if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"
