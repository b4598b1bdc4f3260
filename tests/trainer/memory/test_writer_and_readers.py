"""Writer and readers against independent values, their sizes, visibility, and chunked against dense attention."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from inkplex_data.errors import ConfigError
from inkplex_data.memory.plan import plan_chunks
from inkplex_data.trainer.memory import visibility
from inkplex_data.trainer.memory import writer_and_readers as memory_module
from inkplex_data.trainer.memory.connector import MemoryReaders
from inkplex_data.trainer.memory.visibility import Intervals
from inkplex_data.trainer.memory.writer_and_readers import MemoryReader, MemoryWriter
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig
from tests.trainer.conftest import random_memory


@pytest.fixture(scope="module")
def values(golden: Path) -> dict[str, Tensor]:
    return load_file(golden / "memory" / "memory.safetensors")


def golden_parts(values: dict[str, Tensor], golden: Path) -> tuple[MemoryWriter, MemoryReader]:
    sizes = json.loads((golden / "memory" / "memory.json").read_text())
    writer = MemoryWriter(
        sizes["state_rows"], sizes["state_width"], sizes["text_width"], sizes["slot_width"]
    ).double()
    reader = MemoryReader(sizes["native_width"], sizes["slot_width"], sizes["heads"]).double()
    names = {"slot_norm": "norm", "kind_table": "kind.weight"}
    names |= {"recency_table": "recency.weight", "age_table": "age.weight"}
    for module, prefix in ((writer, "writer."), (reader, "reader.")):
        state = {}
        for name, value in values.items():
            if name.startswith(prefix) and name != "reader.residual":
                role = name.removeprefix(prefix)
                if role in names:
                    state[names[role]] = value
                else:
                    part, kind = role.rsplit("_", 1)
                    state[f"{names.get(part, part)}.{kind}"] = value
        module.load_state_dict(state, strict=True)
    return writer, reader


def golden_features(values: dict[str, Tensor], golden: Path) -> Tensor:
    lists = json.loads((golden / "memory" / "memory.json").read_text())["piece_lists"]
    table = values["piece_table"]
    return torch.stack([table[ids].sum(0) / max(1, len(ids)) for ids in lists])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_slots_and_residual_equal_the_golden_values(
    values: dict[str, Tensor], golden: Path, dtype: torch.dtype, tolerance: float
) -> None:
    writer, reader = (part.to(dtype) for part in golden_parts(values, golden))
    slots = writer(
        values["states"].bfloat16(),
        golden_features(values, golden),
        values["kind"],
        values["ver_row"],
        values["ver_recency"],
        values["ver_age"],
        values["ver_whole"],
    )
    assert slots.dtype == dtype
    torch.testing.assert_close(slots.double(), values["slots"], atol=tolerance, rtol=0)
    native = values["native_in"].to(dtype)
    for limit in (131_072, 3, 1):
        residual = reader(native[None], slots, values["ver_start"], values["ver_end"], limit=limit)
        assert residual.dtype == dtype
        torch.testing.assert_close(residual[0].double(), values["reader_residual"], atol=tolerance, rtol=0)
        out = native + residual[0]
        torch.testing.assert_close(out.double(), values["native_out"], atol=tolerance, rtol=0)
    assert (residual[0, :2] == 0).all()


def test_parameter_counts() -> None:
    """The seed's table of parameters (seeds/000, section 7)."""
    with torch.device("meta"):
        modules = MemoryReaders(PersonaPlexConfig())
    count = {name: sum(p.numel() for p in part.parameters()) for name, part in modules.named_modules()}
    assert count["writer.hidden"] == 12_583_936
    assert count["writer.text"] == 4_195_328
    assert count["writer.kind"] == 7_168
    assert count["writer.recency"] == 17_408
    assert count["writer.age"] == 15_360
    assert count["writer.norm"] == 2_048
    assert count["writer"] == 16_821_248
    for reader in range(4):
        assert count[f"readers.{reader}.query_norm"] == 8_192
        assert count[f"readers.{reader}.query"] == 16_781_312
        assert count[f"readers.{reader}.key"] == 4_198_400
        assert count[f"readers.{reader}.value"] == 4_198_400
        assert count[f"readers.{reader}.output"] == 16_781_312
        assert count[f"readers.{reader}"] == 41_967_616
    assert count["readers"] == 167_870_464
    assert count[""] == 184_691_712
    assert modules.blocks == (7, 15, 23, 31)


