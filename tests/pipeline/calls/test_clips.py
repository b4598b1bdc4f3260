"""Parts of a call: built from the manifest, built from the files that `crop` writes, and as a part of the built call."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile

import inkplex_data as ink
from inkplex_data.config.recipe import load_recipe
from inkplex_data.corpus.entry import Clip
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.export.cropped_corpus import crop_corpus
from inkplex_data.grid import MASK_TEXT
from inkplex_data.loader.windows import VersionColumns, window_versions
from inkplex_data.pipeline.planning.prefix_voices import VoiceCandidate, voice_samples
from inkplex_data.pipeline.run import build_store
from tests.pipeline.conftest import RATE_HZ, plain_loop, voice, write_manifest

FIRST, STOP = 10, 32
"""Frames of the part, within a word on one side and before a word on the other."""
SECONDS = [FIRST * 0.08, STOP * 0.08]
CALL = "call"
RECIPE = {"codec.id": "untrained:0", "prefix": None}
PART = "call~0.8-2.56"
RECORDED = [
    {"schema": "inkplex/recording@1", "recording": "task"},
    {
        "call": 0,
        "cached": None,
        "tokens": [
            {"id": 5, "kind": "thinking", "text": " word" * (ix % 3), "at": round(-0.5 + 0.17 * ix, 2)}
            for ix in range(24)
        ],
    },
]
SIDECAR: dict[str, Any] = {
    "schema": "inkplex/sidecar@1",
    "identity": {"clip_id": CALL},
    "audio": {"sample_rate_hz": RATE_HZ, "samples": 4 * RATE_HZ, "caller": {"origin": "recorded"}},
    "private_updates": {
        "mapping": {"kind": "measured", "recording_starts_at_s": 0.25},
        "updates": [{"id": "u", "available_at_s": 0.1, "rows": [0, 1]}],
    },
    "targets": {"items": [], "response_start_s": 1.6},
    "masks": {"excluded": [{"start_s": 2.0, "end_s": 2.2, "modality": "agent", "reason": "uncertain"}]},
}


def write_long_call(folder: Path) -> np.ndarray:
    """Four seconds with a sidecar, words and a recording; returns the samples [2, n] as the file has them."""
    folder.mkdir(parents=True)
    stereo = np.stack([voice(3, 4.0, 120), voice(4, 4.0, 210)])
    soundfile.write(folder / "call.wav", stereo.T, RATE_HZ, subtype="PCM_16")
    starts = [0.1, 0.74, 1.2, 1.45, 2.0, 2.3, 2.58, 3.2]
    texts = ["So", "absolutely", "not", "yes", "I", "see", "your", "bill"]
    words: list[list[Any]] = [
        [text, [at, round(at + 0.2, 2)], "spk_7"] for at, text in zip(starts, texts, strict=True)
    ]
    words += [[text, [at, at + 0.1], "spk_9"] for text, at in (("Hm", 0.6), ("okay", 1.0), ("fine", 2.1))]
    document = {
        "alignments": sorted(words, key=lambda word: word[1]),
        "agent": "spk_7",
        "method": "by hand",
        "text_conditions": {"mood": "calm"},
    }
    (folder / "call.json").write_text(json.dumps(document))
    (folder / "call.sidecar.json").write_text(json.dumps(SIDECAR))
    (folder / "call.recording.jsonl").write_text("".join(json.dumps(line) + "\n" for line in RECORDED))
    return soundfile.read(folder / "call.wav", dtype="float32")[0].T


LINE = {"id": CALL, "path": "call.wav", "split": "validation", "recording_starts_at": 0.25}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The call built as a whole, its part built from `clips` (with the sides exchanged too), and from files."""
    folder = tmp_path_factory.mktemp("clips")
    samples = write_long_call(folder / "corpus")
    recipe, swap = (load_recipe(None, {**RECIPE, "audio.swap_roles": twice}) for twice in (False, True))
    lines = {"whole": [LINE], "clips": [{**LINE, "clips": [SECONDS, [0.8, 1.6]]}]}
    stores = {}
    for name, listed in lines.items():
        manifest = write_manifest(folder / "corpus", listed)
        used = swap if name == "clips" else recipe
        summary = build_store(manifest, folder / name, recipe=used, workers=1)
        assert summary.exit_code == 0, summary.text()
        stores[name] = ink.open_store(folder / name)
    clip = Clip(FIRST * 80_000, STOP * 80_000)
    write_manifest(folder / "corpus", [LINE])
    part, problems = crop_corpus(read_corpus(folder / "corpus"), None, clip, folder / "cropped")
    assert (part.call_id, problems) == (PART, [])
    summary = build_store(folder / "cropped", folder / "files", recipe=swap, workers=1)
    assert summary.exit_code == 0, summary.text()
    stores["files"] = ink.open_store(folder / "files")
    return {**stores, "samples": samples, "folder": folder}


STREAMS = ("codes", "text", "role", "mask", "level")


@pytest.mark.parametrize("call_id", [PART, f"{PART}~swapped"])
def test_clips_are_what_crop_writes(made: dict[str, Any], call_id: str) -> None:
    """Everything that a store holds of a part is the same by both ways; only its place in a file is not told of one."""
    here, files = made["clips"].call(call_id), made["files"].call(call_id)
    for name in STREAMS:
        np.testing.assert_array_equal(here.stream(name), files.stream(name), err_msg=name)
    assert here.words.equals(files.words) and here.versions.equals(files.versions)
    told = {"call_ix", "shard", "source", "inputs", "input_sha256", "clip_start_us", "clip_end_us"}
    told |= {name for name in here.row if name.endswith("_offset")}
    assert {name for name in here.row if here.row[name] != files.row[name]} <= told
    assert (here.row["clip_start_us"], here.row["clip_end_us"]) == (FIRST * 80_000, STOP * 80_000)
    assert here.row["family"] == files.row["family"]


