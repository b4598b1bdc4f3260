"""Builds with augmentation and exchanged roles: what is changed is recorded, what is not keeps its bytes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

import inkplex_data as ink
from inkplex_data.audio.augment_caller import Gain
from inkplex_data.audio.augment_plan import AugmentPlan
from inkplex_data.config.recipe import Recipe, load_recipe
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar, Transform
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.errors import ConfigError
from inkplex_data.grid import MASK_TEXT, NO_INPUT
from inkplex_data.pipeline.calls.augmentation import (
    Augmentation,
    cut_words,
    keeping_text,
    noise_files,
    recorded,
)
from inkplex_data.pipeline.calls.withheld_text import withhold
from inkplex_data.pipeline.run import build_store
from inkplex_data.speech.interleave import Word, interleave
from inkplex_data.store.verify import verify_store
from tests.pipeline.conftest import RATE_HZ, tree
from tests.quick_codec import QUICK

ALL = {
    "codec.id": QUICK,
    "augment": {
        "gain": {"probability": 1.0},
        "noise": {"probability": 1.0},
        "room": {"probability": 1.0},
        "text_delay_s": 0.4,
        "text_mask": 0.5,
    },
}


@pytest.fixture(scope="module")
def augmented(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("augmented") / "store"
    summary = build_store(corpus, store, recipe=load_recipe(None, ALL), workers=1)
    assert summary.exit_code == 0, summary.text()
    return store


def test_only_the_caller_of_training_calls_changes(built: Path, augmented: Path) -> None:
    plain, changed = ink.open_store(built), ink.open_store(augmented)
    for call_id in ("one", "two", "three"):
        before, after = plain.call(call_id), changed.call(call_id)
        np.testing.assert_array_equal(after.codes[:8], before.codes[:8])
        same = call_id == "three"  # the validation call
        assert np.array_equal(after.codes[8:], before.codes[8:]) == same
        assert np.array_equal(after.text, before.text) == same
        assert (after.row["sidecar"] is None) == same
    assert verify_store(augmented) == []


def test_the_sidecar_says_what_was_done(augmented: Path) -> None:
    store = ink.open_store(augmented)
    call = store.call("one")
    sidecar = Sidecar.model_validate(json.loads(call.row["sidecar"]))
    assert sidecar.audio is not None and sidecar.audio.agent.origin is None
    made = {transform.name: transform.settings for transform in sidecar.audio.transforms}
    assert list(made)[:4] == ["gain", "reverberation", "echo", "noise"]
    assert made["text-mask"]["part"] == 0.5 and abs(made["text-delay"]["delay_s"]) <= 0.4
    codes = store.problems().filter(pl.col("call_id") == "one").collect()["code"].to_list()
    assert "augmented" in codes and "augmented-words" in codes


def test_withheld_words_are_no_padding(built: Path, augmented: Path) -> None:
    """How dense a call's text is tells of the call, not of what was withheld from it."""
    call = ink.open_store(augmented).call("one")
    withheld = int((call.text == NO_INPUT).sum())
    placed = int(np.isin(call.role, (2, 3)).sum())
    assert withheld and call.row["pad_fraction"] < 1 - placed / call.row["frames"]


def test_withheld_words_carry_no_loss(augmented: Path) -> None:
    call = ink.open_store(augmented).call("one")
    withheld = call.text == NO_INPUT
    assert withheld.any() and not (call.mask[withheld] & MASK_TEXT).any()
    main = call.words.filter(pl.col("speaker") == "SPEAKER_MAIN")
    for row in main.iter_rows(named=True):
        if row["frame"] >= 0:
            assert call.text[row["frame"]] == row["pieces"][0]


def test_same_seed_same_bytes(corpus: Path, augmented: Path, tmp_path: Path) -> None:
    build_store(corpus, tmp_path / "again", recipe=load_recipe(None, ALL), workers=1)
    assert tree(tmp_path / "again") == tree(augmented)


def test_a_constructed_barge_in(tmp_path: Path) -> None:
    """The agent speaks from 0.5 to 3 s, the caller begins at 1.5 s: from 1.7 s on the agent's side is digital silence,
    and its words end there."""
    random = np.random.default_rng(0)
    stereo = np.zeros((4 * RATE_HZ, 2), np.float32)
    for side, start, end in ((0, 0.5, 3.0), (1, 1.5, 2.5)):
        part = slice(int(start * RATE_HZ), int(end * RATE_HZ))
        stereo[part, side] = 0.1 * random.standard_normal(part.stop - part.start)
    folder = tmp_path / "corpus"
    folder.mkdir()
    soundfile.write(folder / "call.wav", stereo, RATE_HZ, subtype="PCM_16")
    words = [[f"w{n}", [0.5 + 0.25 * n, 0.75 + 0.25 * n], "SPEAKER_MAIN"] for n in range(10)]
    (folder / "call.json").write_text(json.dumps({"alignments": words}))
    off = dict.fromkeys(("gain", "noise", "room", "silence"))
    options = {"codec.id": QUICK, "augment": {**off, "barge_in": {"probability": 1.0}}}
    options["splits.validation"] = options["splits.test"] = 0.0
    build_store(folder, tmp_path / "store", recipe=load_recipe(None, options), workers=1)
    call = ink.open_store(tmp_path / "store").call("call")
    assert call.words["text"].to_list() == ["w0", "w1", "w2", "w3", "w4"]
    assert call.words.row(-1, named=True)["end_us"] == 1_700_000 and call.words["method"][-1] == "cut"
    assert (call.level[0, 22:38] == -120).all() and (call.level[0, 7:20] > -30).all()
    assert (call.level[1, 19:31] > -30).all()
    sidecar = Sidecar.model_validate(json.loads(call.row["sidecar"]))
    assert sidecar.audio is not None and sidecar.audio.agent.origin == "constructed"
    assert sidecar.audio.transforms[0].settings["cuts_s"] == [[1.7, 3.0]]
    assert call.row["barge_ins"] == 1 and call.row["overlap_s"] == pytest.approx(0.2, abs=0.03)


