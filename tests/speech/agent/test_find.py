"""The agent's channel of whole calls: the example corpus and a real call, as they are and with their sides exchanged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.corpus.call_text import CallText
from inkplex_data.corpus.entry import AgentCaller, CallEntry, ChannelSpec
from inkplex_data.corpus.read_corpus import read_corpus
from inkplex_data.corpus.swap import swapped
from inkplex_data.errors import CallRefused, UsageError
from inkplex_data.speech.agent.find import agent_rule, decide, guess_agent
from inkplex_data.speech.agent.score import SideGuess
from tests.conftest import ROOT

EXAMPLES = sorted((ROOT / "examples" / "corpus" / "calls").glob("*.flac"))


def entry(audio: Path, words: Path | None = None) -> CallEntry:
    return CallEntry(
        "call", audio, None, words, None, None, 0, "f", None, None, None, None, None, audio.name, "here"
    )


def guess(call: CallEntry, agent: str | None = None) -> SideGuess:
    """Without a threshold, from the sound of the call's one file."""
    audio = resolve_channels(call.audio, ChannelSpec(0, 1))
    return guess_agent(call, audio, text=CallText.of(call, agent=agent))


def exchanged(audio: Path, folder: Path) -> Path:
    samples, rate_hz = soundfile.read(audio, dtype="int16")
    soundfile.write(folder / "exchanged.wav", samples[:, ::-1], rate_hz)
    return folder / "exchanged.wav"


