"""Forced alignment with the real offline model, and over a small CTC model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
import torch

from inkplex_data.corpus.transcripts import read_transcript
from inkplex_data.errors import CheckpointError
from inkplex_data.speech.align.forced import PocketAligner, load_aligner

torch.set_num_threads(1)


def test_words_are_placed_where_another_aligner_puts_them(real_data: Path):
    words = list(read_transcript(real_data / "words" / "cold_corpus.TextGrid").words)
    words = [word for word in words if 13.4 < float(word.start) < 17.5]
    samples, rate_hz = soundfile.read(real_data / "mono" / "cold_corpus.wav", dtype="float32")
    cut = samples[int(13.3 * rate_hz) : int(17.3 * rate_hz)]
    spans = PocketAligner().align(cut, [word.text for word in words])
    assert spans is not None
    errors_s = [
        abs(span[0] / 1e6 + 13.3 - float(word.start)) for span, word in zip(spans, words, strict=True)
    ]
    assert np.median(errors_s) <= 0.06


def test_unknown_words_and_dashes_find_a_place(real_data: Path):
    samples, rate_hz = soundfile.read(real_data / "mono" / "input_service.wav", dtype="float32")
    cut = soxr.resample(samples[5 * rate_hz : int(8.6 * rate_hz)], rate_hz, 16_000)
    aligner = PocketAligner()
    text = [
        "Can",
        "you",
        "guaranteeish",
        "–",
        "that",
        "the",
        "replacement",
        "part",
        "will",
        "be",
        "shipped",
        "tomorrow?",
    ]
    spans = aligner.align(cut, text)
    assert spans is not None
    assert spans[3] is None
    placed = [span for span in spans if span is not None]
    assert placed == sorted(placed)
    assert aligner.align(cut, text) == spans
    assert aligner.align(cut[:800], text) is None
    assert aligner.align(cut, ["–"]) is None


def test_ctc_spans_follow_the_emissions(tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    vocabulary = {"<pad>": 0, "<unk>": 1, "|": 2, "A": 3, "B": 4}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    transformers.Wav2Vec2CTCTokenizer(
        str(tmp_path / "vocab.json"), pad_token="<pad>", unk_token="<unk>", bos_token=None, eos_token=None
    ).save_pretrained(tmp_path)
    config = transformers.Wav2Vec2Config(
        vocab_size=5,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        conv_dim=(8, 8),
        conv_stride=(20, 16),
        conv_kernel=(20, 16),
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        pad_token_id=0,
    )
    transformers.Wav2Vec2ForCTC(config).save_pretrained(tmp_path)
    aligner = load_aligner(str(tmp_path))

    class Emitting(torch.nn.Module):
        """Says A in frames 10 to 19 and B in 30 to 39 of 50."""

        def forward(self, samples):
            logits = torch.zeros(1, 50, 5)
            logits[:, :, 0] = 5.0
            logits[:, 10:20, 3] = 10.0
            logits[:, 30:40, 4] = 10.0
            return type("Output", (), {"logits": logits})

    spans = aligner.align(
        np.random.default_rng(0).standard_normal(16_000).astype(np.float32), ["a", "–", "B"]
    )
    assert spans is not None
    assert len(spans) == 3
    aligner._model = Emitting()
    assert aligner.align(np.ones(16_000, np.float32), ["a", "–", "B"]) == [
        (200_000, 400_000),
        None,
        (600_000, 800_000),
    ]


def test_an_absent_ctc_model_is_named(tmp_path: Path):
    with pytest.raises(CheckpointError, match="pocketsphinx"):
        load_aligner(str(tmp_path / "nothing"))
