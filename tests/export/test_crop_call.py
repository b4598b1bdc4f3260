"""The files of a part: the very samples of every layout, and what a file lacks or cannot say is told."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.clips import part_of
from inkplex_data.corpus.entry import CallEntry, Clip, Corpus
from inkplex_data.corpus.read_corpus import read_calls, read_corpus
from inkplex_data.corpus.swap import swapped
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.export.crop_call import crop_call, cropped_entry
from inkplex_data.export.cropped_corpus import crop_corpus
from inkplex_data.export.moshi import export_corpus
from inkplex_data.problems import ProblemLog
from tests.audio.made import save_lossy
from tests.export.made import noise

CLIP = Clip(250_000, 750_000)


def cropped(entry: CallEntry, folder: Path, **options: Path) -> tuple[CallEntry, ProblemLog]:
    log = ProblemLog(entry.call_id)
    folder.mkdir(exist_ok=True)
    crop_call(entry, folder, log, **options)  # type: ignore[arg-type]
    return cropped_entry(entry, folder), log


@pytest.mark.parametrize("call_id", ["one", "sub/two: ü", "pair", "turned"])
@pytest.mark.parametrize("turn", [False, True])
def test_samples_are_those_of_the_file(corpus: Corpus, tmp_path: Path, call_id: str, turn: bool) -> None:
    """Whatever the layout, agent and caller are those of the whole call, exchanged or not, bit for bit."""
    [entry] = [one for one in corpus.entries if one.call_id == call_id]
    entry = swapped(entry) if turn else entry
    part, log = cropped(part_of(entry, CLIP), tmp_path)
    whole, own = (resolve_channels(one.audio, one.channels) for one in (entry, part))
    for side in ("agent", "caller"):
        rate = getattr(whole, side).source.sample_rate_hz
        expected = getattr(whole, side).samples()[rate // 4 : rate * 3 // 4]
        np.testing.assert_array_equal(getattr(own, side).samples(), expected)
    assert not list(log)
    told = CallText.of(part).sidecar
    assert told is not None and told.history is not None and told.history.begins == "cut"
    assert told.identity.source_id == entry.source


def test_a_sidecar_describes_the_file_that_was_written(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.random.default_rng(1).uniform(-0.1, 0.1, (8_000, 2)), 8_000)
    told = {
        "schema": "inkplex/sidecar@1",
        "identity": {"clip_id": "a"},
        "audio": {
            "path": "a.wav",
            "sha256": "0" * 64,
            "sample_rate_hz": 8_000,
            "samples": 8_000,
            "offset_s": 2.0,
        },
    }
    (tmp_path / "a.sidecar.json").write_text(json.dumps(told))
    [entry] = read_corpus(tmp_path).entries
    part, _ = cropped(part_of(entry, CLIP), tmp_path / "part")
    sidecar = CallText.of(part).sidecar
    assert sidecar is not None and sidecar.audio is not None
    audio = sidecar.audio
    assert (audio.path, audio.samples, audio.offset_s) == ("call.wav", 4_000, 2.25)
    assert audio.sha256 == hashlib.sha256((tmp_path / "part" / "call.wav").read_bytes()).hexdigest()
    assert (sidecar.identity.clip_id, sidecar.identity.source_id) == ("a~0.25-0.75", "a")


def test_turns_move_and_untimed_words_are_told(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.full(8_000, 0.1), 8_000)
    (tmp_path / "a.rttm").write_text(
        "SPEAKER a 1 0.0 0.3 <NA> <NA> A <NA> <NA>\nSPEAKER a 1 0.5 0.5 <NA> <NA> B <NA> <NA>\n"
        "SPEAKER a 1 0.8 0.1 <NA> <NA> C <NA> <NA>\n"
    )
    (tmp_path / "a.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nHello there.\n")
    [entry] = read_corpus(tmp_path).entries
    part, log = cropped(part_of(entry, CLIP), tmp_path / "part", turns=tmp_path / "a.rttm")
    assert part.words is None and [problem.code for problem in log] == ["clip-words-untimed"]
    assert (tmp_path / "part" / "call.rttm").read_text() == (
        "SPEAKER call 1 0.0 0.05 <NA> <NA> A <NA> <NA>\nSPEAKER call 1 0.25 0.25 <NA> <NA> B <NA> <NA>\n"
    )


def test_what_is_no_number_is_refused_by_name(tmp_path: Path) -> None:
    samples = np.full((8_000, 2), 0.1, np.float32)
    samples[5_000] = np.nan
    soundfile.write(tmp_path / "a.wav", samples, 8_000, subtype="FLOAT")
    [entry] = read_corpus(tmp_path).entries
    with pytest.raises(CallRefused, match="NaN or infinity in the part"):
        cropped(part_of(entry, CLIP), tmp_path / "part")
    cropped(part_of(entry, Clip(0, 500_000)), tmp_path / "before")


def test_a_call_is_named_where_there_are_several(corpus: Corpus, tmp_path: Path) -> None:
    for call_id, named in ((None, "several calls"), ("gone", "no call 'gone'")):
        with pytest.raises(UsageError, match=named):
            crop_corpus(corpus, call_id, CLIP, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_parts_are_exported_as_the_calls_that_they_are(corpus: Corpus, tmp_path: Path) -> None:
    one = next(entry for entry in corpus.entries if entry.call_id == "one")
    clipped = replace(corpus, entries=(replace(one, clips=(CLIP, Clip(0, 9_000_000))),), problems=())
    summary = export_corpus(clipped, tmp_path / "out")
    assert summary.calls == ["one~0.25-0.75"]
    assert [problem.code for problem in summary.refused] == ["clip-outside"]
    [line] = [json.loads(line) for line in (tmp_path / "out" / "dataset.jsonl").read_text().splitlines()]
    assert line["duration"] == 0.5
    words = json.loads((tmp_path / "out" / line["path"]).with_suffix(".json").read_text())
    assert words["alignments"] == [
        ["day,", [0.09, 0.317891], "SPEAKER_MAIN"],
        ["hi", [0.35, 0.45], "SPEAKER_CALLER"],
    ]


def test_what_a_file_lacks_inside_carries_no_loss_in_the_part(tmp_path: Path) -> None:
    """A second packet of 1,000 samples after another is missing from the file at 48 kHz; the silence in its place is
    nobody's, and the words in it are cut, whoever says them."""
    stereo = np.stack([noise(1, 48_000), noise(2, 48_000)])
    save_lossy(tmp_path / "a.mkv", stereo, "pcm_s16le", lost=range(20, 24))
    [entry] = read_corpus(tmp_path).entries
    part, log = cropped(part_of(entry, CLIP), tmp_path / "part")
    assert [problem.code for problem in log] == ["audio-damaged"]
    told = CallText.of(part).sidecar
    assert told is not None and told.masks is not None
    spans = {(one.modality, one.reason): (one.start_s, one.end_s) for one in told.masks.excluded}
    assert set(spans) == {("agent", "missing"), ("caller", "missing"), ("text", "cut_word")}
    for start_s, end_s in spans.values():
        assert start_s == pytest.approx(20 / 48 - 0.25, abs=0.002) and end_s == pytest.approx(
            24 / 48 - 0.25, abs=0.002
        )
    far, log = cropped(part_of(entry, Clip(0, 250_000)), tmp_path / "before")
    assert not list(log) and CallText.of(far).sidecar.masks is None  # type: ignore[union-attr]


def test_a_call_may_be_named_by_its_file(corpus: Corpus, tmp_path: Path) -> None:
    found = read_calls(corpus.root / "one.wav")
    assert [entry.call_id for entry in found.entries] == ["one"]
    part, _ = crop_corpus(found, None, CLIP, tmp_path / "out")
    [entry] = read_corpus(tmp_path / "out").entries
    told = ("call_id", "family", "split", "role", "voice", "text_conditions")
    assert [getattr(entry, name) for name in told] == [getattr(part, name) for name in told]
    assert read_calls(corpus.root / "broken.wav").refused == ()
    assert read_calls(tmp_path / "out").entries == (entry,)
