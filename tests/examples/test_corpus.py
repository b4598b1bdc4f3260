"""The committed example corpus keeps its promises, and its maker still makes it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile

from inkplex_data.clock import FRAME_US, SAMPLE_RATE_HZ, seconds_to_us
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.recordings.recording import read_recording
from inkplex_data.corpus.sidecars.loss_mask import frame_mask
from inkplex_data.corpus.sidecars.sidecar import availability_faults, read_sidecar
from inkplex_data.corpus.validate import validate_path
from inkplex_data.grid import MASK_ALL, MASK_CALLER, MASK_TEXT
from inkplex_data.memory.ownership import tabulate
from inkplex_data.memory.twins import check_twins

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CORPUS = EXAMPLES / "corpus"
MAIN = "SPEAKER_MAIN"


@cache
def manifest() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPUS / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]


IDS = [entry["id"] for entry in manifest()]
ENTRIES = pytest.mark.parametrize("entry", manifest(), ids=IDS)


@cache
def audio(call_id: str) -> np.ndarray:
    """int16 [samples, 2]."""
    samples, rate_hz = soundfile.read(CORPUS / "calls" / f"{call_id}.flac", dtype="int16")
    assert rate_hz == SAMPLE_RATE_HZ
    return samples


@cache
def words(call_id: str) -> list[tuple[str, int, int, str]]:
    alignments = json.loads((CORPUS / "calls" / f"{call_id}.json").read_text(encoding="utf-8"))["alignments"]
    return [
        (text, seconds_to_us(start), seconds_to_us(end), speaker)
        for text, (start, end), speaker in alignments
    ]


@cache
def tokens(recording: str) -> pl.DataFrame:
    return tabulate(read_recording(CORPUS / recording))[0]


def at(us: int) -> int:
    return round(us * SAMPLE_RATE_HZ / 1_000_000)


@pytest.mark.parametrize("inventory", ["manifest.jsonl", "moshi.jsonl"])
def test_every_file_is_valid(inventory: str) -> None:
    assert validate_path(CORPUS / inventory) == []
    corpus = read_corpus(CORPUS / inventory)
    assert len(corpus.entries) == 6
    assert [problem for problem in corpus.problems if problem.severity != "info"] == []


@ENTRIES
def test_parts_of_a_call_are_valid(entry: dict[str, Any]) -> None:
    for part in ("words", "sidecar", "recording"):
        assert validate_path(CORPUS / entry[part]) == []
    assert availability_faults(read_sidecar(CORPUS / entry["sidecar"])) == []


@ENTRIES
def test_calls_are_short_stereo_and_have_both_voices(entry: dict[str, Any]) -> None:
    samples = audio(entry["id"])
    assert 20 <= len(samples) / SAMPLE_RATE_HZ <= 40
    assert entry["duration"] == len(samples) / SAMPLE_RATE_HZ
    for channel, is_main in ((0, True), (1, False)):
        own = [word for word in words(entry["id"]) if (word[3] == MAIN) == is_main]
        said = np.zeros(len(samples), np.bool_)
        for _, start_us, end_us, _ in own:
            said[at(start_us) : at(end_us)] = True
        level = samples[:, channel].astype(np.float64)
        loud, quiet = (np.sqrt(np.mean(np.square(level[part]))) for part in (said, ~said))
        assert loud > 50 * quiet, "words are where the sound is, and silence is where there are none"


@ENTRIES
def test_words_are_in_order_and_end_before_the_audio(entry: dict[str, Any]) -> None:
    for is_main in (True, False):
        own = [word for word in words(entry["id"]) if (word[3] == MAIN) == is_main]
        assert len(own) > 10
        for (_, _, end_us, _), (_, next_us, _, _) in pairwise(own):
            assert end_us <= next_us
        assert all(start_us < end_us for _, start_us, end_us, _ in own)
    assert max(word[2] for word in words(entry["id"])) / 1e6 < entry["duration"]


def test_the_set_shows_what_calls_are_like() -> None:
    overlaps, longest_silence_us, crossing, interrupted = 0, 0, 0, []
    for call_id in IDS:
        spoken = sorted((start, end, speaker) for _, start, end, speaker in words(call_id))
        overlaps += sum(
            a[2] != b[2] and b[0] < a[1]
            for index, a in enumerate(spoken)
            for b in spoken[index + 1 : index + 6]
        )
        silence = max(b[0] - a[1] for a, b in pairwise(spoken))
        longest_silence_us = max(longest_silence_us, silence)
        crossing += sum(start // FRAME_US != (end - 1) // FRAME_US for start, end, _ in spoken)
        targets = read_sidecar(CORPUS / "calls" / f"{call_id}.sidecar.json").targets
        assert targets is not None
        interrupted += [item for item in targets.items if item.status == "interrupted"]
    assert overlaps > 5
    assert longest_silence_us > 5_000_000
    assert crossing > 100
    assert len(interrupted) == 2


def test_voices_and_splits_leave_a_voice_sample_for_every_voice() -> None:
    by_voice: dict[tuple[str, str], int] = {}
    splits: dict[str, str] = {}
    for entry in manifest():
        assert splits.setdefault(entry["family"], entry["split"]) == entry["split"]
        if entry["voice"] is not None:
            by_voice[entry["split"], entry["voice"]] = by_voice.get((entry["split"], entry["voice"]), 0) + 1
    assert set(splits.values()) == {"train", "validation", "test"}
    assert all(count >= 2 for count in by_voice.values())
    recordings = [entry["recording"] for entry in manifest()]
    assert len(set(recordings)) == len(recordings) - 1, "two calls over one recording"


@ENTRIES
def test_nothing_is_said_before_its_evidence_could_be_seen(entry: dict[str, Any]) -> None:
    sidecar = read_sidecar(CORPUS / entry["sidecar"])
    assert sidecar.evidence is not None
    assert sidecar.targets is not None
    arrivals_us = {item.id: seconds_to_us(item.arrival_s) for item in sidecar.evidence.items}
    during_the_call = 0
    for claim in sidecar.evidence.claims:
        assert claim.start_s is not None
        start_us = seconds_to_us(claim.start_s)
        for evidence in claim.supported_by:
            first_frame_us = -(-arrivals_us[evidence] // FRAME_US) * FRAME_US
            assert first_frame_us < start_us // FRAME_US * FRAME_US
            during_the_call += arrivals_us[evidence] > 0
    assert during_the_call
    answer = next(
        claim for claim in sidecar.evidence.claims if claim.start_s == sidecar.targets.response_start_s
    )
    assert any(arrivals_us[evidence] > 5_000_000 for evidence in answer.supported_by)


@ENTRIES
def test_updates_name_rows_that_have_arrived(entry: dict[str, Any]) -> None:
    table = tokens(entry["recording"])
    starts_at_us = seconds_to_us(entry["recording_starts_at"])
    sidecar = read_sidecar(CORPUS / entry["sidecar"])
    assert sidecar.private_updates is not None
    covered = []
    for update in sidecar.private_updates.updates:
        rows = table[update.rows[0] : update.rows[1]]
        assert rows["arrival_us"].max() == seconds_to_us(update.arrival_s) + starts_at_us
        covered += list(range(*update.rows))
    assert covered == list(range(table.height))


@ENTRIES
def test_the_user_tokens_are_what_the_caller_had_said(entry: dict[str, Any]) -> None:
    if entry["id"] == "sim-delivery-later":
        pytest.skip("asks new questions over a trace that was recorded with another caller")
    starts_at_us = seconds_to_us(entry["recording_starts_at"])
    caller = [word for word in words(entry["id"]) if word[3] != MAIN]
    user = tokens(entry["recording"]).filter(pl.col("kind") == "user")
    for call in user["call"].unique():
        message = user.filter(pl.col("call") == call)
        text = b"".join(message["bytes"]).decode().removeprefix("user").split()
        spoken = [word[0] for word in caller]
        first = next(i for i in range(len(spoken)) if spoken[i : i + len(text)] == text)
        last_word_end_us = caller[first + len(text) - 1][2]
        assert message["arrival_us"].min() >= starts_at_us + last_word_end_us


@ENTRIES
def test_recordings_are_of_a_readable_size_with_every_kind(entry: dict[str, Any]) -> None:
    table = tokens(entry["recording"])
    assert 300 <= table.height <= 1_500
    assert {"setup", "user", "thinking", "tool_call", "tool_result", "reply"} <= set(
        table["kind"].cast(pl.String)
    )
    calls = list(read_recording(CORPUS / entry["recording"]))
    assert len(calls) >= 3
    assert sum(call.cached is not None for call in calls) == len(calls) - 1


def test_the_tokens_are_real_ones() -> None:
    splintr = pytest.importorskip("splintr")
    tokenizer = splintr.Tokenizer.from_pretrained("o200k_harmony")
    for entry in manifest():
        for token, spelled, special in (
            tokens(entry["recording"]).select("token_id", "bytes", "special").iter_rows()
        ):
            if not special:
                assert bytes(tokenizer.decode_bytes([token])) == spelled


def test_twins_are_one_call_until_the_fork() -> None:
    by_id = {entry["id"]: entry for entry in manifest()}
    one, twin = by_id["bill-85-credit"], by_id["bill-85-no-credit"]
    branch = read_recording(CORPUS / twin["recording"]).header.fork
    assert branch is not None
    assert branch[0] == "bill-85-credit"
    fork_us = branch[1]
    same = check_twins(
        tokens(one["recording"]),
        tokens(twin["recording"]),
        at_us=fork_us,
        names=("bill-85-credit", "bill-85-no-credit"),
    )
    assert same > 800
    assert one["recording_starts_at"] == twin["recording_starts_at"]
    since_us = fork_us - seconds_to_us(one["recording_starts_at"])
    first = next(
        i for i, (a, b) in enumerate(zip(audio(one["id"]), audio(twin["id"]), strict=False)) if (a != b).any()
    )
    assert first > at(since_us), "the voices differ only after the evidence does"
    before = [[word for word in words(call_id) if word[1] < since_us] for call_id in (one["id"], twin["id"])]
    assert before[0] == before[1]
    assert "seventy-five" in " ".join(word[0] for word in words(one["id"]))
    assert "seventy-five" not in " ".join(word[0] for word in words(twin["id"]))


def test_masks_leave_out_the_cut_word_and_the_lost_line() -> None:
    cut = frame_mask(read_sidecar(CORPUS / "calls/bill-85-credit.sidecar.json"), 354)
    assert set(cut[cut != MASK_ALL]) == {MASK_ALL & ~MASK_TEXT}
    lost = frame_mask(read_sidecar(CORPUS / "calls/broadband-fault.sidecar.json"), 288)
    assert set(lost[lost != MASK_ALL]) == {MASK_ALL & ~MASK_CALLER}


def test_the_set_is_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 1_600_000


@pytest.mark.slow
def test_the_maker_makes_the_same_bytes_again() -> None:
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed")
    version = subprocess.run(["espeak-ng", "--version"], capture_output=True, text=True, check=True).stdout
    if ": 1.51 " not in version:
        pytest.skip(f"the corpus was made with espeak-ng 1.51, and this is {version.strip()}")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "make_corpus.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
