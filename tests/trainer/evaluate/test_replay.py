"""Free generation: what is forced, what is free, and that training and generation read the same ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from inkplex_data.clock import FRAME_US
from inkplex_data.errors import UsageError
from inkplex_data.grid import CODEBOOKS, TAG_EPAD
from inkplex_data.loader import make_loader
from inkplex_data.store.call import Call
from inkplex_data.store.reader import Store, open_store
from inkplex_data.trainer.evaluate.replay import (
    ReplayOptions,
    ReplayPlan,
    call_memory,
    caller_ids,
    first_free_frame,
    forced_ids,
    plan_replay,
    replay,
    response_frame,
)
from inkplex_data.trainer.memory.connector import CallMemory, MemoryReaders
from inkplex_data.trainer.model.generator import StreamingGenerator
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.model.speech_model import make_readers, open_speech_model, store_identity
from inkplex_data.trainer.run.teacher_forcing import batch_memory
from tests.trainer.made_recipe import small_recipe
from tests.trainer.made_store import FRAMES, PREFIX_FRAMES, RESPONSE, make_task_store

SILENCE = np.full((400, CODEBOOKS), 77, np.uint16)
SHORT = ReplayOptions(seconds=0.8, ring="exact")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(
        make_task_store(tmp_path_factory.mktemp("replay") / "store", train=2, validation=3)
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def lm(store: Store) -> PersonaPlexLM:
    identity = store_identity(store, split="train", allow_untrained_codec=True)
    return open_speech_model(small_recipe().model, identity).lm


@pytest.fixture(scope="module")
def readers(lm: PersonaPlexLM) -> MemoryReaders:
    made = make_readers(small_recipe(), lm, state_width=8)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for reader in made.readers:
            reader.output.weight.copy_(0.3 * torch.randn(reader.output.weight.shape, generator=draw))
    return made


def call_of(store: Store) -> Call:
    return store.call("call-003")


def plan_of(call: Call, options: ReplayOptions = SHORT, *, context: int = 64) -> ReplayPlan:
    return plan_replay(call, prefix_frames=PREFIX_FRAMES, context=context, delay=1, options=options)


class Ear:
    """Records the ids that a model reads: what its input embedding is given."""

    def __init__(self, lm: PersonaPlexLM, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard: list[Tensor] = []
        embed = lm.embed

        def listen(sequence: Tensor) -> Tensor:
            self.heard.append(sequence.clone())
            return embed(sequence)

        monkeypatch.setattr(lm, "embed", listen)

    def ids(self) -> Tensor:
        """int64 [17, steps]."""
        return torch.cat(self.heard, dim=-1)[0]


def test_training_and_generation_read_the_same_ids(
    store: Store, lm: PersonaPlexLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole call of a training batch, prefix included, against the replay of the same call: the inputs of
    the temporal model are the same ids at every step, delays and all."""
    (batch,) = make_loader(
        store, "validation", seed=0, workers=0, shuffle=False, call_ids=["call-003"], context_frames=64
    )
    trained = Ear(lm, monkeypatch)
    lm.forward_train(batch.codes[None])
    monkeypatch.undo()

    call = call_of(store)
    plan = plan_of(call)
    whole = replace(plan, free=FRAMES, stop=FRAMES + 1)
    generated = Ear(lm, monkeypatch)
    generator = StreamingGenerator(lm, ring="exact")
    generator.replay(forced_ids(call, whole)[None])
    generator.step(generator.frame(caller=torch.full((1, CODEBOOKS), 77)))
    heard = generated.ids()
    assert trained.ids().shape == (17, PREFIX_FRAMES + FRAMES)
    assert torch.equal(heard[:, : PREFIX_FRAMES + FRAMES], trained.ids())
    assert torch.equal(forced_ids(call, whole), batch.codes)


