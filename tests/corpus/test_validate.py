"""`validate`: the kind is found, and every fault names file, place, value and rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inkplex_data.corpus.validate import detect_kind, validate_path
from inkplex_data.errors import CorpusError, UsageError

HEADER = {"schema": "inkplex/recording@1", "recording": "r"}
SIDECAR = {"schema": "inkplex/sidecar@1", "identity": {"clip_id": "c"}}
KINDS: list[tuple[str, str, str]] = [
    ("a.sidecar.json", "{", "sidecar"),
    ("x.json", json.dumps(SIDECAR, indent=2), "sidecar"),
    ("a.recording.jsonl", "", "recording"),
    ("x.jsonl", json.dumps(HEADER), "recording"),
    ("headless.jsonl", '{"call": 0, "tokens": []}', "recording"),
    ("manifest.jsonl", "", "manifest"),
    ("x.jsonl", '{"id": "a", "path": "b"}\n{"id": "c", "path": "d"}', "manifest"),
    ("x.jsonl", '{"path": "b", "duration": 1}', "moshi"),
    ("x.jsonl", "no JSON\n", "manifest"),
    ("x.jsonl", "5\n", "manifest"),
    ("x.json", '{\n "alignments": []\n}', "alignment"),
    ("x.json", '{"words": [{"word": "a", "start": 0, "end": 1}], "text": "a"}', "transcript"),
    ("splits.json", '{"families": {}}', "splits"),
    ("store.json", "{", "store"),
    ("x.json", '{"format": 1, "codec": {}}', "store"),
]


@pytest.mark.parametrize(("name", "text", "kind"), KINDS)
def test_kinds_are_found_by_name_or_content(tmp_path: Path, name: str, text: str, kind: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert detect_kind(path) == kind


def test_what_is_nothing_we_know_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"hello": 1}')
    with pytest.raises(CorpusError, match="--kind: manifest, moshi"):
        detect_kind(path)
    with pytest.raises(CorpusError, match="does not exist"):
        validate_path(tmp_path / "none")
    with pytest.raises(CorpusError, match="does not exist"):
        validate_path(tmp_path / "none", "sidecar")
    with pytest.raises(UsageError, match="no kind 'video'"):
        validate_path(path, "video")


def faults(path: Path, kind: str | None = None) -> list[tuple[int | None, str, str]]:
    found = validate_path(path, kind)
    assert all(Path(fault.where).is_relative_to(path if path.is_dir() else path.parent) for fault in found)
    assert all(fault.rule for fault in found)
    return [(fault.line, fault.pointer, fault.value) for fault in found]


def test_manifest(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"x")
    lines: list[Any] = [
        {"id": "1", "path": "a.wav", "family": "f", "split": "test"},
        {"id": 2, "path": "none.wav", "channels": {"agent": -1, "caller": 1}},
        {"id": "1", "path": "a.wav"},
        {"id": "4", "path": "../x.wav"},
        {"id": "5", "path": "a.wav", "family": "f", "split": "train"},
    ]
    path = tmp_path / "manifest.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n{half\n")
    assert faults(path) == [
        (1, "/split", "'test'"),
        (2, "/id", "2"),
        (2, "/channels/agent", "-1"),
        (3, "/id", "'1'"),
        (4, "/path", "'../x.wav'"),
        (5, "/split", "'train'"),
        (6, "", "'{half'"),
    ]
    assert str(validate_path(path)[1]) == f"{path}:2: /id input should be a valid string (got 2)"
    path.write_text("")
    assert [fault.rule for fault in validate_path(path)] == ["the file holds no calls"]


def test_alignment_splits_and_store(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"alignments": [["a", [1, 2], "S"], ["b", [2, 1], "S"], ["c", [0], 3]], "x": 1}')
    assert faults(path) == [
        (None, "/alignments/1/1", "[2, 1]"),
        (None, "/alignments/2/1/1", ""),
        (None, "/alignments/2/2", "3"),
    ]
    path = tmp_path / "splits.json"
    path.write_text('{"families": {"a": "dev"}}')
    assert faults(path) == [(None, "/families/a", "'dev'")]
    store = tmp_path / "store"
    store.mkdir()
    (store / "store.json").write_text('{"format": 2, "codec": {}}')
    assert detect_kind(store) == "store"
    assert faults(store) == [(None, "/format", "2")]


def test_sidecar_includes_what_comes_too_early(tmp_path: Path) -> None:
    path = tmp_path / "a.sidecar.json"
    path.write_text(
        json.dumps(
            SIDECAR
            | {
                "private_updates": {"updates": [{"id": "u", "available_at_s": 2, "rows": [0, 1]}]},
                "masks": {"permitted_updates": [{"update": "u", "start_s": 1}]},
            }
        )
    )
    assert faults(path) == [(None, "/masks/permitted_updates/0/start_s", "1.0 s")]
    path.write_text('{"a": 1, "a": 2}')
    assert faults(path) == [(None, "", "1 and 2")]


def test_recording_names_a_fault_of_every_line(tmp_path: Path) -> None:
    path = tmp_path / "a.recording.jsonl"
    token = {"id": 1, "kind": "user", "text": "a", "at": 1}
    lines: list[Any] = [
        {"schema": "other"},
        {"call": 0, "tokens": [token, token | {"kind": "x"}]},
        {"call": 1, "tokens": [token]},
        {"call": 1, "tokens": [token]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"call": 2')
    assert faults(path) == [
        (1, "/schema", "'other'"),
        (2, "/tokens/1/kind", "'x'"),
        (4, "/call", "1"),
        (5, "", "'{\"call\": 2'"),
    ]
    path.write_text("")
    assert faults(path) == [(None, "", "")]


def test_transcripts_of_other_formats(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    words = [{"word": "a", "start": 0, "end": 1}, {"word": "b"}, {"word": "c", "start": 2, "end": 2}]
    path.write_text(json.dumps({"words": words, "text": "a b c"}))
    assert [fault.rule for fault in validate_path(path)] == ["word-times-interpolated", "word-no-duration"]
    path.write_text('{"text": "a", "segments": []}')
    assert [fault.code for fault in validate_path(path)] == ["words-no-word-times"]


def test_a_folder_is_checked_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"x")
    (tmp_path / "a.json").write_text('{"alignments": [["a", [1, 1], "S"]]}')
    (tmp_path / "a.sidecar.json").write_text(json.dumps(SIDECAR | {"audio": {"samples": -1}}))
    (tmp_path / "unrelated.json").write_text("[]")
    assert [(Path(fault.where).name, fault.pointer) for fault in validate_path(tmp_path)] == [
        (tmp_path.name, ""),  # what a build would pass over is noted
        ("a.json", "/alignments/0/1"),
        ("a.sidecar.json", "/audio/samples"),
    ]
    assert validate_path(tmp_path)[0].rule == "files-ignored: unrelated.json"


TALK = [["Hello", [0.2, 0.4], "SPEAKER_MAIN"]]


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (
            json.dumps({"alignments": TALK})[:-9],
            "words-unreadable",
            "is not JSON: unterminated string starting",
        ),
        ('{"alignments": [], "alignments": []}', "words-unreadable", "gives the key 'alignments' twice"),
        ('{"alignments": []}', "text-all-pad", "there are no words"),
        (json.dumps({"alignments": [["Hi", [0.2, 0.4], "spk_1"]]}), "text-all-pad", "labels seen: spk_1"),
        ('{"alignments": [["Hi", [0.2, 0.2], "SPEAKER_MAIN"]]}', "", "end"),
        (json.dumps({"alignments": TALK}), None, ""),
    ],
)
def test_a_transcript_that_a_build_refuses_is_at_fault(
    tmp_path: Path, text: str, code: str | None, told: str
) -> None:
    """Alone, in a folder, and named by a manifest; what a build takes has no fault."""
    for name in ("c.wav", "other.wav"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "c.json").write_text(text)
    (tmp_path / "other.json").write_text(json.dumps({"alignments": TALK}))
    manifest = tmp_path / "list.jsonl"
    manifest.write_text('{"id": "c", "path": "c.wav"}\n{"id": "o", "path": "other.wav"}\n')
    for path in (tmp_path / "c.json", manifest, tmp_path):
        # The folder alone, without its list, passes the list over.
        found = [fault for fault in validate_path(path) if fault.code != "files-ignored"]
        assert [fault.code for fault in found] == ([] if code is None else [code])
        for fault in found:
            assert Path(fault.where).name == "c.json"
            assert told in str(fault)


def test_the_channels_of_a_call_tell_its_agent(tmp_path: Path) -> None:
    """A transcript with a label a channel: whose words are the agent's is for the call's line to say."""
    (tmp_path / "c.wav").write_bytes(b"x")
    result: dict[str, Any] = {"transcripts": [], "channel_labels": {"channels": []}}
    for index in (0, 1):
        item = {
            "start_time": "0.1",
            "end_time": "0.4",
            "type": "pronunciation",
            "alternatives": [{"content": "Hi"}],
        }
        result["channel_labels"]["channels"].append({"channel_label": f"ch_{index}", "items": [item] * index})
    (tmp_path / "c.json").write_text(json.dumps({"results": result, "status": "COMPLETED"}))
    line = {"id": "c", "path": "c.wav"}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(line))
    assert [fault.code for fault in validate_path(tmp_path)] == ["text-all-pad"]
    (tmp_path / "manifest.jsonl").write_text(json.dumps(line | {"channels": {"agent": 1, "caller": 0}}))
    assert validate_path(tmp_path) == []
