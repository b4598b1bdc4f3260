"""Optimiser and learning rate of Stage 1: AdamW with weight decay 0.01, OneCycle with 5% warm-up to 2e-5,
gradients clipped to norm 1 (seeds/000, "Current sequence memory", section 10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field
from torch.nn import Parameter
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from inkplex_data.config.section import Section
from inkplex_data.errors import ConfigError

Group = Literal["memory", "temporal", "depth", "embeddings", "heads"]
"""Parts of a model that may learn at their own pace; adapters count with the part that they are attached to."""


class GroupConfig(Section):
    """What differs for one part of the model; null is what the others have."""

    max_learning_rate: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="peak of the cycle"
    )
    weight_decay: Annotated[float, Field(ge=0)] | None = Field(default=None, description="of AdamW")


class OptimizerConfig(Section):
    """AdamW and OneCycle (seeds/000, section 10)."""

    max_learning_rate: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=2e-5, description="peak of the cycle"
    )
    weight_decay: Annotated[float, Field(ge=0)] = Field(default=0.01, description="of AdamW")
    warmup: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.05, description="share of the updates before the peak"
    )
    clip_norm: Annotated[float, Field(gt=0)] = Field(default=1.0, description="largest gradient norm")
    groups: dict[Group, GroupConfig] = Field(
        default_factory=dict,
        description="learning rate and weight decay of memory, temporal, depth, embeddings or heads, where they differ",
    )

    def of(self, group: Group) -> GroupConfig:
        """Both values of a part of the model."""
        own = self.groups.get(group, GroupConfig())
        return GroupConfig(
            max_learning_rate=own.max_learning_rate or self.max_learning_rate,
            weight_decay=self.weight_decay if own.weight_decay is None else own.weight_decay,
        )


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
    parts: Mapping[Group, Iterable[Parameter]], options: OptimizerConfig, *, updates: int
) -> tuple[AdamW, OneCycleLR]:
    """The optimiser of the parameters that train, by part of the model, and its schedule over `updates` updates.

    Call `schedule.step()` once after each `optimizer.step()`. Raises ConfigError where nothing trains.
    """
    groups: list[dict[str, Any]] = []
    for name, parameters in parts.items():
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        if trained:
            own = options.of(name)
            rates = {"lr": own.max_learning_rate, "weight_decay": own.weight_decay}
            groups.append({"params": trained, "name": name, **rates})
    if unused := sorted(set(options.groups) - {group["name"] for group in groups}):
        raise ConfigError(
            f"optimizer.groups names {', '.join(unused)}, of which nothing trains",
            next_step="Leave it out, or let `trains` and `lora` name it.",
        )
    if not groups or updates < 1:
        raise ConfigError(f"nothing to train: {len(groups)} parts of the model, {updates} updates")
    optimizer = AdamW(groups, lr=options.max_learning_rate, weight_decay=options.weight_decay)
    # Beta 1 stays where it is: OneCycle's momentum cycle is for momentum optimisers. One step more than there are updates: after the last update the schedule still moves once.
    schedule = OneCycleLR(
        optimizer,
        max_lr=[group["lr"] for group in groups],
        total_steps=updates + 1,
        pct_start=options.warmup,
        cycle_momentum=False,
    )
    return optimizer, schedule
