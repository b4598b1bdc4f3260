"""`split`: families that a build makes one are in one split here, too."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from inkplex_data.cli.app import app


def test_calls_of_one_conversation_are_in_one_split(tmp_path: Path) -> None:
    identities = {
        "a": {"conversation_id": "one"},
        "b": {"conversation_id": "one", "source_id": "two"},
        "c": {"source_id": "two", "split": "test"},
        "d": {"split": "train"},
    }
    for name, identity in identities.items():
        (tmp_path / f"{name}.wav").touch()
        document = {"schema": "inkplex/sidecar@1", "identity": {"clip_id": name, **identity}}
        (tmp_path / f"{name}.sidecar.json").write_text(json.dumps(document))
    out = tmp_path / "splits" / "splits.json"
    out.parent.mkdir()
    result = CliRunner().invoke(app, ["split", str(tmp_path), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert json.loads(out.read_text())["families"] == {"a": "test", "b": "test", "c": "test", "d": "train"}
