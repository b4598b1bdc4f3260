"""States that no model computes are refused with the tokens they stand at; what a model may compute passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from inkplex_data.errors import RecordingError
from inkplex_data.memory.capture import imported_states
from inkplex_data.memory.capture.imported_states import open_states_file
from inkplex_data.memory.capture.state_source import ImportedStates
from tests.memory.asked import Asked
from tests.memory.capture.test_imported_states import tensor
from tests.memory.identified import engine


def checked(folder: Path, *states: torch.Tensor, requests: list[Asked] | None = None) -> np.ndarray:
    """The states of one file each, as an import reads them; they belong to random tokens unless said otherwise."""
    requests = requests or [Asked(call, len(own)) for call, own in enumerate(states)]
    files = []
    for request, own in zip(requests, states, strict=True):
        path = folder / f"{request.call}.safetensors"
        save_file({"states": own.clone()}, path)
        files.append(open_states_file(path, tokens=len(own), where=f"r.jsonl:{request.line}"))
    found = ImportedStates(engine(8), tuple(files), requests)
    return np.concatenate([block for _, block in found.blocks()])


def refusal(folder: Path, *states: torch.Tensor) -> RecordingError:
    with pytest.raises(RecordingError) as caught:
        checked(folder, *states)
    return caught.value


def test_one_zero_row_of_a_triple_is_enough(tmp_path: Path) -> None:
    states = tensor(20)
    states[7, 1] = -0.0
    error = refusal(tmp_path, states)
    assert (error.code, error.where) == ("recording-states-zero", "r.jsonl:2: 0.safetensors")
    assert error.what == "the states of token 7 are zero throughout, in row 34"


@pytest.mark.parametrize("block_bytes", [1, 500, 8 << 20])
def test_a_run_is_told_whole_wherever_blocks_end(
    tmp_path: Path, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imported_states, "BLOCK_BYTES", block_bytes)
    states = tensor(50)
    states[20:41] = 0
    assert "tokens 20 to 40 are zero throughout, in rows 28, 34, 42" in str(refusal(tmp_path, states))
    states = tensor(50)
    states[30:42] = states[5:17]
    error = refusal(tmp_path, states)
    assert error.code == "recording-states-repeated"
    assert error.what == (
        "the states of tokens 30 to 41 are those of other tokens, bit for bit, from token 5 of 0.safetensors on"
    )


def test_one_row_for_all_and_a_file_under_two_names_are_repeats(tmp_path: Path) -> None:
    assert "tokens 1 to 9 are" in str(refusal(tmp_path, tensor(1).expand(10, 3, 8)))
    error = refusal(tmp_path, tensor(10), tensor(10))
    assert error.where == "r.jsonl:3: 1.safetensors"
    assert (
        "tokens 0 to 9 are those of other tokens, bit for bit, from token 0 of 0.safetensors on" in error.what
    )


def test_equal_tokens_may_have_equal_states_but_media_of_one_id_may_not(tmp_path: Path) -> None:
    again = [Asked(0, 10), Asked(1, 10)]
    again[1].ids = again[0].ids
    checked(tmp_path, tensor(10), tensor(10), requests=again)
    again[0].media[:] = again[1].media[:] = 1
    again[0].ids[:] = again[1].ids[:] = 200_010
    checked(tmp_path, tensor(10), tensor(10), requests=again)
    with pytest.raises(RecordingError, match="tokens 1 to 9"):
        checked(tmp_path, tensor(1).expand(10, 3, 8), requests=again[:1])


@pytest.mark.parametrize("row", range(3))
def test_two_equal_rows_of_three_pass(tmp_path: Path, row: int) -> None:
    """As those of two tokens whose difference rounds away in a layer."""
    states = tensor(6)
    others = [other for other in range(3) if other != row]
    states[3, others] = states[2, others]
    assert len(checked(tmp_path, states)) == 6
