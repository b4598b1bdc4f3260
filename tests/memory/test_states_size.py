"""How large states become: tokens once a recording, and what recordings have in common at their beginnings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from inkplex_data.cli.app import app
from inkplex_data.corpus.recordings.recording import Recording, read_recording
from inkplex_data.memory.states_size import states_size
from tests.conftest import ROOT


def recording(folder: Path, name: str, *requests: tuple[list[int], tuple[int, int] | None]) -> Recording:
    lines: list[dict[str, Any]] = [{"schema": "inkplex/recording@1", "recording": name}]
    for call, (ids, cached) in enumerate(requests):
        own = [
            {"id": one, "kind": "user", "at": 0.0, **({"text": "x"} if one else {"media": "audio"})}
            for one in ids
        ]
        before = None if cached is None else {"call": cached[0], "tokens": cached[1]}
        lines.append({"call": call, "cached": before, "tokens": own})
    path = folder / f"{name}.recording.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return read_recording(path)


def test_tokens_that_recordings_begin_with_in_common(tmp_path: Path) -> None:
    size = states_size(
        [
            recording(tmp_path, "a", ([1, 2, 3, 4], None), ([5, 6], (0, 4)), ([5, 7], (0, 4))),
            recording(tmp_path, "b", ([1, 2, 3], None), ([4, 5, 6, 8], (0, 3))),
            recording(tmp_path, "c", ([2, 3], None)),
        ]
    )
    # The tree is 1 2 3 4 5, then 6 8 and 7; and 2 3: a model would compute b's first six tokens a second time.
    assert (size.recordings, size.tokens, size.distinct) == (3, 17, 10)
    told = size.as_dict(4_096)
    assert (told["bytes_a_token"], told["bytes"]) == (24_576, 17 * 24_576)
    assert (told["shared_bytes"], told["float8_bytes"]) == (7 * 24_576, 17 * 3 * 4_100)


def test_media_are_never_the_same(tmp_path: Path) -> None:
    two = [recording(tmp_path, name, ([1, 0, 2], None)) for name in "ab"]
    assert states_size(two).distinct == 5


def test_no_recordings() -> None:
    assert (states_size([]).tokens, states_size([]).distinct) == (0, 0)


def test_the_examples_plan() -> None:
    result = CliRunner().invoke(app, ["plan", str(ROOT / "examples" / "corpus"), "--states"])
    assert result.exit_code == 0, result.output
    assert "5 recordings" in result.output and "GB, 24,576 bytes a token" in result.output
