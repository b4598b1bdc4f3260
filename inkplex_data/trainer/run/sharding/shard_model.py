"""A model whose weights, gradients and optimiser state are divided among the ranks (FSDP2), block by block.

A block's weights are gathered in the type that the model computes in, just before it runs, and given up behind it;
gradients are summed in float32. What lies outside the blocks is one more part. Writer and readers stay whole on every
rank. Sums, not means: losses are divided by global totals already.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.nn import Parameter

from inkplex_data.trainer.memory.connector import ConnectedLM
from inkplex_data.trainer.model.personaplex import PersonaPlexLM
from inkplex_data.trainer.run.processes.ranks import Ranks
from inkplex_data.trainer.run.trained_parts import widen


def blocks(lm: PersonaPlexLM) -> Iterator[nn.Module]:
    """The modules that are gathered, run again and compiled one at a time: every temporal and depth block."""
    return chain(lm.transformer.layers, lm.depformer.layers)


def shard_model(model: ConnectedLM, ranks: Ranks, dtype: torch.dtype) -> None:
    """Divide the speech model among the ranks, on their devices; every rank calls it with the same weights.

    model: as `make_model` leaves it without `wide`, on the CPU. dtype: the type that it computes in. At most one block is
    ever whole and wide.
    """
    # Nothing here changes the model's outputs in place, which is what torch warns of.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(ranks.device.type, (ranks.world_size,))
    policy = MixedPrecisionPolicy(
        param_dtype=dtype,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,  # angles stay float32
    )
    for module in (*blocks(model.lm), model.lm):
        widen(module)
        # Also what lies outside the blocks is given up behind a forward: between two there are parts alone.
        fully_shard(
            module,
            mesh=mesh,
            mp_policy=policy,
            reshard_after_forward=True,
            shard_placement_fn=lambda weight: _cut_along(weight, ranks.world_size),
        )
        part = cast(FSDPModule, module)
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
    # So that backward goes through every block whether or not this rank's call has memory: gathering takes all ranks.
    model.lm.transformer.register_forward_pre_hook(_ask_for_gradients)
    if model.memory is not None:
        model.memory.to(ranks.device)
    model.sharded = True


def _cut_along(weight: Parameter, world_size: int) -> Shard | None:
    """Along which axis a weight is divided; None for the usual first one. Adapters and norms have a first axis of 1, which
    would leave all of them on rank 0; other axes must divide evenly."""
    if weight.shape[0] >= world_size:
        return None
    return next(
        (Shard(axis) for axis, size in enumerate(weight.shape) if size and size % world_size == 0), None
    )


def compile_blocks(lm: PersonaPlexLM) -> None:
    """Let torch compile what each block computes, when it first runs; names and hooks stay as they are."""
    for block in blocks(lm):
        block.forward = torch.compile(block.forward)


@torch.no_grad()
def clip_gradients(parameters: Sequence[Parameter], limit: float) -> float:
    """Scale all gradients so that their norm is at most `limit`; returns the norm over every rank's parts."""
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    here = _square([grad.to_local() for grad in grads if isinstance(grad, DTensor)])
    dist.all_reduce(here)
    norm = (here + _square([grad for grad in grads if not isinstance(grad, DTensor)]).to(here)).sqrt()
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        (grad.to_local() if isinstance(grad, DTensor) else grad).mul_(factor.to(torch.float32))
    return float(norm)


def _square(parts: Iterable[Tensor]) -> Tensor:
    """Sum of squares, float64."""
    squares = [part.double().square().sum() for part in parts]
    return torch.stack(squares).sum() if squares else torch.zeros((), dtype=torch.float64)


def _ask_for_gradients(module: nn.Module, arguments: tuple[Any, ...]) -> None:
    if torch.is_grad_enabled():
        arguments[0].requires_grad_()
