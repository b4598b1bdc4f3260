"""Small models and made memories for the trainer's tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from inkplex_data.trainer.memory.connector import CallMemory
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM

torch.set_num_threads(1)


@dataclass(frozen=True)
class GoldenLM:
    """A small PersonaPlex model with outputs of the released code."""

    lm: PersonaPlexLM
    forward: dict[str, Tensor]
    generate: dict[str, Tensor]
    forced_steps: int


def load_golden_lm(folder: Path) -> GoldenLM:
    values = json.loads((folder / "config.json").read_text())
    names = {item.name for item in fields(PersonaPlexConfig)}
    lm = PersonaPlexLM(PersonaPlexConfig(**{key: value for key, value in values.items() if key in names}))
    lm.load_state_dict(load_file(folder / "weights.safetensors"), strict=True)
    return GoldenLM(
        lm.freeze(),
        load_file(folder / "forward_train.safetensors"),
        load_file(folder / "generate_greedy.safetensors"),
        values["prefix_forced_steps"],
    )


@pytest.fixture(scope="session", params=["lm_a", "lm_b"])
def golden_lm(request: pytest.FixtureRequest, golden: Path) -> GoldenLM:
    return load_golden_lm(golden / request.param)


def small_config(**changes: int) -> PersonaPlexConfig:
    """Four temporal blocks, so that each has a reader, with the released 17 streams and delays."""
    sizes = {
        "dim": 32,
        "heads": 4,
        "layers": 4,
        "context": 64,
        "text_card": 40,
        "audio_card": 24,
        "depth_dim": 16,
        "depth_heads": 2,
        "depth_layers": 2,
        "ffn_hidden_temporal": 48,
        "ffn_hidden_depth": 24,
    }
    return PersonaPlexConfig(**{**sizes, **changes})


def random_codes(config: PersonaPlexConfig, steps: int, *, seed: int = 0, batch: int = 1) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    text = torch.randint(config.text_card, (batch, 1, steps), generator=draw)
    audio = torch.randint(config.audio_card, (batch, config.n_q, steps), generator=draw)
    return torch.cat([text, audio], dim=1)


def random_memory(
    *,
    tokens: int = 11,
    versions: int = 40,
    steps: int = 24,
    rows: int = 3,
    state_width: int = 12,
    text_width: int = 32,
    seed: int = 0,
    first_visible: int = 3,
) -> CallMemory:
    """States and versions with at most one visible version per token and step; none before `first_visible`."""
    draw = torch.Generator().manual_seed(seed)
    row = torch.sort(torch.randint(tokens, (versions,), generator=draw)).values
    start, end = torch.zeros(2, versions, dtype=torch.long)
    for token in range(tokens):
        mine = torch.nonzero(row == token).flatten()
        cuts = torch.randperm(max(steps - first_visible, 1) + 1, generator=draw)[: len(mine) + 1]
        cuts = torch.sort(cuts).values + first_visible
        mine = mine[: max(len(cuts) - 1, 0)]
        start[mine], end[mine] = cuts[:-1], cuts[1:]
    kept = end > start
    count = int(kept.sum())
    return CallMemory(
        states=torch.randn(tokens, rows, state_width, generator=draw).bfloat16(),
        text_features=torch.randn(tokens, text_width, generator=draw),
        kind=torch.randint(7, (tokens,), generator=draw),
        row=row[kept],
        start=start[kept],
        end=end[kept],
        recency=torch.randint(17, (count,), generator=draw),
        age=torch.randint(15, (count,), generator=draw),
        whole=torch.randint(2, (count,), generator=draw).bool(),
    )