def test_turned_off_the_bytes_are_the_original_ones(built: Path, corpus: Path, tmp_path: Path) -> None:
    """Nothing of probability above zero: the store differs from the plain one by its recipe alone, and what names that."""
    off = dict.fromkeys(("gain", "noise", "room", "silence"))
    recipe = load_recipe(None, {"codec.id": QUICK, "store.shard_bytes": 4_000, "augment": off})
    build_store(corpus, tmp_path / "store", recipe=recipe, workers=1)
    ours, plain = tree(tmp_path / "store"), tree(built)
    assert {name for name in plain if ours.get(name) != plain[name]} == {
        "store.json",
        "newest.json",
        "snapshots/000001.json",
    }


def test_swap_roles(built: Path, corpus: Path, tmp_path: Path, recipe: Recipe) -> None:
    """Each side once as the agent. The caller of these calls says one word."""
    swap = load_recipe(None, {"codec.id": QUICK, "audio.swap_roles": True})
    summary = build_store(corpus, tmp_path / "store", recipe=swap, workers=1)
    names = ["one", "three", "two"]
    assert sorted(summary.calls) == sorted([*names, *(f"{name}~swapped" for name in names)])
    store, plain = ink.open_store(tmp_path / "store"), ink.open_store(built)
    for name in names:
        own, twin, before = store.call(name), store.call(f"{name}~swapped"), plain.call(name)
        np.testing.assert_array_equal(own.codes, before.codes)
        np.testing.assert_array_equal(twin.codes, np.roll(before.codes, 8, axis=0))
        assert (twin.split, twin.row["family"]) == (own.split, own.row["family"])
        assert (own.row["agent_channel"], own.row["caller_channel"]) == (0, 1)
        assert (twin.row["agent_channel"], twin.row["caller_channel"]) == (1, 0)
        spoken = twin.words.filter(pl.col("placed") > 0)
        assert spoken.select("text", "speaker").rows() == [("Hello?", "SPEAKER_MAIN")]
        assert set(twin.words["speaker"]) == {"SPEAKER_MAIN", "SPEAKER_CALLER"}
        assert twin.row["voice"] is None and twin.row["role"] is None
    assert recipe.augment is None


def test_noise_that_is_not_there_stops_before_any_work(corpus: Path, tmp_path: Path) -> None:
    overrides = {"codec.id": QUICK, "augment.noise.folder": str(tmp_path / "none")}
    with pytest.raises(ConfigError, match="there is no such folder"):
        build_store(corpus, tmp_path / "store", recipe=load_recipe(None, overrides), workers=1)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("content", ["nothing", "silence", "text"])
def test_noise_that_cannot_be_heard_is_named(corpus: Path, tmp_path: Path, content: str) -> None:
    folder = tmp_path / "noise"
    folder.mkdir()
    if content == "text":
        (folder / "hum.wav").write_text("no sound at all")
    else:
        soundfile.write(folder / "hum.wav", np.zeros(0 if content == "nothing" else 900), RATE_HZ)
    options = {"augment.noise": {"probability": 1.0, "folder": str(folder)}, "codec.id": QUICK}
    summary = build_store(corpus, tmp_path / "store", recipe=load_recipe(None, options), workers=1)
    assert summary.calls == ("three",)  # of validation, so nothing is changed
    assert {problem.code for problem in summary.refused} == {"augment-noise-unusable"}
    assert all("hum.wav" in problem.message or "hum.wav" in problem.item for problem in summary.refused)


def test_noise_files(real_data: Path) -> None:
    assert noise_files(str(real_data / "noise")) == ("car_horn.wav", "dog_bark.wav")


def test_words_end_with_the_audio_at_a_cut() -> None:
    """The cut runs from 1 s to 2 s; only the agent's words are touched."""

    def word(start: int, end: int, speaker: str = "A") -> TimedWord:
        return TimedWord("w", start * 1000, end * 1000, speaker, None, "given")

    plan = AugmentPlan(cuts=((24_000, 48_000),))
    words = [
        word(500, 1_000),
        word(900, 1_100),
        word(1_000, 1_200),
        word(1_500, 2_500),
        word(1_500, 1_600, "B"),
        word(2_000, 2_100),
    ]
    kept, touched = cut_words(words, plan, "A")
    assert touched == 3
    assert [(w.start_us, w.end_us, w.method) for w in kept] == [
        (500_000, 1_000_000, "given"),
        (900_000, 1_000_000, "cut"),
        (1_500_000, 1_600_000, "given"),
        (2_000_000, 2_100_000, "given"),
    ]


