"""The learning-rate cycle and the update count of a run."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from inkplex_data.errors import ConfigError
from inkplex_data.trainer.run.optimiser import OptimizerConfig, make_optimizer, updates_in_run


def rates(updates: int, options: OptimizerConfig) -> list[float]:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer, schedule = make_optimizer({"memory": [parameter]}, options, updates=updates)
    seen = []
    for _ in range(updates):
        parameter.grad = torch.ones(1)
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
        assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)
    return seen


def test_five_percent_of_warm_up_to_the_peak_and_down() -> None:
    seen = rates(200, OptimizerConfig())
    peak = seen.index(max(seen))
    assert max(seen) == pytest.approx(2e-5, rel=1e-3)
    assert 8 <= peak <= 11
    assert seen[: peak + 1] == sorted(seen[: peak + 1])
    assert seen[peak:] == sorted(seen[peak:], reverse=True)
    assert seen[0] == pytest.approx(2e-5 / 25)
    assert seen[-1] < 2e-8


@pytest.mark.parametrize("updates", [1, 2, 3, 7])
def test_short_runs_have_a_schedule_too(updates: int) -> None:
    assert all(0 < rate <= 2e-5 for rate in rates(updates, OptimizerConfig()))


def test_defaults_are_those_of_stage_one() -> None:
    optimizer, _ = make_optimizer(
        {"memory": [torch.nn.Parameter(torch.zeros(2))]}, OptimizerConfig(), updates=10
    )
    assert optimizer.defaults["weight_decay"] == 0.01
    assert OptimizerConfig().clip_norm == 1.0


def test_updates_of_a_run() -> None:
    assert updates_in_run(100, passes=4, calls_per_update=32) == 16
    assert updates_in_run(8, passes=4, calls_per_update=32) == 4
    with pytest.raises(ConfigError, match="got 0, 4 and 32"):
        updates_in_run(0, passes=4, calls_per_update=32)


def test_options_name_all_their_faults() -> None:
    with pytest.raises(ValidationError) as caught:
        OptimizerConfig(max_learning_rate=0, weight_decay=-1, warmup=2, clip_norm=0)
    assert caught.value.error_count() == 4
    with pytest.raises(ConfigError, match="nothing to train"):
        make_optimizer(
            {"memory": [torch.nn.Parameter(torch.zeros(1), requires_grad=False)]},
            OptimizerConfig(),
            updates=5,
        )