def test_a_part_of_the_built_call_is_the_built_part(made: dict[str, Any]) -> None:
    """On the frame grid: words, versions, levels and turns' sound are equal; so are text and roles wherever the part
    has loss of text; the mask only loses text, where a word was cut; and the codes are those of the same samples by
    a codec that starts afresh at the cut."""
    whole, part = made["whole"].call(CALL), made["clips"].call(PART)
    assert part.frames == STOP - FIRST
    at = slice(FIRST, STOP)
    np.testing.assert_array_equal(part.stream("level"), whole.stream("level")[:, at])
    mask, before = part.stream("mask"), whole.stream("mask")[at]
    np.testing.assert_array_equal(mask | MASK_TEXT, before | MASK_TEXT)
    with_text = mask & MASK_TEXT > 0
    assert not (with_text & (before & MASK_TEXT == 0)).any()
    for name in ("text", "role"):
        own, other = part.stream(name), whole.stream(name)[at]
        np.testing.assert_array_equal(own[with_text], other[with_text])
        assert (own != other).any()  # "absolutely" began before, "your" begins behind
    samples = made["samples"][:, FIRST * 1920 : STOP * 1920]
    expected = np.concatenate([plain_loop(samples[0]), plain_loop(samples[1])])
    np.testing.assert_array_equal(part.codes, expected)
    assert (part.codes != whole.codes[:, at]).any()  # whose codec had heard what came before

    window = VersionColumns(
        *(whole.versions[name].to_numpy().copy() for name in VersionColumns.__annotations__)
    )
    moved = vars(window_versions(window, FIRST, STOP, 0))
    assert part.versions.height and part.versions.equals(
        pl.DataFrame(moved).with_columns(pl.col("whole").cast(pl.Boolean)).sort("row", "start")
    )
    inside = whole.words.filter(pl.col("start_us").is_between(FIRST * 80_000, STOP * 80_000, closed="left"))
    assert (
        inside["text"].to_list() == part.words["text"].to_list() == ["okay", "not", "yes", "I", "fine", "see"]
    )
    for name in ("start_us", "end_us"):
        assert (inside[name] - FIRST * 80_000).to_list() == part.words[name].to_list()
    frames = part.words["frame"]  # −1 for the caller's
    assert (inside["frame"] - FIRST).set(inside["frame"] < 0, -1).to_list() == frames.to_list()
    assert inside["pieces"].to_list() == part.words["pieces"].to_list()
    assert part.row["response_start_frame"] == whole.row["response_start_frame"] - FIRST
    assert part.recording_starts_at_us == whole.recording_starts_at_us + FIRST * 80_000
    assert part.row["text_conditions"] == whole.row["text_conditions"]


def test_parts_of_one_call_share_its_family(made: dict[str, Any]) -> None:
    calls = made["clips"].calls().collect()
    assert sorted(calls["call_id"]) == sorted(
        [PART, f"{PART}~swapped", "call~0.8-1.6", "call~0.8-1.6~swapped"]
    )
    assert calls["family"].n_unique() == 1 and set(calls["split"]) == {"validation"}
    assert calls["source"].unique().to_list() == ["call.wav"]


def test_a_crop_of_a_crop_is_one_crop(made: dict[str, Any], tmp_path: Path) -> None:
    """Every file, to the byte, but for the call's name."""
    folder = made["folder"]
    crop_corpus(read_corpus(folder / "cropped"), PART, Clip(400_000, 1_200_000), tmp_path / "twice")
    crop_corpus(read_corpus(folder / "corpus"), CALL, Clip(1_200_000, 2_000_000), tmp_path / "once")
    twice, once = (
        {
            path.relative_to(tmp_path / name).as_posix(): path.read_bytes()
            for path in sorted((tmp_path / name).rglob("*"))
            if path.is_file()
        }
        for name in ("twice", "once")
    )
    name = re.compile(rb"call([~_][0-9.]+[0-9]-[0-9.]*[0-9])+(-[0-9a-f]{8})?")

    def plain(files: dict[str, bytes]) -> dict[bytes, bytes]:
        return {
            name.sub(b"NAME", path.encode()): data if path.endswith(".wav") else name.sub(b"NAME", data)
            for path, data in files.items()
        }

    assert plain(twice) == plain(once) and len(once) == 5


def test_a_part_behind_the_end_is_refused_by_name(tmp_path: Path) -> None:
    write_long_call(tmp_path / "corpus")
    manifest = write_manifest(tmp_path / "corpus", [{**LINE, "clips": [[3.0, 4.5], [3, 4.5]]}])
    summary = build_store(manifest, tmp_path / "store", recipe=load_recipe(None, RECIPE), workers=1)
    codes = {problem.call_id: problem.code for problem in summary.refused}
    assert codes == {"call~3-4.5": "clip-outside", "call~3-4.5 (manifest.jsonl:1)": "duplicate-id"}


def test_parts_of_one_call_lend_each_other_no_voice() -> None:
    one, other = (
        VoiceCandidate(name, "amy", "train", "call", name, 0, 80_000, "call.wav") for name in ("a", "b")
    )
    assert voice_samples([one, other]) == {}
    assert set(voice_samples([one, replace(other, source="other.wav")])) == {"a", "b"}
