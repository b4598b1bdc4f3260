"""From what a user writes after `--device` to the place where a build's models run, and its class."""

from __future__ import annotations

import re
from typing import Literal

from inkplex_data.errors import ConfigError, UsageError

DeviceClass = Literal["cpu", "cuda"]


def device_class(device: str) -> DeviceClass:
    """The class of `cpu`, `cuda` or `cuda:N`, which decides near ties of codes. Raises UsageError for anything else."""
    if device == "cpu":
        return "cpu"
    if re.fullmatch(r"cuda(:[0-9]{1,3})?", device, re.ASCII):
        return "cuda"
    raise UsageError(
        f"{device!r} is no device",
        where="--device",
        next_step="Give auto, cpu, cuda or cuda:N.",
    )


def choose_device(asked: str, *, stored: DeviceClass | None = None, is_remote: bool = False) -> str:
    """`cpu`, `cuda` or `cuda:N` for what was asked. `auto` is the class of the store that is there, `stored`, else a GPU
    where this machine has one. With `is_remote`, the models run elsewhere, and only their workers know what is there.

    Raises UsageError for what is no device, ConfigError for a GPU that this machine lacks.
    """
    device = (stored or ("cuda" if _gpus() else "cpu")) if asked == "auto" else asked
    if device_class(device) == "cpu" or is_remote:
        return device
    count = _gpus()
    if count <= int(device.partition(":")[2] or 0):
        raise ConfigError(
            f"{device} is not there: torch sees {count or 'no'} GPU{'s' * (count != 1)}",
            where="--device",
            next_step="Use --device cpu, or install a torch build for this accelerator.",
        )
    return device


def _gpus() -> int:
    """CUDA devices that torch can use; 0 without torch."""
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.device_count() if torch.cuda.is_available() else 0
