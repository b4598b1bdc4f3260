"""What a run needs of a GPU's memory, from arithmetic on its recipe and the model's sizes: nothing is loaded.

Parameters are counted exactly. Activations are an upper bound from what each operation keeps for backward, with an
attention that keeps no matrix of steps; libraries and fragmentation come on top, for which a share is left free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inkplex_data.clock import FRAME_RATE_HZ
from inkplex_data.grid import KINDS, PLAN_LIMIT, STATE_ROWS, WINDOW
from inkplex_data.memory.versions import AGE_BUCKETS, RECENCY_BUCKETS
from inkplex_data.trainer.memory.connector import READERS
from inkplex_data.trainer.model.lora import LoraOptions, Stage, Target
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig
from inkplex_data.trainer.run.optimiser import Group
from inkplex_data.trainer.run.train_config import TrainRecipe

GIB = 2**30
FREE_SHARE = 0.08
"""Of a GPU's memory that is left to its libraries, to buffers of one operation and to fragmentation."""
_WIDE_BYTES = 4
_MOMENTS = 2
"""Of AdamW, each as large as the parameter."""


@dataclass(frozen=True)
class Maps:
    """`count` linear maps [rows, columns] of one kind; a packed weight counts each map that it holds."""

    stage: Stage
    target: Target
    count: int
    rows: int
    columns: int

    def lora(self, options: LoraOptions) -> int:
        """Parameters of their adapters."""
        rank = options.temporal_rank if self.stage == "temporal" else options.depth_rank
        return self.count * rank * (self.rows + self.columns) if self.target in options.targets else 0


def linear_maps(config: PersonaPlexConfig) -> list[Maps]:
    """Every linear map of a model, by arithmetic."""
    W, D, P = config.dim, config.depth_dim, config.dep_q
    F, G = config.ffn_hidden_temporal, config.ffn_hidden_depth
    temporal, depth = config.layers, config.depth_layers * P
    return [
        Maps("temporal", "heads", 1, config.text_card, W),
        Maps("temporal", "attention", temporal, 3 * W, W),
        Maps("temporal", "attention", temporal, W, W),
        Maps("temporal", "feed_forward", temporal, 2 * F, W),
        Maps("temporal", "feed_forward", temporal, W, F),
        Maps("depth", "depth_input", P, D, W),
        Maps("depth", "attention", depth, 3 * D, D),
        Maps("depth", "attention", depth, D, D),
        Maps("depth", "feed_forward", depth, 2 * G, D),
        Maps("depth", "feed_forward", depth, D, G),
        Maps("depth", "heads", P, config.audio_card, D),
    ]


def parameters(config: PersonaPlexConfig) -> dict[Group, int]:
    """Parameters of a speech model by part."""
    counts: dict[Group, int] = {"temporal": 0, "depth": 0, "embeddings": 0, "heads": 0}
    for maps in linear_maps(config):
        counts["heads" if maps.target == "heads" else maps.stage] += maps.count * maps.rows * maps.columns
    counts["temporal"] += (2 * config.layers + 1) * config.dim
    counts["depth"] += 2 * config.depth_layers * config.depth_dim
    audio, text = config.audio_card + 1, config.text_card + 1
    counts["embeddings"] = (config.n_q * audio + text) * config.dim
    counts["embeddings"] += ((config.dep_q - 1) * audio + text) * config.depth_dim
    return counts


def lora_parameters(config: PersonaPlexConfig, options: LoraOptions) -> int:
    """Parameters of the adapters of a model."""
    return sum(maps.lora(options) for maps in linear_maps(config))


def memory_parameters(config: PersonaPlexConfig, *, state_width: int, slot_width: int) -> int:
    """Parameters of writer and readers."""
    W, M = config.dim, slot_width
    writer = (len(STATE_ROWS) * state_width + 1) * M + (W + 1) * M + 2 * M
    writer += (len(KINDS) + RECENCY_BUCKETS + AGE_BUCKETS) * M
    reader = 2 * W + 2 * (W + 1) * W + 2 * (M + 1) * W
    return writer + READERS * reader


