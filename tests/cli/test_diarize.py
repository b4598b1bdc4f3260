"""`diarize` on real voices: two streams that are the recording, turns in and out, and what is said of failures."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from click.testing import Result
from typer.testing import CliRunner

from inkplex_data.cli.app import app, main
from inkplex_data.corpus.sidecars.sidecar import read_sidecar
from inkplex_data.speech.diarize.speaker_turns import SpeakerTurn, read_rttm, rttm_text, write_rttm

pytest.importorskip("silero_vad")
if importlib.util.find_spec("resemblyzer") is None:
    pytest.skip("the voice encoder's weights are not installed", allow_module_level=True)
torch.set_num_threads(1)

RATE_HZ = 16_000


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["diarize", *(str(argument) for argument in arguments)])


@pytest.fixture
def talk(real_data: Path, tmp_path: Path) -> Path:
    """Two real voices in turn on one channel: 4.8 s of the first, 2.4 s of the second, and an odd number of samples."""
    both, _ = soundfile.read(real_data / "calls" / "stereo_diarization.wav", dtype="float32")
    one = np.concatenate([both[:, 0], both[: 3 * RATE_HZ + 7, 1]])
    soundfile.write(tmp_path / "my talk.wav", one, RATE_HZ, subtype="PCM_16")
    return tmp_path / "my talk.wav"


def test_two_streams_that_are_the_recording(talk: Path) -> None:
    out = talk.parent / "out"
    result = run(talk, "-o", out, "--speakers", 2, "--json")
    assert result.exit_code == 0, result.output
    row = json.loads(result.output)
    given, _ = soundfile.read(talk, dtype="float32")
    made, rate_hz = soundfile.read(out / "my talk.wav", dtype="float32")
    assert (row["samples"], rate_hz, made.shape) == (len(given), RATE_HZ, (len(given), 2))
    np.testing.assert_array_equal(made[:, 0] + made[:, 1], given)
    assert not np.any((made[:, 0] != 0) & (made[:, 1] != 0))
    # Who speaks most is the agent: the first voice, up to 4.8 s.
    energy = np.square(made.astype(np.float64)).cumsum(axis=0)
    assert energy[int(4.8 * RATE_HZ), 0] > 0.95 * energy[-1, 0]
    assert energy[int(4.8 * RATE_HZ), 1] < 0.05 * energy[-1, 1]
    turns = read_rttm(out / "my talk.rttm")
    assert len({turn.speaker for turn in turns}) == 2 == len(row["speakers_s"])
    assert row["overlap_s"] == 0.0 and row["main"] == turns[0].speaker
    sidecar = read_sidecar(out / "my talk.sidecar.json")
    assert sidecar.audio is not None and sidecar.audio.samples == len(given)
    assert {sidecar.audio.agent.origin, sidecar.audio.caller.origin} == {"constructed"}


def test_turns_that_are_known_and_the_agent_by_label(talk: Path) -> None:
    given, _ = soundfile.read(talk, dtype="float32")
    turns = [
        SpeakerTurn(0, 5_000_000, "ann"),
        SpeakerTurn(4_000_000, 6_000_000, "bob"),
        SpeakerTurn(6_500_000, 8_000_000, "cy"),
    ]
    write_rttm(talk.parent / "known.rttm", turns, "talk")
    out = talk.parent / "out"
    result = run(talk, "-o", out, "--rttm", talk.parent / "known.rttm", "--main", "bob")
    assert result.exit_code == 0, result.output
    assert "ann 5 s, bob 2 s, cy 1.5 s; agent bob, overlap 1 s" in result.output
    assert read_rttm(out / "my talk.rttm") == turns
    made, _ = soundfile.read(out / "my talk.wav", dtype="float32")
    inside = slice(4 * RATE_HZ, 6 * RATE_HZ)
    np.testing.assert_array_equal(made[inside, 0], given[inside])
    assert (
        not made[inside, 1].any() and not made[: inside.start, 0].any() and not made[inside.stop :, 0].any()
    )
    excluded = json.loads((out / "my talk.sidecar.json").read_text())["masks"]["excluded"]
    assert {(part["start_s"], part["end_s"], part["modality"]) for part in excluded} == {
        (4.0, 5.0, "agent"),
        (4.0, 5.0, "caller"),
    }
    toned = run(talk, "-o", talk.parent / "tone", "--rttm", talk.parent / "known.rttm", "--room-tone")
    assert toned.exit_code == 0
    room, _ = soundfile.read(talk.parent / "tone" / "my talk.wav", dtype="float32")
    assert len(room) == len(given)


def test_an_unknown_label_names_those_there_are(talk: Path) -> None:
    write_rttm(talk.parent / "known.rttm", [SpeakerTurn(0, 1_000_000, "ann")], "talk")
    result = run(
        talk, "-o", talk.parent / "out", "--rttm", talk.parent / "known.rttm", "--main", "eve", "--json"
    )
    assert result.exit_code == 1
    row = json.loads(result.output)
    assert row["code"] == "speaker-label-unknown" and "the speakers are ann" in row["message"]
    assert not (talk.parent / "out").exists()


def test_one_failure_of_several_is_named(talk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    silent = talk.parent / "silent.wav"
    soundfile.write(silent, np.zeros(RATE_HZ, np.float32), RATE_HZ)
    broken = talk.parent / "broken.wav"
    broken.write_bytes(b"RIFF")
    result = run(talk, silent, broken, "-o", talk.parent / "out")
    assert result.exit_code == 3
    assert "silent.wav: [speakers-not-found] nobody speaks" in result.output
    assert "broken.wav: [audio-unreadable]" in result.output
    assert run(silent, "-o", talk.parent / "out").exit_code == 1
    with pytest.raises(SystemExit) as ended:
        main(["diarize", str(talk), "-o", str(talk.parent / "out"), "--rttm", str(talk.parent / "none.rttm")])
    assert ended.value.code == 2 and "no such file or folder" in capsys.readouterr().err


def test_files_take_the_turns_of_their_names(talk: Path) -> None:
    """From one file of several recordings, as evaluation campaigns give them, or from a folder."""
    folder, out = talk.parent / "calls", talk.parent / "out"
    folder.mkdir()
    turns = {name: [SpeakerTurn(0, end_us, name)] for name, end_us in (("a", 400_000), ("b", 900_000))}
    for name in ("a", "b", "c"):
        soundfile.write(folder / f"{name}.wav", np.full(RATE_HZ, 0.25, np.float32), RATE_HZ)
    known = folder / "all.rttm"
    known.write_text("".join(rttm_text(own, name) for name, own in turns.items()))
    result = run(folder, "-o", out, "--rttm", known)
    assert result.exit_code == 3 and "c.wav: [words-unreadable] has no speaker turns of 'c'" in result.output
    assert run(folder / "b.wav", "-o", talk.parent / "one", "--rttm", known).exit_code == 0
    for name, own in turns.items():
        write_rttm(talk.parent / "turns" / f"{name}.rttm", own, "any")
    assert run(folder, "-o", talk.parent / "from-folder", "--rttm", talk.parent / "turns").exit_code == 3
    for made in (out, talk.parent / "from-folder"):
        assert {name: read_rttm(made / f"{name}.rttm") for name in turns} == turns
        assert not (made / "c.wav").exists()
    assert read_rttm(talk.parent / "one" / "b.rttm") == turns["b"]


def test_a_folder_keeps_its_names_and_no_audio_is_replaced(
    talk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = talk.parent / "calls"
    (folder / "may").mkdir(parents=True)
    for name in ("a.wav", "may/a.wav"):
        soundfile.write(folder / name, np.zeros(RATE_HZ, np.float32), RATE_HZ)
    write_rttm(folder / "a.rttm", [SpeakerTurn(0, 900_000, "ann")], "a")
    result = run(folder, "-o", talk.parent / "out", "--json")
    assert result.exit_code == 1
    assert [Path(json.loads(line)["audio"]) for line in result.output.splitlines()] == [
        folder / "a.wav",
        folder / "may" / "a.wav",
    ]
    (folder / "may" / "a.wav").unlink()
    assert run(folder, "-o", talk.parent / "out", "--rttm", folder / "a.rttm").exit_code == 0
    assert (talk.parent / "out" / "a.wav").is_file()
    before = talk.read_bytes()
    for arguments, told in (
        ((talk, "-o", talk.parent), "would replace the audio"),
        ((folder / "a.wav", talk.parent / "out" / "a.wav", "-o", talk.parent / "new"), "both be written"),
        ((folder / "may", "-o", talk.parent / "new"), "no audio file"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["diarize", *map(str, arguments)])
        assert ended.value.code == 2 and told in capsys.readouterr().err
    assert talk.read_bytes() == before


@pytest.mark.parametrize(
    "config",
    [
        None,
        "pipeline:\n  name: pyannote.audio.pipelines.SpeakerDiarization\n  params:\n    segmentation: $model/segmentation\n"
        "    embedding: $model/embedding\n    clustering: AgglomerativeClustering\nparams: {}\n",
        "version: 4\n",
        "][",
    ],
    ids=["empty", "missing files", "no pipeline", "no yaml"],
)
def test_a_pipeline_folder_that_is_not_whole(
    talk: Path, config: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyannote.audio")
    folder = talk.parent / "pipeline"
    folder.mkdir()
    if config is not None:
        (folder / "config.yaml").write_text(config)
    with pytest.raises(SystemExit) as ended:
        main(["diarize", str(talk), "-o", str(talk.parent / "out"), "--model", str(folder)])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert str(folder) in told and "offline" in told and "Traceback" not in told
    if config is None:
        assert "config.yaml" in told
    elif "segmentation" in config:
        assert "segmentation" in told