def test_no_change_takes_the_last_word() -> None:
    """A delay of 0.3 s would put the only word, which ends at 0.2 s, before the beginning; a cut from 0 s on would
    take it away."""
    recipe = load_recipe(None, {"codec.id": QUICK})
    word = TimedWord("hi", 0, 200_000, recipe.text.main_speaker, None, "given")
    later = TimedWord("there", 500_000, 700_000, recipe.text.main_speaker, None, "given")
    early = Augmentation(AugmentPlan((Gain(1.0),), text_delay_us=300_000), 0.1, 0, None)
    assert keeping_text(early, [word, later], recipe, 10) == early
    assert keeping_text(early, [word], recipe, 10).plan == AugmentPlan((Gain(1.0),))
    late = Augmentation(AugmentPlan(text_delay_us=-900_000), 0.1, 0, None)
    assert keeping_text(late, [word], recipe, 12) == late
    assert keeping_text(late, [word], recipe, 11).plan == AugmentPlan()
    cut = Augmentation(AugmentPlan(cuts=((0, 24_000),), text_delay_us=100_000), 0.1, 0, None)
    assert keeping_text(cut, [word], recipe, 10).plan == AugmentPlan(text_delay_us=100_000)
    both = Augmentation(AugmentPlan(cuts=((0, 24_000),), text_delay_us=300_000), 0.1, 0, None)
    assert keeping_text(both, [word], recipe, 10).plan == AugmentPlan()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4), st.booleans()), max_size=12), st.integers(0, 99)
)
def test_withheld_words_leave_the_others(drawn: list[tuple[int, int, bool]], seed: int) -> None:
    words = [
        TimedWord("w", 80_000 * at, 80_000 * at + 50_000, "A" if main else "B", None, "")
        for at, _, main in drawn
    ]
    given_ = [
        Word([10 + index] * pieces, word.start_us, word.end_us, word.speaker)
        for index, (word, (_, pieces, _)) in enumerate(zip(words, drawn, strict=True))
    ]
    text = interleave(given_, 64, main_speaker="A")
    found = withhold(text, words, AugmentPlan(text_mask=0.5, text_seed=seed), "A")
    left, count = found.text, found.count
    gone = (text.word_frames >= 0) & (left.word_frames < 0)
    assert gone.sum() == count
    for index in range(len(words)):
        before, after = np.flatnonzero(text.ids == 10 + index), np.flatnonzero(left.ids == 10 + index)
        if gone[index]:
            assert not len(after) and (left.ids[before] == NO_INPUT).all()
        else:
            np.testing.assert_array_equal(before, after)
            assert left.word_frames[index] == text.word_frames[index]
            assert left.word_placed[index] == text.word_placed[index]
    assert not found.hidden.any()
    assert withhold(text, words, AugmentPlan(text_mask=1.0), "A").count == (text.word_frames >= 0).sum()
    assert withhold(text, words, AugmentPlan(), "A").text is text


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4)), min_size=1, max_size=12), st.integers(0, 99)
)
def test_withheld_pieces_leave_the_words_rest(drawn: list[tuple[int, int]], seed: int) -> None:
    """Gone from the stream with their loss, or hidden from the input with the stream as it was: the same pieces."""
    words = [TimedWord("w", 80_000 * at, 80_000 * at + 50_000, "A", None, "") for at, _ in drawn]
    given_ = [
        Word([10 + index] * pieces, word.start_us, word.end_us, word.speaker)
        for index, (word, (_, pieces)) in enumerate(zip(words, drawn, strict=True))
    ]
    text = interleave(given_, 64, main_speaker="A")
    plan = AugmentPlan(text_mask=0.5, text_seed=seed, text_mask_unit="piece")
    dropped = withhold(text, words, plan, "A")
    kept = withhold(text, words, dataclasses.replace(plan, text_mask_loss="keep"), "A")
    assert kept.text is text and kept.count == dropped.count == kept.hidden.sum()
    np.testing.assert_array_equal(dropped.text.ids, np.where(kept.hidden, NO_INPUT, text.ids))
    assert np.isin(text.roles[kept.hidden], (2, 3)).all() and not dropped.text.roles[kept.hidden].any()
    for index in range(len(words)):
        left = np.flatnonzero(dropped.text.ids == 10 + index)
        assert dropped.text.word_placed[index] == len(left)
        assert dropped.text.word_frames[index] == (left[0] if len(left) else -1)


def test_a_constructed_side_is_marked() -> None:
    made = [Transform(name="barge-in", seed=0)]
    sidecar = recorded(None, "call", made, constructed=True)
    assert sidecar is not None and sidecar.audio is not None
    assert sidecar.audio.agent.origin == "constructed" and sidecar.audio.caller.origin is None
    assert recorded(None, "call", [], constructed=False) is None
