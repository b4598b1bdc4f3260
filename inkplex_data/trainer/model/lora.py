"""Low-rank adapters on the projections of a speech model: where they go, and how they become part of its weights.

The public Moshi fine-tuning recipe puts one on every linear map, with rank 128 and scaling 2 (arXiv:2106.09685).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from inkplex_data.trainer.model.depth import DepthBlock
from inkplex_data.trainer.model.layers import Gating, Linear, LowRank
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.model.temporal import TemporalBlock

Stage = Literal["temporal", "depth"]
Target = Literal["attention", "feed_forward", "depth_input", "heads"]
TARGETS: tuple[Target, ...] = ("attention", "feed_forward", "depth_input", "heads")


@dataclass(frozen=True)
class LoraOptions:
    """Rank by stage, 0 for none; which kinds of projections; one scaling for all of them."""

    temporal_rank: int = 128
    depth_rank: int = 128
    scaling: float = 2.0
    targets: tuple[Target, ...] = TARGETS

    def rank(self, projection: Projection) -> int:
        """Rank of the adapter of a projection, 0 where it has none."""
        if projection.target not in self.targets:
            return 0
        return self.temporal_rank if projection.stage == "temporal" else self.depth_rank


@dataclass(frozen=True)
class Projection:
    """A linear map of the model.

    name: that of its weight in the released files. owner, slot: the module and attribute of its adapter. parts: how
    many maps are packed in the weight [parts · out, in].
    """

    name: str
    stage: Stage
    target: Target
    owner: nn.Module
    slot: str
    weight: Tensor
    parts: int = 1

    @property
    def lora(self) -> LowRank | None:
        return cast("LowRank | None", getattr(self.owner, self.slot))


def projections(lm: PersonaPlexLM) -> Iterator[Projection]:
    """Every linear map of a model, in the order of its parameters."""
    yield _of(lm.text_linear, "text_linear", "temporal", "heads")
    for index, block in enumerate(lm.transformer.layers):
        yield from _of_block(cast(TemporalBlock, block), f"transformer.layers.{index}", "temporal", 1)
    for q, linear in enumerate(lm.depformer_in):
        yield _of(linear, f"depformer_in.{q}", "depth", "depth_input")
    for index, block in enumerate(lm.depformer.layers):
        yield from _of_block(
            cast(DepthBlock, block), f"depformer.layers.{index}", "depth", lm.depformer.positions
        )
    for q, linear in enumerate(lm.linears):
        yield _of(linear, f"linears.{q}", "depth", "heads")


def attach_lora(lm: PersonaPlexLM, options: LoraOptions, *, seed: int) -> list[Projection]:
    """Give the projections that `options` name an adapter that adds zero; returns them. Depends on `seed` alone."""
    found = [projection for projection in projections(lm) if options.rank(projection)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for projection in found:
            lora = LowRank(
                projection.weight,
                rank=options.rank(projection),
                scaling=options.scaling,
                parts=projection.parts,
            )
            setattr(projection.owner, projection.slot, lora)
    return found


@torch.no_grad()
def merge_lora(lm: PersonaPlexLM) -> PersonaPlexLM:
    """Add every adapter to its weight, in float32 rounded once to the weight's type, and take it off."""
    for projection in projections(lm):
        lora = projection.lora
        if lora is not None:
            merged = projection.weight.float() + lora.delta().to(projection.weight.device)
            projection.weight.copy_(merged)
            setattr(projection.owner, projection.slot, None)
    return lm


def _of(linear: nn.Module, name: str, stage: Stage, target: Target, parts: int = 1) -> Projection:
    return Projection(f"{name}.weight", stage, target, linear, "lora", cast(Linear, linear).weight, parts)


def _of_block(block: TemporalBlock | DepthBlock, name: str, stage: Stage, parts: int) -> Iterator[Projection]:
    attention = block.self_attn
    yield Projection(
        f"{name}.self_attn.in_proj_weight",
        stage,
        "attention",
        attention,
        "in_proj_lora",
        attention.in_proj_weight,
        parts,
    )
    yield _of(attention.out_proj, f"{name}.self_attn.out_proj", stage, "attention", parts)
    gates = (
        {"": block.gating}
        if isinstance(block, TemporalBlock)
        else {f".{q}": gate for q, gate in enumerate(block.gating)}
    )
    for suffix, gate in gates.items():
        for linear in ("linear_in", "linear_out"):
            yield _of(
                getattr(cast(Gating, gate), linear), f"{name}.gating{suffix}.{linear}", stage, "feed_forward"
            )