@pytest.mark.parametrize("audio", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_either_way_round(audio: Path, tmp_path: Path) -> None:
    words = audio.with_suffix(".json")
    as_is, turned = guess(entry(audio, words)), guess(entry(exchanged(audio, tmp_path), words))
    assert (as_is.side, turned.side) == ("left", "right") and as_is.decided() and turned.decided()
    assert as_is.confidence == turned.confidence
    # Without words only the order of speech is left, which points the right way and is not enough.
    alone = guess(entry(audio))
    assert alone.side == "left" and not alone.decided()


def test_a_real_call_either_way_round(real_data: Path, tmp_path: Path) -> None:
    calls = real_data / "calls"
    sides = [
        soundfile.read(calls / f"Auto_Repairs_40_UTC_{side}.wav", dtype="int16")
        for side in ("caller", "agent")
    ]
    soundfile.write(tmp_path / "call.wav", np.stack([side[0] for side in sides], axis=1), sides[0][1])
    found = decide(entry(tmp_path / "call.wav", calls / "Auto_Repairs_40_UTC_agent.json"), "auto")
    assert found.by == "guess" and found.entry.channels == ChannelSpec(agent=1, caller=0)
    assert found.guess is not None and found.guess.confidence > 0.99


def test_what_the_corpus_says_comes_first_then_the_rule() -> None:
    call = entry(EXAMPLES[0])
    named = replace(call, channels=ChannelSpec(1, 0))
    assert decide(named, "left").entry == named and decide(named, "auto").by == "corpus"
    files = replace(call, audio=AgentCaller(EXAMPLES[0], EXAMPLES[1]))
    assert decide(files, "auto").by == "corpus"
    for side, channel in (("left", 0), ("right", 1)):
        found = decide(call, side)  # type: ignore[arg-type]
        assert (found.by, found.entry.channels) == ("rule", ChannelSpec(channel, 1 - channel))
        twin = decide(swapped(call), side).entry  # type: ignore[arg-type]
        assert twin.channels == ChannelSpec(1 - channel, channel) and twin.swapped
    # A twin of a call whose channels are named keeps them exchanged.
    assert decide(swapped(named), "right").entry.channels == ChannelSpec(0, 1)


def test_an_exchanged_twin_has_the_other_side() -> None:
    call = entry(EXAMPLES[0], EXAMPLES[0].with_suffix(".json"))
    assert decide(swapped(call), "auto").entry.channels == ChannelSpec(agent=1, caller=0)


def test_an_undecided_call_is_refused_with_ways_on(real_data: Path) -> None:
    with pytest.raises(CallRefused) as refused:
        decide(entry(EXAMPLES[0]), "auto")
    assert refused.value.code == "agent-undecided"
    assert "speaks first" in refused.value.what and "--agent left" in str(refused.value)
    # The same sound on both sides is another matter.
    with pytest.raises(CallRefused) as refused:
        decide(entry(real_data / "odd_audio" / "dual_mono_24bit.flac"), "auto")
    assert refused.value.code == "audio-dual-mono"


def test_hearing_is_asked_only_where_the_rest_does_not_decide() -> None:
    heard: list[int] = []

    def answers(*texts: str) -> Callable[[np.ndarray], str]:
        def hear(samples: np.ndarray) -> str:
            assert samples.dtype == np.float32 and 0 < len(samples) <= 60 * 16_000
            heard.append(len(samples))
            return texts[len(heard) % 2 - 1]

        return hear

    agent, caller = "Hello, how can I help?", "I'm calling about my bill."
    assert decide(entry(EXAMPLES[0]), "auto", hear=answers(agent, caller)).entry.channels == ChannelSpec(0, 1)
    assert decide(entry(EXAMPLES[0]), "auto", hear=answers(caller, agent)).entry.channels == ChannelSpec(1, 0)
    assert len(heard) == 4
    decide(entry(EXAMPLES[0], EXAMPLES[0].with_suffix(".json")), "auto", hear=answers(caller, agent))
    assert len(heard) == 4


def test_words_of_nobody_by_name_never_become_those_of_the_other_side(tmp_path: Path) -> None:
    """A transcriber was given the left channel, and the left one is the caller's."""
    audio = exchanged(EXAMPLES[-1], tmp_path)
    words = json.loads(EXAMPLES[-1].with_suffix(".json").read_text())["alignments"]
    segments = [
        {
            "text": " ".join(text for text, _, _ in words),
            "words": [
                {"text": text, "start": start, "end": end, "confidence": 0.9}
                for text, (start, end), speaker in words
                if speaker == "SPEAKER_CALLER"
            ],
        }
    ]
    path = tmp_path / "left.json"
    path.write_text(json.dumps({"text": "", "segments": segments, "language": "en"}))
    found = guess(entry(audio, path))
    assert (found.side, found.decided()) == ("right", False)
    assert found.doubt == "the transcript's words are those of left"


def test_a_named_label_is_found_by_where_its_words_lie(tmp_path: Path) -> None:
    document = json.loads(EXAMPLES[0].with_suffix(".json").read_text())
    names = {"SPEAKER_MAIN": "spk_1", "SPEAKER_CALLER": "spk_0"}
    document["alignments"] = [[text, times, names[who]] for text, times, who in document["alignments"]]
    path = tmp_path / "words.json"
    path.write_text(json.dumps(document))
    kinds = {one.kind for one in guess(entry(EXAMPLES[0], path)).evidence}
    assert "words" not in kinds
    named = guess(entry(EXAMPLES[0], path), agent="spk_1")
    assert "words" in {one.kind for one in named.evidence} and named.side == "left"
    other = guess(entry(EXAMPLES[0], path), agent="spk_0")
    assert other.confidence < named.confidence


def test_captions_and_sidecars_are_evidence_too(tmp_path: Path) -> None:
    words = json.loads(EXAMPLES[0].with_suffix(".json").read_text())["alignments"]
    lines = ["WEBVTT", ""]
    for text, (start, end), who in words:
        name = "Agent" if who == "SPEAKER_MAIN" else "Bill"
        lines += [f"00:{start:06.3f} --> 00:{end:06.3f}", f"<v {name}>{text}", ""]
    path = tmp_path / "call.vtt"
    path.write_text("\n".join(lines))
    assert guess(entry(EXAMPLES[0], path)).decided()
    sidecar = EXAMPLES[0].with_suffix(".sidecar.json")
    assert guess(replace(entry(EXAMPLES[0]), sidecar=sidecar)).decided()


def test_a_sidecar_names_the_channels(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES[0], tmp_path / "one.flac")
    (tmp_path / "one.sidecar.json").write_text(
        json.dumps(
            {
                "schema": "inkplex/sidecar@1",
                "identity": {"clip_id": "one"},
                "audio": {"agent": {"index": 1}, "caller": {"index": 0}},
            }
        )
    )
    (found,) = read_corpus(tmp_path).entries
    assert found.channels == ChannelSpec(agent=1, caller=0)
    assert decide(found, "left").entry.channels == ChannelSpec(agent=1, caller=0)


def test_an_unknown_rule_is_refused() -> None:
    assert [agent_rule(name) for name in ("left", "right", "auto")] == ["left", "right", "auto"]
    with pytest.raises(UsageError, match="takes left, right, auto, got 'up'"):
        agent_rule("up")