@dataclass(frozen=True)
class Divided:
    """Parameters that a GPU has whole for a moment where a model is divided: of the largest block, and of what lies
    outside the blocks; and how many of each train."""

    block: int
    outside: int
    block_trained: int
    outside_trained: int

    def fixed(self, narrow: int) -> dict[str, int]:
        """Bytes by use. Two blocks are there at a time, because the next is gathered while one computes; gradients lie
        there in the type of the gathered weights, and in float32 to be added up."""
        return {
            "gathered weights": (2 * self.block + self.outside) * narrow,
            "gathered gradients": (self.block_trained + self.outside_trained) * (narrow + _WIDE_BYTES),
        }


def divided(config: PersonaPlexConfig, recipe: TrainRecipe) -> Divided:
    """What of a model is gathered together (`sharding.shard_model`)."""
    full, parts = recipe.trains == "full", parameters(config)
    options = recipe.lora.options() if recipe.trains_lora else LoraOptions(0, 0)
    norms = {"temporal": 2 * config.dim, "depth": 2 * config.depth_dim}
    blocks = {"temporal": config.layers, "depth": config.depth_layers}
    weights, adapters = dict(norms), dict.fromkeys(norms, 0)
    outside, outside_adapters = parts["embeddings"] + config.dim, 0
    for maps in linear_maps(config):
        count, lora = maps.count * maps.rows * maps.columns, maps.lora(options)
        if maps.target in ("heads", "depth_input"):
            outside, outside_adapters = outside + count, outside_adapters + lora
        else:
            weights[maps.stage] += count // blocks[maps.stage]
            adapters[maps.stage] += lora // blocks[maps.stage]
    whole = parts["embeddings"] * recipe.lora.embeddings + parts["heads"] * recipe.lora.heads
    return Divided(
        block=max(weights[stage] + adapters[stage] for stage in norms),
        outside=outside + outside_adapters,
        block_trained=max((weights[stage] if full else 0) + adapters[stage] for stage in norms),
        outside_trained=outside if full else outside_adapters + whole * recipe.trains_lora,
    )


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes on one GPU of `gpus`, by use. frame_bytes: what each frame of a forward adds. forward_frames: the longest forward of
    the recipe, its windows together. context_frames: what the model attends to. gpu_bytes: what the GPU has."""

    total: int
    trained: int
    fixed: Mapping[str, int]
    frame_bytes: int
    forward_frames: int
    context_frames: int
    gpu_bytes: int
    gpus: int = 1

    @property
    def needed_bytes(self) -> int:
        return sum(self.fixed.values()) + self.forward_frames * self.frame_bytes

    @property
    def usable_bytes(self) -> int:
        return int(self.gpu_bytes * (1 - FREE_SHARE))

    @property
    def largest_frames(self) -> int:
        """Frames of the longest forward that fits, prefixes included; 0 where nothing does."""
        return max((self.usable_bytes - sum(self.fixed.values())) // self.frame_bytes, 0)

    def text(self) -> str:
        """The plan for a terminal."""
        rows = {
            **self.fixed,
            f"activations of {self.forward_frames:,} frames": self.forward_frames * self.frame_bytes,
        }
        width = max(map(len, rows))
        lines = [f"{self.total:,} parameters, {self.trained:,} of them train"]
        if self.gpus > 1:
            lines[0] += f"; weights, gradients and optimiser are divided among {self.gpus} GPUs"
        lines += [f"  {name:<{width}}  {size / GIB:8.2f} GiB" for name, size in rows.items()]
        lines.append(
            f"  {'in all':<{width}}  {self.needed_bytes / GIB:8.2f} GiB of {self.gpu_bytes / GIB:.1f} GiB a GPU, of "
            f"which {FREE_SHARE:.0%} are left free"
        )
        largest = self.largest_frames
        if not largest:
            lines.append("this does not fit, however short a window is")
        else:
            fits = "fits" if largest >= self.forward_frames else "does not fit"
            window = min(largest, self.context_frames)
            lines.append(
                f"this {fits}; the largest window is {window:,} frames ({window / FRAME_RATE_HZ:,.0f} s), prefix included"
                f"{', all that the model attends to' * (window < largest)}"
            )
            if largest >= 2 * window:
                lines.append(
                    f"so long, {largest // window:,} windows fit in one forward (data.forward_frames)"
                )
        return "\n".join(lines)


def plan_memory(
    recipe: TrainRecipe,
    config: PersonaPlexConfig,
    *,
    state_width: int | None,
    gpu_bytes: int,
    gpus: int = 1,
) -> MemoryPlan:
    """What a run of `recipe` needs on each GPU. state_width: of the store's states, None without memory. gpus: that the
    speech model is divided among; writer and readers are whole on each."""
    parts = parameters(config)
    total, trained = sum(parts.values()), 0
    narrow = 2 if recipe.model.dtype == "bfloat16" else _WIDE_BYTES
    whole = 0
    if recipe.trains == "full":
        whole = total
    elif recipe.trains_lora:
        whole += parts["embeddings"] * recipe.lora.embeddings + parts["heads"] * recipe.lora.heads
        trained += lora_parameters(config, recipe.lora.options())
    frozen = total - whole
    trained += whole
    fixed = {"frozen weights": -(-frozen // gpus) * narrow}
    held = -(-trained // gpus)
    if recipe.reads_memory:
        assert state_width is not None
        slots = recipe.memory.slot_width
        readers = memory_parameters(config, state_width=state_width, slot_width=slots)
        trained, total, held = trained + readers, total + readers, held + readers
        states = WINDOW * len(STATE_ROWS) * state_width * 2
        # Written tokens twice (with and without their words), and one chunk of slots with its keys and values.
        written = 2 * WINDOW * slots * _WIDE_BYTES
        chunk = PLAN_LIMIT * (slots + 2 * config.dim) * _WIDE_BYTES * 2
        fixed["memory of a call"] = states + written + chunk
    if recipe.trains_lora:
        total += lora_parameters(config, recipe.lora.options())
    fixed |= {
        "trained weights": held * _WIDE_BYTES,
        "gradients": held * _WIDE_BYTES,
        "optimiser": held * _MOMENTS * _WIDE_BYTES,
    }
    if gpus > 1:
        fixed |= divided(config, recipe).fixed(narrow)
    elif whole and narrow != _WIDE_BYTES:
        # Narrowed copies live from forward to backward: of every weight, or of one block where blocks are run again.
        share = 1 / config.layers if recipe.model.recompute else 1.0
        fixed["narrowed copies"] = int(whole * narrow * share)
    window = min(recipe.data.longest_frames or config.context, config.context)
    if recipe.data.forward_frames is not None:
        window = max(window, recipe.data.forward_frames)
    return MemoryPlan(
        total=total,
        trained=trained,
        fixed=fixed,
        frame_bytes=frame_bytes(recipe, config),
        forward_frames=window,
        context_frames=config.context,
        gpu_bytes=gpu_bytes,
        gpus=gpus,
    )


def frame_bytes(recipe: TrainRecipe, config: PersonaPlexConfig) -> int:
    """What one frame of a forward keeps for backward, bytes."""
    size = 2 if recipe.model.dtype == "bfloat16" else _WIDE_BYTES
    temporal = _block_bytes(config.dim, config.ffn_hidden_temporal, size)
    depth = config.dep_q * _block_bytes(config.depth_dim, config.ffn_hidden_depth, size)
    if recipe.trains_lora:
        targets = 4 * size
        temporal += targets * recipe.lora.temporal_rank
        depth += config.dep_q * targets * recipe.lora.depth_rank
    # A frozen model keeps nothing below the first reader.
    layers = config.layers if recipe.trains_speech else config.layers - config.layers // READERS
    if recipe.model.recompute:
        blocks = config.layers * config.dim * size + temporal
        blocks += config.dep_q * config.depth_layers * config.depth_dim * size + depth
    else:
        blocks = layers * temporal + config.depth_layers * depth
    if recipe.reads_memory:
        # Native states, normed states, queries, attended slots and residual of each reader, in float32.
        blocks += READERS * 5 * config.dim * _WIDE_BYTES
    # Logits as computed, put together and aligned, then in float32 for the loss, with their gradient.
    logits = (config.text_card + config.dep_q * config.audio_card) * (3 * size + 2 * _WIDE_BYTES)
    return blocks + logits + config.dep_q * config.depth_dim * 2 * size + 2 * config.dim * size


def _block_bytes(width: int, hidden: int, size: int) -> int:
    """Of one position of one block: two widened norm inputs, normed inputs, query, key and value turned, attended and
    joined heads, two residual sums, and gate, value, activated gate and product of the feed-forward."""
    return 2 * width * _WIDE_BYTES + size * (2 * width + 5 * width + 2 * width + 2 * width + 4 * hidden)