def test_the_opening_is_forced_as_training_reads_it(
    store: Store, lm: PersonaPlexLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay proper: until the first free frame its inputs are training's; after it they are its own."""
    call = call_of(store)
    plan = plan_of(call)
    ear = Ear(lm, monkeypatch)
    made = replay(lm, call, plan, caller_ids(call, plan, SILENCE), SHORT)
    heard = ear.ids()
    wanted = lm.delays.sequence(forced_ids(call, plan)[None], lm.initial_ids())[0]
    # Position f + 1 holds frame f; the last forced frame's delayed codes lie one further.
    forced = plan.prefix_frames + plan.free - plan.first
    assert torch.equal(heard[:, : forced + 1], wanted[:, : forced + 1])
    assert heard.shape[1] == plan.steps
    own = torch.from_numpy(made.ids[:, plan.free - plan.first :])
    assert torch.equal(heard[0, forced + 1 : forced + 1 + 5], own[0, :5])
    assert torch.equal(heard[2, forced + 2 : forced + 2 + 5], own[2, :5])


def test_no_target_word_or_agent_audio_is_given_after_the_opening(store: Store, lm: PersonaPlexLM) -> None:
    """Other targets after the first free frame change nothing; the caller's codes there do."""
    call = call_of(store)
    plan = plan_of(call)
    made = replay(lm, call, plan, caller_ids(call, plan, SILENCE), SHORT)
    other = store.call("call-003")
    codes, text = call.codes.copy(), call.text.copy()
    codes[:CODEBOOKS, plan.free :], text[plan.free :] = 5, 9
    other.__dict__.update(_streams={"codes": codes, "text": text})
    again = replay(lm, other, plan, caller_ids(other, plan, SILENCE), SHORT)
    np.testing.assert_array_equal(again.ids, made.ids)
    codes[CODEBOOKS:, plan.free] = 2_000
    changed = replay(lm, other, plan, caller_ids(other, plan, SILENCE), SHORT)
    assert not np.array_equal(changed.ids[: 1 + CODEBOOKS], made.ids[: 1 + CODEBOOKS])


def test_caller_goes_on_and_then_is_silent(store: Store, lm: PersonaPlexLM) -> None:
    call = call_of(store)
    plan = plan_of(call)
    made = replay(lm, call, plan, caller_ids(call, plan, SILENCE), SHORT)
    left = FRAMES - plan.free
    np.testing.assert_array_equal(made.caller[:, : plan.free + left], call.codes[CODEBOOKS:])
    assert (made.caller[:, plan.free + left :] == 77).all()
    np.testing.assert_array_equal(made.agent[:, : plan.free], call.codes[:CODEBOOKS, : plan.free])
    assert made.ids.shape == (17, plan.free + SHORT.frames)


def test_the_cue_is_free_unless_asked_for(store: Store) -> None:
    call = call_of(store)
    assert response_frame(call) == RESPONSE and call.role[RESPONSE - 1] == TAG_EPAD
    assert first_free_frame(call) == RESPONSE - 1
    assert first_free_frame(call, cue="forced") == RESPONSE


def test_without_a_stored_response_it_is_the_first_answer_to_the_caller(store: Store) -> None:
    call = call_of(store)
    bare = Call(store, {**call.row, "response_start_frame": None})
    assert response_frame(bare) == RESPONSE
    mute = Call(store, {**call.row, "response_start_frame": None, "words": 0})
    with pytest.raises(UsageError, match="agent says nothing"):
        first_free_frame(mute)


def test_a_short_context_keeps_the_prefix_and_drops_the_beginning(store: Store) -> None:
    call = call_of(store)
    plan = plan_of(call, context=PREFIX_FRAMES + SHORT.frames + 1 + 6)
    assert (plan.first, plan.free) == (RESPONSE - 1 - 6, RESPONSE - 1)
    assert plan.steps == PREFIX_FRAMES + SHORT.frames + 1 + 6
    forced = forced_ids(call, plan)
    assert torch.equal(forced[:, :PREFIX_FRAMES], forced_ids(call, plan_of(call))[:, :PREFIX_FRAMES])
    with pytest.raises(UsageError, match="do not fit in a context"):
        plan_of(call, context=PREFIX_FRAMES + SHORT.frames)


def test_the_same_seed_for_baseline_and_trained(
    store: Store, lm: PersonaPlexLM, readers: MemoryReaders
) -> None:
    """Readers without memory are the native model; with memory they draw from the same numbers."""
    call = call_of(store)
    plan = plan_of(call)
    caller = caller_ids(call, plan, SILENCE)
    baseline = replay(lm, call, plan, caller, SHORT)
    np.testing.assert_array_equal(replay(lm, call, plan, caller, SHORT, readers=readers).ids, baseline.ids)
    memory = call_memory(
        call, prefix_frames=PREFIX_FRAMES, first=0, steps=plan.steps, text_table=lm.text_emb.weight
    )
    silent = make_readers(small_recipe(), lm, state_width=8)
    np.testing.assert_array_equal(
        replay(lm, call, plan, caller, SHORT, readers=silent, memory=memory).ids, baseline.ids
    )
    trained = replay(lm, call, plan, caller, SHORT, readers=readers, memory=memory)
    assert not np.array_equal(trained.ids, baseline.ids)
    np.testing.assert_array_equal(
        replay(lm, call, plan, caller, SHORT, readers=readers, memory=memory).ids, trained.ids
    )
    assert SHORT.seed_of("a") != SHORT.seed_of("b")
    assert ReplayOptions(seed=1).seed_of("a") != SHORT.seed_of("a")


@pytest.mark.parametrize("first", [0, 7])
def test_memory_is_training_s_and_goes_on_past_the_recording(
    store: Store, lm: PersonaPlexLM, first: int
) -> None:
    """Within the call it is what the loader gives for the same window; later steps only see more and older."""
    (batch,) = [
        batch
        for batch in make_loader(
            store,
            "validation",
            seed=0,
            workers=0,
            shuffle=False,
            call_ids=["call-003"],
            window_frames=first or None,
            context_frames=64,
        )
        if batch.window[0] == first
    ]
    table = lm.text_emb.weight
    wanted = batch_memory(batch, table)
    call = call_of(store)
    steps = batch.frames
    longer = call_memory(call, prefix_frames=PREFIX_FRAMES, first=first, steps=steps + 40, text_table=table)
    assert wanted is not None and longer is not None

    def seen(memory: CallMemory, step: int) -> set[tuple[object, ...]]:
        columns = [getattr(memory, name).tolist() for name in ("row", "recency", "age", "whole")]
        inside = ((memory.start <= step) & (step < memory.end)).tolist()
        return {row for row, live in zip(zip(*columns, strict=True), inside, strict=True) if live}

    for step in range(steps):
        assert seen(longer, step) == seen(wanted, step), step
    assert longer.end.max() == steps + 40
    assert torch.equal(longer.states[: len(wanted.states)], wanted.states)
    torch.testing.assert_close(longer.text_features[: wanted.tokens], wanted.text_features)


def test_memory_is_what_the_sidecar_permits_also_past_the_call(store: Store, lm: PersonaPlexLM) -> None:
    """An update that may be read for 0.64 s, and again from the call's end on, when only generation goes on."""
    call = call_of(store)
    setup = {"id": "setup", "rows": [0, 2], "available_at_s": 0}
    sidecar = {
        "schema": "inkplex/sidecar@1",
        "identity": {"clip_id": call.call_id},
        "private_updates": {"updates": [setup, {"id": "u", "rows": [2, 6], "available_at_s": 0}]},
        "masks": {
            "permitted_updates": [
                {"update": "setup", "start_s": 0},
                {"update": "u", "start_s": 0.16, "end_s": 0.8},
                {"update": "u", "start_s": FRAMES * 0.08},
            ]
        },
    }
    permitted = Call(store, {**call.row, "claims": 0, "sidecar": json.dumps(sidecar)})
    steps = PREFIX_FRAMES + FRAMES + 20

    def seen(of: Call) -> list[set[int]]:
        memory = call_memory(
            of, prefix_frames=PREFIX_FRAMES, first=0, steps=steps, text_table=lm.text_emb.weight
        )
        assert memory is not None and int(memory.row.min()) == 0
        live = [(memory.start <= step) & (step < memory.end) for step in range(steps)]
        return [set(memory.row[own].tolist()) for own in live]

    for step, (shown, arrived) in enumerate(zip(seen(permitted), seen(call), strict=True)):
        frame = max(step - PREFIX_FRAMES, 0)
        is_open = 2 <= frame < 10 or frame >= FRAMES
        assert shown == (arrived if is_open else arrived & {0, 1}), frame


def test_memory_is_of_the_moment(store: Store, lm: PersonaPlexLM) -> None:
    """A token is seen from the first frame whose session time has reached its arrival, and not before."""
    call = call_of(store)
    memory = call_memory(call, prefix_frames=PREFIX_FRAMES, first=0, steps=60, text_table=lm.text_emb.weight)
    assert memory is not None
    arrival = call.tokens["arrival_us"].to_list()
    for row in range(memory.tokens):
        start = int(memory.start[memory.row == row].min())
        frame = max(start - PREFIX_FRAMES, 0)
        starts_at_us = call.recording_starts_at_us
        assert starts_at_us is not None
        assert starts_at_us + frame * FRAME_US >= arrival[row]
        assert start == 0 or starts_at_us + (frame - 1) * FRAME_US < arrival[row]
