"""Sidecars through a build: what is true becomes columns and masks, what is false refuses the call or is noted."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import soundfile

from inkplex_data.audit.store_audit import audit_store
from inkplex_data.config.recipe import load_recipe
from inkplex_data.grid import MASK_AGENT, MASK_ALL, MASK_CALLER, MASK_TEXT
from inkplex_data.pipeline.outcome import Summary
from inkplex_data.pipeline.run import build_store
from inkplex_data.store.reader import open_store
from tests.pipeline.conftest import write_call, write_manifest

RECIPE = load_recipe("demo", {"codec.id": "untrained:0", "prefix": None, "text.delay_s": 0.16})
SECONDS = 1.5


def about(path: Path, **audio: Any) -> dict[str, Any]:
    found = soundfile.info(path)
    return {
        "path": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "sample_rate_hz": found.samplerate,
        "samples": found.frames,
        **audio,
    }


def write_sidecar(folder: Path, name: str, **groups: Any) -> None:
    document = {"schema": "inkplex/sidecar@1", "identity": {"clip_id": name}, **groups}
    (folder / f"{name}.sidecar.json").write_text(json.dumps(document), encoding="utf-8")


def made_corpus(folder: Path) -> Path:
    folder.mkdir()
    for seed, name in enumerate(("told", "kin", "false")):
        write_call(folder, name, seed, SECONDS)
    sound, _ = soundfile.read(folder / "kin.wav")
    soundfile.write(folder / "kin.wav", sound[::2], 12_000, subtype="PCM_16")
    turned, _ = soundfile.read(folder / "told.wav", dtype="int16")
    soundfile.write(folder / "turned.wav", turned[:, ::-1], 24_000, subtype="PCM_16")
    (folder / "turned.json").write_bytes((folder / "told.json").read_bytes())
    words = [
        {"text": "Good", "start_s": 0.4, "end_s": 0.5, "mismatch": True},
        {"text": "day", "start_s": 1.0, "end_s": 1.1, "uncertainty_s": 0.0},
    ]
    sides = {"agent": {"origin": "synthetic"}, "caller": {"origin": "recorded"}}
    write_sidecar(
        folder,
        "told",
        identity={"clip_id": "told", "conversation_id": "v", "family": "f1", "split": "train"},
        audio=about(folder / "told.wav", **sides),
        words={"items": words, "mismatch": "known", "provenance": "a script"},
        targets={
            "items": [{"decision": "speak", "writer": "w"}, {"decision": "quiet", "status": "complete"}]
        },
    )
    (folder / "told.json").unlink()
    write_sidecar(
        folder,
        "kin",
        identity={"clip_id": "kin", "conversation_id": "v", "family": "f2"},
        audio=about(folder / "kin.wav", offset_s=5, agent={"origin": "recorded"}),
        words={"mismatch": "unknown", "transcript": "Good morning"},
        masks={"excluded": [{"modality": "caller", "start_s": 5.4, "end_s": 5.5, "reason": "missing"}]},
    )
    lines: list[dict[str, Any]] = [{"id": name, "path": f"{name}.wav"} for name in ("told", "kin", "turned")]
    wrong = {"sha256": "0" * 64, "samples": 7, "sample_rate_hz": 8_000, "path": "kin.wav"}
    for field, value in wrong.items():
        write_sidecar(folder, f"false-{field}", audio=about(folder / "false.wav") | {field: value})
        lines.append(
            {
                "id": f"false-{field}",
                "path": "false.wav",
                "sidecar": f"false-{field}.sidecar.json",
                "family": "f9",
            }
        )
    return write_manifest(folder, lines)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Summary]:
    folder = tmp_path_factory.mktemp("sidecars")
    manifest, store = made_corpus(folder / "corpus"), folder / "store"
    return manifest, store, build_store(manifest, store, recipe=RECIPE, workers=1)


def test_false_audio_and_exchanged_channels_refuse_the_call(built: tuple[Path, Path, Summary]) -> None:
    refused = {problem.call_id: problem for problem in built[2].refused}
    assert {name: problem.code for name, problem in refused.items()} == {
        **dict.fromkeys(
            ("false-sha256", "false-samples", "false-sample_rate_hz", "false-path"), "sidecar-audio-differs"
        ),
        "turned": "audio-in-two-families",
    }
    assert "its 7 samples are not the 36,000 of 'false.wav'" in refused["false-samples"].message
    assert built[2].calls == ("kin", "told")


def test_what_is_told_becomes_columns(built: tuple[Path, Path, Summary]) -> None:
    with open_store(built[1]) as store:
        kin, told = store.calls().sort("call_id").collect().iter_rows(named=True)
        assert (told["agent_origin"], told["caller_origin"]) == ("synthetic", "recorded")
        assert told["decisions"] == ["speak", "quiet"]
        assert told["target_statuses"] == ["unknown", "complete"]
        assert told["target_writers"] == ["w", None]
        assert told["family_reason"] is None and kin["decisions"] is None
        assert (kin["family"], kin["split"]) == ("f1", "train")
        assert kin["family_reason"] == (
            "call 'kin' has the same conversation_id 'v' as call 'told' of family 'f1'"
        )
        audio = json.loads(kin["sidecar"])["audio"]
        assert (audio["times"], audio["offset_s"]) == ("clip", 5.0)
        assert [transform["settings"] for transform in audio["transforms"]] == [
            {"channel": side, "from_hz": 12_000, "to_hz": 24_000, "method": "soxr VHQ"}
            for side in ("agent", "caller")
        ]
        assert json.loads(told["sidecar"])["audio"]["transforms"] == []
        words = store.call("told").words
        assert words["provenance"].to_list() == ["a script", "a script"]
        assert words["uncertainty_us"].to_list() == [None, 0]
        noted = store.problems().filter(call_id="kin").collect()["code"].to_list()
        assert {"family-joined", "words-mismatch-unknown"} <= set(noted)


def test_what_mismatches_carries_no_loss(built: tuple[Path, Path, Summary]) -> None:
    """The text stream is 0.16 s ahead of the audio, and so is its mask."""
    with open_store(built[1]) as store:
        mask = store.call("told").mask
        off = {bit: [i for i, own in enumerate(mask) if not own & bit] for bit in (MASK_TEXT, MASK_AGENT)}
        assert off == {MASK_TEXT: [3, 4], MASK_AGENT: [5, 6]}
        # A second of source time before the clip's fifth is a time before the clip.
        kin = store.call("kin").mask
        assert [i for i, own in enumerate(kin) if own != MASK_ALL] == [5, 6]
        assert not kin[5] & MASK_CALLER
        assert not audit_store(store).violations


def test_another_split_for_a_conversation_that_is_published_refuses_the_call(
    built: tuple[Path, Path, Summary], tmp_path: Path
) -> None:
    manifest, store, _ = built
    folder = manifest.parent
    write_call(folder, "late", 9, SECONDS)
    write_sidecar(folder, "late", identity={"clip_id": "late", "conversation_id": "v", "split": "test"})
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    write_manifest(folder, [*lines, {"id": "late", "path": "late.wav"}])
    summary = build_store(manifest, store, recipe=RECIPE, workers=1, add=True)
    refused = {problem.call_id: problem.code for problem in summary.refused}
    assert refused["late"] == "family-contradicts"
    with open_store(store) as opened:
        assert sorted(opened.call_ids) == ["kin", "told"]
        assert opened.calls().select(pl.col("split").unique()).collect()["split"].to_list() == ["train"]
