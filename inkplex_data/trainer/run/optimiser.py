"""Optimiser and learning rate of Stage 1: AdamW with weight decay 0.01, OneCycle with 5% warm-up to 2e-5,
gradients clipped to norm 1 (seeds/000, "Current sequence memory", section 10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from inkplex_data.errors import ConfigError


@dataclass(frozen=True)
class OptimizerOptions:
    """max_learning_rate: peak of the cycle. warmup: share of updates before the peak. clip_norm: largest global
    gradient norm. beta1 stays where it is: OneCycle's momentum cycle is for momentum optimisers."""

    max_learning_rate: float = 2e-5
    weight_decay: float = 0.01
    warmup: float = 0.05
    clip_norm: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        faults = []
        if not 0 < self.max_learning_rate < 1:
            faults.append(f"max_learning_rate must be between 0 and 1, got {self.max_learning_rate}")
        if self.weight_decay < 0:
            faults.append(f"weight_decay must be 0 or more, got {self.weight_decay}")
        if not 0 <= self.warmup <= 1:
            faults.append(f"warmup is a share of the updates, 0 … 1, got {self.warmup}")
        if not self.clip_norm > 0:
            faults.append(f"clip_norm must be above 0, got {self.clip_norm}")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            faults.append(f"beta1 and beta2 must be 0 … 1, got {self.beta1} and {self.beta2}")
        if faults:
            raise ConfigError("wrong optimiser options", faults=faults)


def updates_in_run(calls: int, *, passes: int, calls_per_update: int) -> int:
    """Optimiser updates of `passes` passes over `calls` calls; the last update of a pass may hold fewer calls,
    so that no update mixes two passes.

    Raises ConfigError for a run without calls, passes or calls per update.
    """
    if min(calls, passes, calls_per_update) < 1:
        raise ConfigError(
            f"a run needs calls, passes and calls per update, got {calls}, {passes} and {calls_per_update}"
        )
    return passes * -(-calls // calls_per_update)


def make_optimizer(
    parameters: Iterable[Parameter], options: OptimizerOptions, *, updates: int
) -> tuple[AdamW, OneCycleLR]:
    """The optimiser of the parameters that train, and its schedule over `updates` updates.

    Call `schedule.step()` once after each `optimizer.step()`. Raises ConfigError where nothing trains.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained or updates < 1:
        raise ConfigError(f"nothing to train: {len(trained)} parameters, {updates} updates")
    optimizer = AdamW(
        trained,
        lr=options.max_learning_rate,
        betas=(options.beta1, options.beta2),
        eps=options.epsilon,
        weight_decay=options.weight_decay,
    )
    # One step more than there are updates: after the last update the schedule still moves once.
    schedule = OneCycleLR(
        optimizer,
        max_lr=options.max_learning_rate,
        total_steps=updates + 1,
        pct_start=options.warmup,
        cycle_momentum=False,
    )
    return optimizer, schedule


def clip_gradients(parameters: Iterable[Parameter], options: OptimizerOptions) -> Tensor:
    """Scale gradients so that their global norm is at most `clip_norm`; returns the norm before, a scalar."""
    return torch.nn.utils.clip_grad_norm_(parameters, options.clip_norm)
