"""Capture of hidden rows with the real transformers Inkling, small and untrained, all 42 blocks."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inkplex_data.errors import RecordingError
from inkplex_data.memory.capture.capture_states import capture_rows, capture_states
from inkplex_data.memory.capture.inkling import Inkling, load_inkling
from inkplex_data.memory.capture.inkling_cache import fork_cache, share_prefix
from inkplex_data.memory.capture.state_source import CapturedStates
from tests.memory.asked import FORKED, Asked, context_of
from tests.memory.identified import HEADER
from tests.memory.tiny import AUDIO_TOKEN


@pytest.fixture(scope="module")
def small(small_inkling: Inkling) -> Inkling:
    return small_inkling


def hooked(model: Inkling, ids: np.ndarray) -> torch.Tensor:
    """Rows of a plain forward pass over a whole context, taken by hooks: [n, 3, D]."""
    found: dict[int, torch.Tensor] = {}

    def note(row: int) -> Any:
        return lambda module, inputs, output: found.__setitem__(row, output)

    places = {28: model.text.layers[28], 34: model.text.layers[34], 42: model.text.norm}
    hooks = [module.register_forward_hook(note(row)) for row, module in places.items()]
    with torch.inference_mode():
        model.text(torch.from_numpy(ids.astype(np.int64))[None])
    for hook in hooks:
        hook.remove()
    return torch.stack([found[row][0] for row in (28, 34, 42)], dim=1)


def rows_of(requests: Sequence[Asked], model: Inkling, **options: Any) -> dict[int, torch.Tensor]:
    """Captured rows by call; positions must follow each other."""
    parts: dict[int, list[torch.Tensor]] = {}
    for call, first, rows in capture_rows(requests, model, **options):
        request = next(one for one in requests if one.call == call)
        before = sum(map(len, parts.get(call, [])))
        assert first == before + (request.cached[1] if request.cached else 0)
        parts.setdefault(call, []).append(rows.clone())
    return {call: torch.cat(rows) for call, rows in parts.items()}


def test_one_chunk_equals_hooks_bit_for_bit(small: Inkling) -> None:
    request = Asked(0, 150)
    captured = rows_of([request], small)[0]
    assert captured.shape == (150, 3, 64)
    assert torch.equal(captured, hooked(small, request.ids))
    assert captured.std() > 0.1
    assert not torch.allclose(captured[:, 0], captured[:, 1], atol=0.1)


@pytest.mark.parametrize("chunk_tokens", [64, 17])
def test_any_chunking_gives_the_same_rows(small: Inkling, chunk_tokens: int) -> None:
    """150 positions: beyond the window of 64 and the relative extent of 128."""
    request = Asked(0, 150)
    captured = rows_of([request], small, chunk_tokens=chunk_tokens)[0]
    torch.testing.assert_close(captured, hooked(small, request.ids), atol=1e-4, rtol=0)


def test_forked_prefixes_give_the_rows_of_whole_contexts(small: Inkling) -> None:
    captured = rows_of(FORKED, small, chunk_tokens=50)
    assert list(captured) == [0, 1, 2, 3, 4, 6]
    for call, rows in captured.items():
        whole = hooked(small, context_of(FORKED, call))
        torch.testing.assert_close(rows, whole[len(whole) - len(rows) :], atol=1e-4, rtol=0)


def test_a_fork_is_exact_and_leaves_its_origin_alone(small: Inkling) -> None:
    start, one, other = (Asked(call, tokens).ids for call, tokens in ((0, 80), (1, 20), (2, 20)))
    cache = small.new_cache()
    small.rows(start, cache)
    with torch.inference_mode():
        reference = copy.deepcopy(cache)
    forked, kept = fork_cache(cache), fork_cache(cache)
    on_the_fork = small.rows(one, forked)
    small.rows(other, cache)
    share_prefix(kept, cache)
    # The kept cache costs nothing beside the one that went on: it looks into its keys.
    full = [index for index, layer in enumerate(cache.layers) if not layer.is_sliding]
    assert full == [5, 11, 17, 23, 29, 35, 41]
    assert all(kept.layers[i].keys.data_ptr() == cache.layers[i].keys.data_ptr() for i in full)
    assert kept.get_seq_length() == 80
    expected = small.rows(one, reference)
    assert torch.equal(on_the_fork, expected)
    assert torch.equal(small.rows(one, kept), expected)
    assert cache.get_seq_length() == 100


def test_states_are_the_rows_in_bfloat16(small: Inkling) -> None:
    requests = FORKED[:3]
    states: dict[int, list[np.ndarray]] = {}
    order = []
    for call, first, chunk in capture_states(requests, small, chunk_tokens=32):
        assert chunk.dtype == np.uint16
        assert len(chunk) <= 32
        order.append((call, first))
        states.setdefault(call, []).append(chunk)
    assert order == sorted(order), "layout order"
    rows = rows_of(requests, small, chunk_tokens=32)
    for call, chunks in states.items():
        bits = torch.from_numpy(np.concatenate(chunks).view(np.int16)).view(torch.bfloat16)
        assert torch.equal(bits, rows[call].to(torch.bfloat16))


def test_states_come_as_they_are_computed_and_without_logits(small: Inkling) -> None:
    passes = []
    hook = small.text.norm.register_forward_hook(
        lambda module, inputs, output: passes.append(output.shape[1])
    )
    states = capture_states([Asked(0, 40), Asked(1, 10)], small, chunk_tokens=16)
    assert passes == []
    assert len(next(states)[2]) == 16
    assert passes == [16]
    assert len(list(states)) == 3
    hook.remove()
    assert passes == [16, 16, 8, 10]
    assert not any("head" in name for name, _ in small.text.named_modules())


def audio_request(tokens: int, placeholders: list[int]) -> Asked:
    request = Asked(0, tokens, vocabulary=290)
    request.media[placeholders] = 1
    request.ids[placeholders] = AUDIO_TOKEN
    return request


def test_audio_goes_through_the_models_own_front_end(full_checkpoint: tuple[Path, Any]) -> None:
    """Bit for bit what `InklingForConditionalGeneration` computes from the same dMel rows; also in chunks."""
    folder, stock = full_checkpoint
    model = load_inkling(str(folder), dtype="float32", device="cpu")
    places = [3, 4, 5, 6, 20, 21]
    request = audio_request(30, places)
    dmel = np.random.default_rng(0).integers(0, 16, (len(places), 80), dtype=np.uint8)
    with torch.inference_mode():
        expected = stock.model(
            input_ids=torch.from_numpy(request.ids.astype(np.int64))[None],
            audio_input_ids=torch.from_numpy(dmel.astype(np.int64))[None],
            output_hidden_states=[29, 35, 42],
        ).hidden_states
    expected = torch.stack([expected[index][0] for index in (29, 35, 42)], dim=1)
    assert torch.equal(rows_of([request], model, audio={0: dmel})[0], expected)
    chunked = rows_of([request], model, audio={0: dmel}, chunk_tokens=5)[0]
    torch.testing.assert_close(chunked, expected, atol=1e-4, rtol=0)
    # Placeholders need no id of the vocabulary: it is not looked up.
    request.ids[places] = 2**31 - 1
    assert torch.equal(rows_of([request], model, audio={0: dmel})[0], expected)
    other = 15 - dmel
    assert not torch.allclose(rows_of([request], model, audio={0: other})[0], expected, atol=1e-2)


@pytest.mark.parametrize(
    ("media", "audio", "message"),
    [
        (1, None, r"r.jsonl:2: 2 tokens of request 0 stand for audio, which the recording does not carry"),
        (2, None, r"r.jsonl:2: token 1 of request 0 stands for an image"),
        (1, {0: np.zeros((3, 80), np.uint8)}, "2 audio tokens and 3 dMel rows"),
        (0, {0: np.zeros((1, 80), np.uint8)}, "0 audio tokens and 1 dMel rows"),
    ],
)
def test_media_that_are_not_there(small: Inkling, media: int, audio: Any, message: str) -> None:
    request = Asked(0, 4)
    request.media[1:3] = media
    with pytest.raises(RecordingError, match=message) as caught:
        next(capture_states([request], small, source="r.jsonl", audio=audio))
    assert caught.value.code == "recording-media-absent"
    assert "import states" in (caught.value.next_step or "")


def test_ids_outside_the_vocabulary_are_named_before_anything_is_computed(small: Inkling) -> None:
    requests = [Asked(0, 4), Asked(1, 4)]
    requests[1].ids[2] = 201_024
    with pytest.raises(
        RecordingError, match=r"r.jsonl:3: token 2 of request 1 has id 201024; small:0 has 201024"
    ) as caught:
        next(capture_states(requests, small, source="r.jsonl"))
    assert caught.value.code == "recording-token-id"


def test_states_that_are_not_finite_are_refused(small: Inkling) -> None:
    class Broken:
        identity, vocabulary, audio = small.identity, small.vocabulary, None

        def rows(self, ids: np.ndarray, cache: Any) -> torch.Tensor:
            rows = torch.zeros(len(ids), 3, 8)
            rows[2, 1, 5] = 3.4e38  # finite in float32, not in bfloat16
            return rows

    with pytest.raises(RecordingError, match="position 2 are not finite in bfloat16"):
        next(capture_states([Asked(0, 4)], Broken()))  # type: ignore[arg-type]


def test_a_trained_model_is_not_run_on_byte_tokens(small_inkling: Inkling) -> None:
    """Their ids are in every vocabulary, so only the recording's own word for its tokenizer can tell."""
    trained = copy.copy(small_inkling)
    trained.identity = dataclasses.replace(small_inkling.identity, untrained=False)
    header = HEADER.model_copy(update={"tokenizer": "inkling-bytes"})
    other = header.model_copy(update={"tokenizer": "inkling-o200k"})
    for said, model in ((header, small_inkling), (other, trained)):
        assert CapturedStates(said, [], model, 16, "r.jsonl").identity.untrained is model.identity.untrained
    with pytest.raises(RecordingError, match="bytes"):
        CapturedStates(header, [], trained, 16, "r.jsonl")
