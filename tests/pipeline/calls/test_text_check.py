"""Text beside sound: words on the other side, words behind the agent's audio, text that a tokenizer does not know."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

import inkplex_data as ink
from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.corpus.entry import CallEntry, ChannelSpec
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.swap import swapped
from inkplex_data.errors import CallRefused
from inkplex_data.grid import MASK_AGENT, MASK_ALL, MASK_CALLER, MASK_TEXT
from inkplex_data.pipeline.calls.prepare import CallInput
from inkplex_data.pipeline.calls.scan_call import SCAN, ScanJob, ScannedCall
from inkplex_data.pipeline.run import build_store
from inkplex_data.pipeline.stage import Build
from tests.conftest import ROOT
from tests.pipeline.conftest import RATE_HZ, voice, write_manifest

CODES = {"words-other-side", "words-side-doubtful", "words-past-agent"}


def scanned(entry: CallEntry, store: Path, **settings: object) -> ScannedCall:
    build = Build(load_recipe("moshi_stereo", settings), store, store.parent)
    return SCAN.do(ScanJob(build=build, given=CallInput.of(entry)))


def codes(found: ScannedCall) -> set[str]:
    return {problem.code for problem in found.problems} & CODES


@pytest.fixture(scope="module")
def real() -> CallEntry:
    return read_corpus(ROOT / "examples" / "corpus").entries[0]


def test_a_real_call_is_right_and_so_is_its_exchanged_twin(real: CallEntry, tmp_path: Path) -> None:
    for entry in (real, swapped(real)):
        found = scanned(entry, tmp_path / "store")
        assert not found.scan.is_text_masked and codes(found) == set()


def test_the_real_call_with_hallucinated_words_is_right(real_data: Path, tmp_path: Path) -> None:
    folder, name = real_data / "calls", "Auto_Repairs_40_UTC"
    line = {"agent": f"{folder}/{name}_agent.wav", "caller": f"{folder}/{name}_caller.wav"}
    for path, refused in ((line, False), ({"agent": line["caller"], "caller": line["agent"]}, True)):
        manifest = write_manifest(
            tmp_path, [{"id": "a", "path": path, "words": f"{folder}/{name}_agent.json"}]
        )
        (entry,) = read_corpus(manifest, allow_outside=True).entries
        if refused:
            with pytest.raises(CallRefused, match="other ones at"):
                scanned(entry, tmp_path / "store")
        else:
            assert codes(scanned(entry, tmp_path / "store")) == set()


@pytest.mark.parametrize("only_agent", [False, True])
def test_exchanged_channels_are_refused(real: CallEntry, tmp_path: Path, only_agent: bool) -> None:
    if only_agent:
        document = json.loads(real.words.read_text()) if real.words else {}
        document["alignments"] = [word for word in document["alignments"] if word[2] == "SPEAKER_MAIN"]
        (tmp_path / "words.json").write_text(json.dumps(document))
        real = dataclasses.replace(real, words=tmp_path / "words.json")
    with pytest.raises(CallRefused, match="speech on the other ones at") as refused:
        scanned(dataclasses.replace(real, channels=ChannelSpec(1, 0)), tmp_path / "store")
    assert refused.value.code == "words-other-side"


def bursts(folder: Path, agent_s: list[float], caller_s: list[float]) -> CallEntry:
    """Twelve seconds at 8 kHz: half a second of noise from each of these times; the agent's words at 1, 2, … 8 s."""
    random = np.random.default_rng(0)
    samples = 1e-4 * random.standard_normal((12 * 8_000, 2))
    for side, starts in enumerate((agent_s, caller_s)):
        for start in starts:
            samples[int(start * 8_000) :][:4_000, side] += 0.1 * random.standard_normal(4_000)
    soundfile.write(folder / "c.wav", samples, 8_000)
    said = [["word", [start, start + 0.5], "SPEAKER_MAIN"] for start in range(1, 9)]
    (folder / "c.json").write_text(json.dumps({"alignments": said}))
    (entry,) = read_corpus(folder).entries
    return entry


def test_a_doubtful_side_takes_the_text_out_of_the_loss(tmp_path: Path) -> None:
    """The caller's channel speaks at every word, the agent's at every other one."""
    entry = bursts(tmp_path, [1, 3, 5, 7], [1, 2, 3, 4, 5, 6, 7, 8])
    found = scanned(entry, tmp_path / "store")
    assert found.scan.is_text_masked and codes(found) == {"words-side-doubtful"}
    with pytest.raises(CallRefused, match="fits them at"):
        scanned(entry, tmp_path / "strict", strict=True)
    assert not scanned(entry, tmp_path / "without", **{"words.source": "none"}).scan.is_text_masked


def test_both_speaking_is_right(tmp_path: Path) -> None:
    everywhere = [1.0, 2, 3, 4, 5, 6, 7, 8]
    found = scanned(bursts(tmp_path, everywhere, everywhere[::2]), tmp_path / "store")
    assert not found.scan.is_text_masked and codes(found) == set()


def test_words_over_a_silent_channel_are_refused(tmp_path: Path) -> None:
    stereo = np.stack([np.zeros(2 * RATE_HZ, np.float32), voice(1, 2.0, 120)], axis=1)
    soundfile.write(tmp_path / "c.wav", stereo, RATE_HZ)
    (tmp_path / "c.json").write_text('{"alignments": [["Hello", [0.1, 0.4], "SPEAKER_MAIN"]]}')
    (entry,) = read_corpus(tmp_path).entries
    with pytest.raises(CallRefused, match="silent throughout, but 1 word of the transcript is the agent's"):
        scanned(entry, tmp_path / "store")


def test_what_the_calls_table_and_the_mask_say(tmp_path: Path, recipe: Recipe) -> None:
    """Two mono files: the agent's ends at 1.5 s of 2 s, words go on; others are lost, and one is in no known script."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    soundfile.write(folder / "agent.wav", voice(1, 1.5, 100), RATE_HZ)
    soundfile.write(folder / "caller.wav", voice(2, 2.0, 200), RATE_HZ)
    said = [
        ["здравствуйте", 0.2, 0.8],
        ["zero", 0.9, 0.9],
        ["late", 1.6, 1.9],
        ["later", 5, 6],
        ["gone", None, 7],
    ]
    document = {"alignments": [[text, [start, end], "SPEAKER_MAIN"] for text, start, end in said]}
    (folder / "words.json").write_text(json.dumps(document))
    sides = {"agent": "agent.wav", "caller": "caller.wav"}
    manifest = write_manifest(folder, [{"id": "pair", "path": sides, "words": "words.json"}])
    summary = build_store(manifest, tmp_path / "store", recipe=recipe, workers=1)
    assert summary.exit_code == 0, summary.text()
    store = ink.open_store(tmp_path / "store")
    mask = store.call("pair").mask
    assert (mask[:18] == MASK_ALL).all()
    assert (mask[18:] == MASK_ALL ^ MASK_AGENT ^ MASK_TEXT).all() and mask[18] == MASK_CALLER
    problems = store.problems().collect()
    told = dict(problems.select("code", "message").iter_rows())
    assert told["words-past-agent"].startswith(
        "the agent's own audio ends at 1.500 s, and 1 word begins after"
    )
    assert "text-byte-pieces" in told
    # Of five words one has no duration, and one lies behind the audio; the one without a start ends behind it, too.
    assert store.calls().select("words", "words_dropped").collect().rows() == [(2, 3)]
