"""Lexical features: means of frozen embeddings over pieces in CSR form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from inkplex_data.errors import UsageError
from inkplex_data.trainer.memory.text_features import text_features


def csr(lists: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([0, *map(len, lists)])
    return lengths.cumsum(0), torch.tensor([piece for pieces in lists for piece in pieces], dtype=torch.long)


@given(lists=st.lists(st.lists(st.integers(0, 19), max_size=5), max_size=8), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_features_are_means_and_zeros(lists: list[list[int]], seed: int) -> None:
    table = torch.randn(20, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    got = text_features(*csr(lists), table)
    assert got.shape == (len(lists), 6)
    for feature, pieces in zip(got, lists, strict=True):
        expected = table[pieces].mean(0) if pieces else torch.zeros(6, dtype=torch.float64)
        torch.testing.assert_close(feature, expected, atol=1e-12, rtol=0)
        assert pieces or (feature == 0).all()


def test_golden_features(golden: Path) -> None:
    """The golden slots of whole tokens follow from these features (test_memory); here their rule."""
    values = load_file(golden / "memory" / "memory.safetensors")
    lists = json.loads((golden / "memory" / "memory.json").read_text())["piece_lists"]
    got = text_features(*csr(lists), values["piece_table"])
    expected = torch.stack([values["piece_table"][ids].sum(0) / max(1, len(ids)) for ids in lists])
    torch.testing.assert_close(got, expected, atol=1e-12, rtol=0)


def test_a_bfloat16_table_is_summed_in_float32() -> None:
    table = torch.randn(50, 8).bfloat16()
    lists = [[1, 2, 3], [], [4, 4, 5, 6, 7]]
    got = text_features(*csr(lists), table)
    assert got.dtype == torch.float32
    assert not got.requires_grad
    torch.testing.assert_close(got, text_features(*csr(lists), table.double()).float(), atol=1e-6, rtol=0)


def test_integer_types_and_refusals() -> None:
    table = torch.randn(9, 4)
    offsets, pieces = csr([[1, 2], [8]])
    assert torch.equal(
        text_features(offsets.int(), pieces.int(), table), text_features(offsets, pieces, table)
    )
    with pytest.raises(UsageError, match="got 1 … 9"):
        text_features(offsets, torch.tensor([1, 2, 9]), table)
    for wrong in (
        torch.tensor([0, 2]),
        torch.tensor([1, 2, 3]),
        torch.tensor([0, 3, 2, 3]),
        torch.tensor([]),
    ):
        with pytest.raises(UsageError, match="offsets must rise from 0"):
            text_features(wrong, pieces, table)
