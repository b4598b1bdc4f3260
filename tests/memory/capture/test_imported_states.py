from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from inkplex_data.errors import RecordingError
from inkplex_data.memory.capture import imported_states
from inkplex_data.memory.capture.imported_states import open_states_file
from inkplex_data.memory.capture.state_bits import first_not_finite, from_float32, from_tensor
from inkplex_data.memory.capture.state_source import imported_states as joined
from inkplex_data.memory.capture.state_source import state_source
from tests.memory.asked import Asked
from tests.memory.identified import HEADER, engine, header_of, metadata_of


def tensor(tokens: int, width: int = 8, seed: int = 0) -> torch.Tensor:
    return torch.randn(tokens, 3, width, generator=torch.Generator().manual_seed(seed)).bfloat16()


def bits(states: torch.Tensor) -> np.ndarray:
    return states.view(torch.int16).numpy().view(np.uint16)


@given(st.lists(st.floats(width=32), min_size=1))
def test_rounding_is_torchs(values: list[float]) -> None:
    array = np.array(values, np.float32)
    ours, theirs = from_float32(array), from_tensor(torch.from_numpy(array))
    finite = np.isfinite(array)
    np.testing.assert_array_equal(ours[finite], theirs[finite])
    np.testing.assert_array_equal(ours[np.isinf(array)], theirs[np.isinf(array)])
    assert np.isnan((ours[np.isnan(array)].astype(np.uint32) << 16).view(np.float32)).all()


def test_every_bfloat16_that_is_not_finite_is_found() -> None:
    everything = np.arange(1 << 16, dtype=np.uint16)
    values = torch.from_numpy(everything.view(np.int16)).view(torch.bfloat16)
    for bit, finite in zip(everything, torch.isfinite(values).tolist(), strict=True):
        assert (first_not_finite(np.array([[0], [bit]], np.uint16)) is None) == finite
    assert first_not_finite(np.array([[0], [0x7F80]], np.uint16)) == 1


@pytest.mark.parametrize("block_bytes", [1, 500, 8 << 20])
def test_files_are_read_in_blocks(tmp_path: Path, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported_states, "BLOCK_BYTES", block_bytes)
    states, path = tensor(50), tmp_path / "s.safetensors"
    save_file({"other": torch.zeros(3), "states": states}, path, metadata={"engine": "x"})
    file = open_states_file(path, tokens=50, where="r.jsonl:2")
    assert (file.tokens, file.width, file.dtype) == (50, 8, "BF16")
    blocks = list(file.blocks())
    assert max(block.nbytes for block in blocks) <= max(block_bytes, 3 * 8 * 2)
    np.testing.assert_array_equal(np.concatenate(blocks), bits(states))


def test_float32_is_rounded_and_the_only_tensor_needs_no_name(tmp_path: Path) -> None:
    values, path = torch.randn(20, 3, 8), tmp_path / "s.safetensors"
    save_file({"hidden": values}, path)
    file = open_states_file(path, tokens=20, where="r.jsonl:2")
    np.testing.assert_array_equal(np.concatenate(list(file.blocks())), bits(values.bfloat16()))
    [request] = [Asked(0, 20)]
    source = joined(HEADER, [request], [file], source="r", accept_unidentified=True)
    assert (source.identity.dtype, source.identity.unidentified) == ("float32", True)


def header(fields: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(fields).encode()
    return struct.pack("<Q", len(text)) + text + data


def described(shape: Any, offsets: Any, dtype: Any = "BF16") -> dict[str, Any]:
    return {"states": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a safetensors file: 0 bytes"),
        (struct.pack("<Q", 2**62) + b"{}", "is not a safetensors file: 10 bytes, header of 4,611"),
        (struct.pack("<Q", 5) + b"{nope", "its header is not JSON"),
        (header({}), r"has 0 tensors \(none\) and none named 'states'"),
        (header({"a": {}, "b": {}}), r"has 2 tensors \(a, b\) and none named"),
        (header({"states": 3}), "does not describe tensor 'states'"),
        (header(described([2, 3, -8], [0, 96])), "does not describe"),
        (header(described([2, 3, 8], [0])), "does not describe"),
        (
            header(described([3, 3, 8], [0, 144])),
            r"has shape \[3, 3, 8\]; 2 computed tokens need \[2, 3, width\]",
        ),
        (header(described([2, 2, 8], [0, 64])), r"need \[2, 3, width\]"),
        (header(described([2, 3], [0, 12])), r"need \[2, 3, width\]"),
        (header(described([2, 3, 8], [0, 192], "I32"), bytes(192)), "is I32; states are BF16, F16, F32"),
        (header(described([2, 3, 8], [0, 96])), "needs 96 bytes; its header gives it 0 to 96 of 0"),
        (header(described([2, 3, 8], [0, 48]), bytes(96)), "needs 96 bytes"),
        (header(described([2, 3, 10**15], [0, 96]), bytes(96)), "needs 12,000,000,000,000,000 bytes"),
    ],
)
def test_headers_are_not_believed(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "s.safetensors"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=message) as caught:
        open_states_file(path, tokens=2, where="r.jsonl:7")
    assert caught.value.code == "recording-states-invalid"
    assert str(caught.value.where) == "r.jsonl:7: s.safetensors"


def test_values_that_are_not_finite_and_files_that_change_are_refused(tmp_path: Path) -> None:
    states, path = tensor(6), tmp_path / "s.safetensors"
    states[4, 1, 2] = float("nan")
    save_file({"states": states}, path)
    file = open_states_file(path, tokens=6, where="r.jsonl:2")
    with pytest.raises(RecordingError, match="states of row 4 are not finite"):
        list(file.blocks())
    os.utime(path, ns=(1, 1))
    with pytest.raises(RecordingError, match="changed after it was checked"):
        list(file.blocks())
    path.unlink()
    with pytest.raises(RecordingError, match="cannot be read"):
        list(file.blocks())


def stated(folder: Path, call: int, tokens: int, width: int = 8) -> Asked:
    path = folder / f"{call}.safetensors"
    asked = Asked(call, tokens, states_path=path)
    save_file({"states": tensor(tokens, width, call)}, path, metadata_of([asked], call, engine(width)))
    return asked


def test_requests_in_any_order_give_states_in_layout_order(tmp_path: Path) -> None:
    requests = [stated(tmp_path, 3, 4), Asked(2, 0), stated(tmp_path, 1, 5)]
    source = state_source(header_of(requests, engine(8)), requests, None)
    assert source is not None
    assert (source.identity.captured, source.identity.width) == (False, 8)
    found = list(source.blocks())
    assert [request for request, _ in found] == [1, 3]
    expected = torch.cat([tensor(5, seed=1), tensor(4, seed=3)])
    np.testing.assert_array_equal(np.concatenate([block for _, block in found]), bits(expected))
    assert state_source(HEADER, [Asked(0, 3)], None) is None


def test_mixtures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RecordingError, match=r"r.jsonl:4: request 2 names no states; request 1 \(line 3\) names 1.safe"
    ) as caught:
        state_source(HEADER, [stated(tmp_path, 1, 4), Asked(2, 1)], None, source="r.jsonl")
    assert caught.value.code == "recording-states-mixed"
    with pytest.raises(RecordingError, match=r"states have width 9, those of 1\.safetensors have 8"):
        requests = [stated(tmp_path, 1, 4), stated(tmp_path, 2, 4, width=9)]
        state_source(HEADER, requests, None, source="r.jsonl")
