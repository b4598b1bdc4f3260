"""What is exported to the Moshi layout and read back has the same words, times and samples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.corpus.entry import CallEntry, Corpus
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.transcripts import load_words
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.errors import UsageError
from inkplex_data.export.moshi import export_corpus, export_store
from inkplex_data.problems import ProblemLog
from inkplex_data.store.reader import open_store
from tests.export.made import WORDS
from tests.store.made import add_calls, call_part, make_store


def samples(entry: CallEntry) -> dict[str, np.ndarray]:
    audio = resolve_channels(entry.audio, entry.channels)
    sides = {"agent": audio.agent, "caller": audio.caller}
    return {side: np.concatenate(list(channel.blocks())) for side, channel in sides.items()}


def words(entry: CallEntry) -> list[TimedWord]:
    assert entry.words is not None
    return load_words(entry.words, duration_us=2_000_000, log=ProblemLog("", strict=True))[0]


@pytest.fixture(scope="module")
def exported(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "moshi"
    summary = export_corpus(corpus, folder)
    assert summary.calls == ["one", "sub/two: ü", "pair", "turned"] and summary.exit_code == 3
    assert [problem.call_id for problem in summary.refused] == ["broken"]
    assert summary.notes == ["1 call without words: run `inkplex-data align`"]
    return folder


@pytest.mark.parametrize("name", ["manifest.jsonl", "dataset.jsonl"])
def test_round_trip(corpus: Corpus, exported: Path, name: str) -> None:
    back = read_corpus(exported / name)
    assert back.kind == ("moshi" if name == "dataset.jsonl" else "manifest") and not back.problems
    own = {entry.call_id: entry for entry in corpus.entries}
    order = ["one", "sub/two: ü", "pair", "turned"]
    for call_id, entry in zip(order, back.entries, strict=True):
        ours, theirs = samples(own[call_id]), samples(entry)
        for role, given in ours.items():
            np.testing.assert_array_equal(theirs[role][: len(given)], given)
            assert not theirs[role][len(given) :].any()
        if call_id == "pair":
            assert entry.words is None
            continue
        assert words(entry) == words(own[call_id])
        assert [(w.text, w.start_us, w.end_us) for w in words(entry)][1] == ("day,", 340_000, 567_891)
    if name == "manifest.jsonl":
        for entry in back.entries:
            ours_ = own[entry.call_id]
            for field in ("call_id", "family", "split", "role", "voice"):
                assert getattr(entry, field) == getattr(ours_, field)


def test_digest_of_the_audio_stays(corpus: Corpus, exported: Path) -> None:
    """Also the digest by which a build knows equal audio, where one file held both sides."""
    back = {entry.call_id: entry for entry in read_corpus(exported).entries}
    for entry in corpus.entries:
        if entry.call_id in ("one", "turned"):
            digests = [
                resolve_channels(e.audio, e.channels).scan(ProblemLog("")).sha256
                for e in (entry, back[entry.call_id])
            ]
            assert digests[0] == digests[1]


def test_the_layout_is_what_others_read(exported: Path) -> None:
    """Plain JSON, a stereo file per line, triples of words, no file in a folder of the id's making."""
    lines = [json.loads(line) for line in (exported / "dataset.jsonl").read_text().splitlines()]
    assert [set(line) >= {"path", "duration"} for line in lines] == [True] * 4
    for line in lines:
        info = soundfile.info(exported / line["path"])
        assert info.channels == 2 and info.frames / info.samplerate == pytest.approx(
            line["duration"], abs=1e-6
        )
    document = json.loads((exported / lines[0]["path"]).with_suffix(".json").read_text())
    assert document["alignments"] == WORDS and document["text_conditions"] == {"mood": "calm"}
    assert [
        len((exported / f"{split}.jsonl").read_text().splitlines()) for split in ("train", "validation")
    ] == [3, 1]
    assert soundfile.info(exported / lines[0]["path"]).subtype == "PCM_16"
    assert soundfile.info(exported / lines[1]["path"]).samplerate == 48_000
    assert sorted(path.name for path in exported.iterdir()) == [
        "data_stereo",
        "dataset.jsonl",
        "manifest.jsonl",
        "train.jsonl",
        "validation.jsonl",
    ]


def test_a_full_folder_is_not_written_to(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(UsageError, match="not empty"):
        export_corpus(corpus, tmp_path)


def test_a_store_gives_words_and_names(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store")
    with open_store(made.root) as store:
        summary = export_store(store, tmp_path / "out")
        lines = [json.loads(line) for line in (tmp_path / "out" / "dataset.jsonl").read_text().splitlines()]
        assert summary.calls == store.call_ids and len(lines) == len(store.call_ids)
        for call_id, line in zip(store.call_ids, lines, strict=True):
            read, _ = load_words(
                (tmp_path / "out" / line["path"]).with_suffix(".json"), duration_us=2**62, log=ProblemLog("")
            )
            stored = store.call(call_id).words
            assert [(w.text, w.start_us, w.end_us) for w in read] == list(
                stored.select("text", "start_us", "end_us").sort("start_us", maintain_order=True).iter_rows()
            )


def test_a_store_names_only_files_with_the_agent_on_the_left(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store", finished=False)
    sides = {"left": (0, 1), "right": (1, 0), "mono": (None, None)}
    parts = [
        call_part(name, 25, source=f"{name}.wav", agent_channel=agent, caller_channel=caller)
        for name, (agent, caller) in sides.items()
    ]
    add_calls(made, 7, parts)
    with open_store(tmp_path / "store") as store:
        summary = export_store(store, tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out" / "dataset.jsonl").read_text().splitlines()]
    paths = dict(zip(summary.calls, (line["path"] for line in lines), strict=True))
    assert {name: paths[name] for name in sides} == {
        "left": "left.wav",
        "right": "data_stereo/right.wav",
        "mono": "data_stereo/mono.wav",
    }