def dense_residual(reader: MemoryReader, native: Tensor, slots: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """The equations with one mask over all versions (seeds/000, section 6)."""
    step = torch.arange(native.shape[1])[:, None]
    seen = (start <= step) & (step < end)
    query = reader.query(reader.query_norm(native))
    key, value = reader.key(slots), reader.value(slots)

    def heads(x: Tensor) -> Tensor:
        return x.reshape(-1, reader.heads, x.shape[-1] // reader.heads).transpose(0, 1)

    scores = heads(query[0]) @ heads(key).transpose(1, 2) / (native.shape[-1] / reader.heads) ** 0.5
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    out = reader.output((weights @ heads(value)).transpose(0, 1).reshape(native[0].shape))
    return torch.where(seen.any(1, keepdim=True), out, torch.zeros_like(out))[None]


def trained_reader(width: int = 32, slots: int = 16, heads: int = 4) -> MemoryReader:
    torch.manual_seed(0)
    reader = MemoryReader(width, slots, heads).double()
    torch.nn.init.normal_(reader.output.weight, std=0.3)
    torch.nn.init.normal_(reader.output.bias)
    return reader


@given(
    versions=st.integers(0, 40),
    steps=st.integers(1, 30),
    limit=st.integers(1, 50),
    group=st.sampled_from([1, 7, 2**25]),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=40)
def test_chunked_attention_equals_dense_attention(
    versions: int, steps: int, limit: int, group: int, seed: int
) -> None:
    """Values and every gradient, for any plan limit and mask group, with steps that see nothing."""
    draw = torch.Generator().manual_seed(seed)
    reader = trained_reader()
    native = torch.randn(1, steps, 32, dtype=torch.float64, generator=draw, requires_grad=True)
    slots = torch.randn(versions, 16, dtype=torch.float64, generator=draw, requires_grad=True)
    start = torch.randint(0, steps, (versions,), generator=draw)
    end = start + torch.randint(0, 9, (versions,), generator=draw)
    inputs = [native, slots, *reader.parameters()]
    weigh = torch.randn(1, steps, 32, dtype=torch.float64, generator=draw)
    before = visibility.MASK_ELEMENTS
    visibility.MASK_ELEMENTS = group
    try:
        chunked = reader(native, slots, start.int(), end.int(), limit=limit)
        got = (
            torch.autograd.grad((chunked * weigh).sum(), inputs, allow_unused=True)
            if chunked.requires_grad
            else []
        )
    finally:
        visibility.MASK_ELEMENTS = before
    dense = dense_residual(reader, native, slots, start, end)
    dense = torch.nan_to_num(dense)
    torch.testing.assert_close(chunked, dense, atol=1e-9, rtol=0)
    if not ((start < end) & (start < steps)).any():
        assert (chunked == 0).all()
        return
    # Steps that see nothing make NaN in the dense softmax; ask the dense form about the others only.
    alive = ((start <= torch.arange(steps)[:, None]) & (torch.arange(steps)[:, None] < end)).any(1)
    part = dense_residual(reader, native[:, alive], slots, *_renumber(start, end, alive))
    expected = torch.autograd.grad((part * weigh[:, alive]).sum(), inputs)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=0)


def _renumber(start: Tensor, end: Tensor, alive: Tensor) -> tuple[Tensor, Tensor]:
    """Intervals counted in steps that see something."""
    before = torch.cat([torch.zeros(1, dtype=torch.long), alive.long().cumsum(0)])
    return before[start.clamp(max=len(alive))], before[end.clamp(max=len(alive))]


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_sees_what_the_mask_shows() -> None:
    """Forward only: FlexAttention has no backward on a CPU. 300 versions and 200 steps do not fill their blocks."""
    reader, memory = trained_reader().float(), random_memory(tokens=60, versions=300, steps=200)
    native, slots = torch.randn(1, 200, 32), torch.randn(memory.versions, 16)
    with torch.no_grad():
        flex, sdpa = (
            reader(native, slots, memory.start, memory.end, limit=100, backend=backend)
            for backend in ("flex", "sdpa")
        )
    torch.testing.assert_close(flex, sdpa, atol=1e-5, rtol=0)
    assert (flex[0, : int(memory.start.min())] == 0).all()


def test_empty_memory_adds_exactly_zero_after_the_bias_has_trained() -> None:
    reader = trained_reader()
    native = torch.randn(1, 5, 32, dtype=torch.float64)
    none = torch.zeros(0, dtype=torch.long)
    assert torch.equal(reader(native, torch.zeros(0, 16).double(), none, none), torch.zeros_like(native))
    slots = torch.randn(2, 16, dtype=torch.float64)
    residual = reader(native, slots, torch.tensor([2, 3]), torch.tensor([4, 4]))
    assert (residual[0, [0, 1, 4]] == 0).all()
    assert (residual[0, [2, 3]] != 0).any(1).all()


def test_steps_are_counted_from_the_first_step() -> None:
    reader = trained_reader()
    native, slots = torch.randn(1, 12, 32, dtype=torch.float64), torch.randn(9, 16, dtype=torch.float64)
    start = torch.randint(0, 10, (9,))
    end = start + 3
    whole = reader(native, slots, start, end)
    plan = plan_chunks(start.numpy(), end.numpy(), steps=12, limit=3)
    for chunks in (None, plan):
        parts = [
            reader(native[:, a:b], slots, start, end, first_step=a, limit=2, chunks=chunks)
            for a, b in ((0, 5), (5, 6), (6, 12))
        ]
        torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-12, rtol=0)
    with pytest.raises(ValueError, match="leaves out steps from 8"):
        reader(native, slots, start, end, chunks=plan_chunks(start.numpy(), end.numpy(), steps=8))


