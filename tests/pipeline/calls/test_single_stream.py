"""Any speech as one stream (seeds/002, stage 2): all voices in the agent's, all words in one text, nobody to listen."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile
from pydantic import ValidationError
from typer.testing import CliRunner

import inkplex_data as ink
from inkplex_data.cli.app import app
from inkplex_data.config.recipe import CodecConfig, Recipe, load_recipe
from inkplex_data.grid import MASK_AGENT, MASK_CALLER, MASK_HIDDEN_TEXT, MASK_TEXT, NO_INPUT, PAD
from inkplex_data.loader import make_loader
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.run import build_store
from tests.conftest import ROOT
from tests.pipeline.conftest import RATE_HZ, write_call
from tests.quick_codec import QUICK

SAID = [
    ("Good", 0.5, 0.8, "Ann"),
    ("unbelievably", 0.9, 1.3, "Ann"),
    ("Hello", 1.0, 1.4, "Bob"),  # over Ann's word
    ("yes", 2.0, 2.3, "Cid"),
    ("well", 2.6, 2.9, "Ann"),
]


def recipe(**changes: object) -> Recipe:
    quiet = {"augment": None, "splits.validation": 0.0, "splits.test": 0.0}
    return load_recipe("moshi_single", {"codec.id": QUICK, **quiet, **changes})


@pytest.fixture(scope="module")
def talk(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four seconds of a real one-channel file beside a transcript of three people."""
    folder = tmp_path_factory.mktemp("talk") / "corpus"
    folder.mkdir()
    samples, rate_hz = soundfile.read(real_data / "mono" / "input_service.wav", dtype="float32")
    soundfile.write(folder / "talk.wav", samples[5 * rate_hz : 9 * rate_hz], rate_hz, subtype="FLOAT")
    words = [[text, [start, end], speaker] for text, start, end, speaker in SAID]
    (folder / "talk.json").write_text(json.dumps({"alignments": words}))
    return folder


@pytest.fixture(scope="module")
def built(talk: Path) -> Path:
    store = talk.parent / "store"
    summary = build_store(talk, store, recipe=recipe(), workers=1)
    assert summary.exit_code == 0 and summary.repairs == {"text-replaced": 1}, summary.text()
    return store


def test_one_channel_as_it_is(talk: Path, built: Path) -> None:
    call = ink.open_store(built).call("talk")
    samples, _ = soundfile.read(talk / "talk.wav", dtype="float32")
    codec = tools.codec(CodecConfig(id=QUICK), "cpu")
    np.testing.assert_array_equal(call.codes[:8].T, codec.encode(samples))
    silence = codec.encode(np.zeros(48_000, np.float32))[-1]
    assert (call.codes[8:] == silence[:, None]).all()
    assert set(call.mask.tolist()) == {MASK_TEXT | MASK_AGENT}
    assert (call.row["agent_channel"], call.row["caller_channel"]) == (None, None)
    assert call.row["caller_speech_ratio"] == 0 and call.row["agent_speech_ratio"] > 0
    assert (call.level[1] == -120).all()


def test_everybodys_words_in_one_text_stream(built: Path) -> None:
    """In order of time, and a word that begins over another takes the place of its pending pieces."""
    store = ink.open_store(built)
    call, pieces = store.call("talk"), store.pieces()
    assert pieces is not None
    assert call.words["speaker"].to_list() == [speaker for *_, speaker in SAID]
    assert call.words["frame"].to_list() == [int(start * 12.5 + 1e-9) for _, start, _, _ in SAID]
    long = call.words.row(1, named=True)
    assert long["placed"] == 1 < len(long["pieces"])  # frame 11; Bob begins on 12
    spoken = "".join(pieces[int(piece)] for piece in call.text if piece > PAD)
    first = pieces[long["pieces"][0]]
    assert spoken == f"▁Good{first}▁Hello▁yes▁well"
    assert call.row["words_per_minute"] > 0


