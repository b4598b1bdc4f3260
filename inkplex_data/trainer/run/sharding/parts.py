"""Tensors that a rank holds a part of, told from whole ones."""

from __future__ import annotations

import sys

from torch import Tensor


def is_whole(value: Tensor) -> bool:
    """Whether a tensor lies on this rank whole, rather than divided among the ranks (a DTensor)."""
    # Loading that module takes seconds, and without it nothing is divided.
    module = sys.modules.get("torch.distributed.tensor")
    return module is None or not isinstance(value, module.DTensor)


def divided_like(value: Tensor, like: Tensor) -> Tensor:
    """A whole tensor as `like` is held here: this rank's part of it, or itself; one that is divided already as it is."""
    if not is_whole(value):
        return value
    if is_whole(like):
        return value.to(like.device)
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    here = value.to(like.to_local().device)
    return distribute_tensor(here, like.device_mesh, like.placements, src_data_rank=None)
