"""A training recipe so small that a test can run it."""

from __future__ import annotations

from typing import Any

from inkplex_data.trainer.run.train_config import TrainRecipe


def small_recipe(**changes: Any) -> TrainRecipe:
    """Dotted keys as words joined by two underscores: `data__passes=2`."""
    body: dict[str, Any] = {
        "model": {
            "weights": "seeded:1",
            "dtype": "float32",
            "sizes": {
                "dim": 16,
                "heads": 2,
                "layers": 4,
                "context": 64,
                "depth_dim": 8,
                "depth_heads": 2,
                "depth_layers": 1,
                "ffn_hidden_temporal": 16,
                "ffn_hidden_depth": 8,
            },
        },
        "memory": {"slot_width": 16},
        "optimizer": {"max_learning_rate": 1e-2},
        "data": {"passes": 2, "calls_per_update": 3},
        "checks": None,
        "checkpoints": {"every_updates": 2, "keep": 2},
        "seed": 5,
    }
    for key, value in changes.items():
        *parents, last = key.split("__")
        place = body
        for parent in parents:
            place[parent] = place = dict(place.get(parent) or {})
        place[last] = value
    return TrainRecipe.model_validate(body)
