"""What generations are measured by: checked on replays whose content is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from inkplex_data.errors import UsageError
from inkplex_data.grid import PAD
from inkplex_data.speech.codec import load_codec
from inkplex_data.store.reader import Store, open_store
from inkplex_data.trainer.evaluate.generate import (
    Generation,
    Generator,
    generations_text,
    measure_generations,
    summarise_generations,
)
from inkplex_data.trainer.evaluate.render import decode_stereo, silence_codes, store_codec
from inkplex_data.trainer.evaluate.replay import Replayed, ReplayOptions, plan_replay
from inkplex_data.trainer.run.loop import RunOptions, train
from inkplex_data.trainer.run.run_files import load_trained
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import FRAMES, PREFIX_FRAMES, RESPONSE, make_task_store

OPTIONS = ReplayOptions(seconds=1.6)


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generator]:
    folder: Path = tmp_path_factory.mktemp("generate")
    codec = load_codec("untrained:0")
    make_task_store(folder / "store", train=1, validation=2, codec_sha256=codec.identity.sha256)
    train(
        small_recipe(data__passes=1),
        folder / "store",
        folder / "run",
        RunOptions(device="cpu", workers=0, allow_untrained_codec=True, tensorboard=False),
    )
    with open_store(folder / "store") as store:
        trained = load_trained(folder / "run", store, split="validation")
        yield Generator(trained, store, store_codec(store), OPTIONS)


def replayed(store: Store, said: dict[int, int]) -> Generation:
    """A call whose free window says `said`: ids by frame after the first free one."""
    call = store.call("call-001")
    plan = plan_replay(call, prefix_frames=PREFIX_FRAMES, context=64, delay=1, options=OPTIONS)
    ids = np.zeros((17, plan.stop), np.int64)
    ids[0] = PAD
    for frame, piece in said.items():
        ids[0, plan.free + frame] = piece
    return Generation(call, "own", Replayed(plan, ids))


def test_an_empty_response(generator: Generator) -> None:
    row = generator.measure(replayed(generator.store, {}))
    assert (row["empty"], row["words"], row["onset_delay_us"], row["text"]) == (True, 0, None, "")
    assert row["agent_speech_us"] == row["pause_us"] == 0


def test_words_delays_and_turns(generator: Generator) -> None:
    """ "red it red it red it" with two frames between words; the caller's question ended at 0.8 s."""
    said = {2 + 3 * at: 4 if at % 2 == 0 else 8 for at in range(6)}
    row = generator.measure(replayed(generator.store, said))
    assert (row["empty"], row["words"], row["text"]) == (False, 6, "red it red it red it")
    assert row["repeated_phrases"] == 2
    free_us = (RESPONSE - 1) * 80_000
    assert row["free_from_us"] == free_us
    assert row["onset_delay_us"] == free_us + 160_000 - 800_000
    # Words last a frame; 160 ms between them are no pause, so they are one unit.
    assert row["agent_speech_us"] == (5 * 3 + 1) * 80_000
    assert (row["pause_us"], row["gap_us"], row["overlap_us"]) == (0, 0, 0)
    assert row["scripted_text"] == "green" and row["scripted_words"] == 1
    assert row["scripted_onset_delay_us"] == RESPONSE * 80_000 - 800_000


def test_generating_the_same_call_twice_says_the_same(generator: Generator) -> None:
    table, refused = measure_generations(generator, ["call-001", "call-002"], ["none", "own", "wrong"])
    again, _ = measure_generations(generator, ["call-002"], ["own"])
    assert not refused and table.height == 6
    assert again.row(0) == table.row(4)
    assert len(generations_text(table).splitlines()) == 5
    *_, scripted = summary = summarise_generations(table)
    assert [row["name"] for row in summary] == ["baseline", "trained", "wrong-memory", "scripted"]
    assert summary[0]["calls"] == scripted["calls"] == 2
    assert (scripted["empty"], scripted["words"]) == (0, 1)
    assert scripted["onset_delay_s"] == pytest.approx(RESPONSE * 0.08 - 0.8)
    own = table.filter(pl.col("memory") == "own")
    assert summary[1]["words"] == own["words"].mean()
    assert summary[1]["overlap_s"] == pytest.approx(own["overlap_us"].to_numpy().mean() / 1e6)


def test_a_call_without_memory_is_named(generator: Generator) -> None:
    made: list[Generation] = []
    table, refused = measure_generations(generator, ["call-000"], ["none", "wrong"], keep=made.append)
    assert table["memory"].to_list() == ["none"] and len(made) == 1
    assert "no partner" in refused["call-000"]


def test_silence_is_the_codec_s_own(generator: Generator) -> None:
    codec = generator.codec
    np.testing.assert_array_equal(silence_codes(codec, 4), codec.encode(np.zeros(4 * 1_920, np.float32)))
    made = generator.generate("call-001", "none")
    assert made.replayed.ids.shape == (17, RESPONSE - 1 + OPTIONS.frames)
    left = FRAMES - (RESPONSE - 1)
    np.testing.assert_array_equal(
        made.replayed.caller[:, RESPONSE - 1 + left :].T,
        silence_codes(codec, OPTIONS.frames)[: OPTIONS.frames - left],
    )


def test_the_audio_is_both_sides_decoded_apart(generator: Generator) -> None:
    made = generator.generate("call-001", "none")
    sound = decode_stereo(generator.codec, made.replayed)
    assert sound.dtype == np.float32 and sound.shape == (2, made.replayed.plan.stop * 1_920)
    np.testing.assert_array_equal(sound[1], generator.codec.decode(made.replayed.caller))


def test_a_generation_behind_another_prefix(generator: Generator) -> None:
    store = generator.store
    own = store.call("call-001").row["prefix_id"]
    named = Generator(generator.trained, store, generator.codec, OPTIONS, prefix=own)
    assert named.prefixes.call("call-002").row["prefix_id"] == own
    with pytest.raises(UsageError, match="no prefix 'other'"):
        Generator(generator.trained, store, generator.codec, OPTIONS, prefix="other")