def test_a_chunk_never_projects_versions_that_it_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unions stay within the plan's limit, and no step × version mask is larger than one chunk's."""
    reader, memory = trained_reader(), random_memory(tokens=30, versions=200, steps=50)
    sizes, masks = [], []
    project, mask = MemoryReader.keys_and_values, Intervals.mask

    def projecting(self: MemoryReader, slots: Tensor) -> tuple[Tensor, Tensor]:
        sizes.append(len(slots))
        return project(self, slots)

    def masking(self: Intervals, at: int, steps: int) -> Tensor:
        masks.append(steps * len(self.start))
        return mask(self, at, steps)

    monkeypatch.setattr(MemoryReader, "keys_and_values", projecting)
    monkeypatch.setattr(Intervals, "mask", masking)
    plan = plan_chunks(memory.start.numpy(), memory.end.numpy(), steps=50, limit=40)
    with torch.no_grad():
        slots = torch.randn(memory.versions, 16, dtype=torch.float64)
        reader(torch.randn(1, 50, 32).double(), slots, memory.start, memory.end, limit=40)
    assert sizes == [size for *_, size in plan.tolist() if size]
    assert max(masks) == max((stop - begin) * size for begin, stop, size in plan.tolist())


def test_the_writer_groups_tokens_without_changing_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = random_memory(tokens=13)
    torch.manual_seed(0)
    writer, grads, slots = MemoryWriter(3, 12, 32, 16), [], []
    for group in (4, 1000):
        monkeypatch.setattr(memory_module, "TOKEN_GROUP", group)
        out = writer(
            memory.states,
            memory.text_features,
            memory.kind,
            memory.row,
            memory.recency,
            memory.age,
            memory.whole,
        )
        grads.append(torch.autograd.grad(out.square().sum() + out[:, 0].sum(), list(writer.parameters())))
        slots.append(out)
    torch.testing.assert_close(slots[0], slots[1], atol=1e-6, rtol=0)
    torch.testing.assert_close(grads[0], grads[1], atol=1e-4, rtol=1e-4)


def test_memory_stays_float32_under_autocast_and_bfloat16_native() -> None:
    memory = random_memory()
    torch.manual_seed(0)
    writer, reader = MemoryWriter(3, 12, 32, 16), MemoryReader(32, 16, 4)
    torch.nn.init.normal_(reader.output.weight)
    native = torch.randn(1, 24, 32).bfloat16()

    def run() -> tuple[Tensor, Tensor]:
        slots = writer(
            memory.states,
            memory.text_features,
            memory.kind,
            memory.row,
            memory.recency,
            memory.age,
            memory.whole,
        )
        return slots, reader(native, slots, memory.start, memory.end)

    slots, residual = run()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast_slots, cast_residual = run()
    assert slots.dtype == torch.float32
    assert residual.dtype == torch.bfloat16
    assert torch.equal(slots, cast_slots)
    assert torch.equal(residual, cast_residual)


def test_a_new_reader_has_zero_output_and_heads_must_divide() -> None:
    reader = MemoryReader(32, 16, 4)
    assert (reader.output.weight == 0).all()
    assert (reader.output.bias == 0).all()
    with pytest.raises(ConfigError, match="5 reader heads"):
        MemoryReader(32, 16, 5)