def test_two_channels_are_mixed(tmp_path: Path) -> None:
    """The mean of both, and a note; where one side ends early, the mixture may lack a voice and carries no loss."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_call(folder, "both", 3)
    stereo, _ = soundfile.read(folder / "both.wav", dtype="float32")
    for name, side in (("left", stereo[:, 0]), ("right", stereo[:36_000, 1])):
        soundfile.write(folder / f"{name}.wav", side, RATE_HZ, subtype="FLOAT")
    lines = [
        {"id": "both", "path": "both.wav"},
        {"id": "files", "path": {"agent": "left.wav", "caller": "right.wav"}, "words": "both.json"},
    ]
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(line | {"family": "f"}) + "\n" for line in lines))
    summary = build_store(manifest, tmp_path / "store", recipe=recipe(), workers=1)
    assert summary.calls == ("both", "files"), summary.text()
    store = ink.open_store(tmp_path / "store")
    call, codec = store.call("both"), tools.codec(CodecConfig(id=QUICK), "cpu")
    np.testing.assert_array_equal(call.codes[:8].T, codec.encode(stereo.mean(axis=1)))
    assert [row["name"] for row in json.loads(call.row["sidecar"])["audio"]["transforms"]] == ["mix"]
    assert summary.repairs["augmented"] == 2
    spoken = call.words.filter(pl.col("placed") > 0)["speaker"]
    assert set(spoken) == {"SPEAKER_MAIN", "SPEAKER_CALLER"}
    mask = store.call("files").mask
    assert (mask[: 36_000 // 1_920] == MASK_TEXT | MASK_AGENT).all()
    assert (mask[36_000 // 1_920 :] == MASK_TEXT).all()


def test_the_same_sound_twice_is_one_voice_here(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_call(folder, "dual", 3)
    stereo, _ = soundfile.read(folder / "dual.wav", dtype="float32")
    soundfile.write(folder / "dual.wav", np.stack([stereo[:, 0]] * 2, axis=1), RATE_HZ)
    assert build_store(folder, tmp_path / "store", recipe=recipe(), workers=1).calls == ("dual",)


def test_the_text_is_delayed_and_hidden_as_stage_two_has_it(talk: Path, tmp_path: Path) -> None:
    """Within ±0.6 s, by call and seed; what is hidden stays a target that the model does not get."""
    given = load_recipe("moshi_single").augment
    assert given is not None and (given.text_delay_s, given.text_mask) == (0.6, 0.3)
    folder = tmp_path / "corpus"
    shutil.copytree(talk, folder)
    for gain, name in ((0.5, "again"), (0.7, "third")):
        shutil.copy(folder / "talk.json", folder / f"{name}.json")
        samples, rate_hz = soundfile.read(folder / "talk.wav", dtype="float32")
        soundfile.write(folder / f"{name}.wav", samples * gain, rate_hz, subtype="FLOAT")
    lines = [{"id": name, "path": f"{name}.wav", "family": "one"} for name in ("again", "talk", "third")]
    (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    augment = {**given.model_dump(), "text_mask": 0.5}
    for store in ("one", "two"):
        build_store(folder, tmp_path / store, recipe=recipe(augment=augment), workers=1)
    one, two = (ink.open_store(tmp_path / name) for name in ("one", "two"))
    delays = set()
    for call_id in one.call_ids:
        call = one.call(call_id)
        np.testing.assert_array_equal(call.text, two.call(call_id).text)
        made = {
            row["name"]: row["settings"] for row in json.loads(call.row["sidecar"])["audio"]["transforms"]
        }
        delays.add(made["text-delay"]["delay_s"])
        assert (made["text-mask"]["unit"], made["text-mask"]["loss"]) == ("piece", "keep")
    assert len(delays) == 3 and all(abs(delay_s) <= 0.6 for delay_s in delays)
    hidden = 0
    for batch in make_loader(one, "train", seed=0, memory="none"):
        is_hidden = (batch.mask & MASK_HIDDEN_TEXT).bool()
        hidden += int(is_hidden.sum())
        assert (batch.codes[0][is_hidden] > PAD).all() and (batch.mask[is_hidden] & MASK_TEXT).all()
        assert (batch.inputs[0][is_hidden] == NO_INPUT).all()
        assert (batch.inputs[0][~is_hidden] == batch.codes[0][~is_hidden]).all()
        assert (batch.inputs[1:] == batch.codes[1:]).all()
    messages = one.problems().filter(pl.col("code") == "augmented-words").collect()["message"].to_list()
    assert hidden and sum(int(message.split(", ")[1].split()[0]) for message in messages) == hidden


def test_the_model_gets_nine_streams_and_learns_them(built: Path) -> None:
    loader = make_loader(built, "train", seed=0, memory="none")
    (batch,) = list(loader)
    assert (batch.codes[9:] == NO_INPUT).all() and (batch.codes[1:9] >= 0).all()
    assert not (batch.mask & MASK_CALLER).any()
    script = runpy.run_path(str(ROOT / "examples" / "train_voice.py"))
    losses = script["train_voice"](built, passes=2, allow_untrained_codec=True)
    assert losses[1] < losses[0]


def test_every_look_at_such_a_store(built: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    for command in (["verify"], ["audit"], ["validate"], ["stats"]):
        result = run(app, [*command, str(built)])
        assert result.exit_code == 0, result.output
    shown = run(app, ["inspect", str(built), "talk"]).output
    assert "Hello" in shown and "agent" in shown and "caller" not in shown
    page = tmp_path / "report.html"
    assert run(app, ["report", str(built), "-o", str(page)]).exit_code == 0
    assert "Hello" in page.read_text()


def test_what_needs_two_sides_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"audio\.swap_roles: false, prefix: null, augment\.gain: null"):
        Recipe.model_validate({"audio": {"streams": "single", "swap_roles": True}, "augment": {}})
