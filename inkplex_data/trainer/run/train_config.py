"""Training recipes: the pydantic models of `pipelines/train_*.yaml`.

A recipe holds what decides a run's losses, and nothing that does not: devices, workers and prefetching are
arguments of the run. A run keeps its recipe, and resumes with the same one only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from inkplex_data.clock import FRAME_RATE_HZ
from inkplex_data.config.recipe import Section, find_recipe, read_recipe
from inkplex_data.errors import ConfigError
from inkplex_data.grid import CODEBOOKS
from inkplex_data.loader.prefix_choice import OWN
from inkplex_data.resources import resource_folder
from inkplex_data.trainer.evaluate.bootstrap import RESAMPLES
from inkplex_data.trainer.model.load_weights import RELEASED
from inkplex_data.trainer.model.lora import TARGETS, LoraOptions, Target
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig
from inkplex_data.trainer.run.objective import PRESETS, ObjectiveWeights, objective_weights
from inkplex_data.trainer.run.optimiser import OptimizerConfig
from inkplex_data.trainer.run.panel import TASKS
from inkplex_data.trainer.run.selection import VOICE_MARGIN_NATS

Rank = Annotated[int, Field(ge=0, le=4096)]
Positive = Annotated[int, Field(ge=1)]
Weight = Annotated[float, Field(ge=0, lt=float("inf"))]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
"""What both torch and numpy take."""
SEEDED = "seeded:"
PREDICTED: Mapping[str, int] = {"personaplex": 2 * CODEBOOKS, "moshi": CODEBOOKS}
"""Codebooks that a model of each family predicts."""
Trains = Literal["memory", "lora", "full", "memory_and_lora"]


class SizesConfig(Section):
    """Sizes of a speech model that is not the released one. The streams and their delays are the released ones."""

    dim: Positive = Field(default=64, description="width of the temporal model; 4,096 released")
    heads: Positive = Field(default=4, description="its attention heads; 32 released")
    layers: Positive = Field(default=4, description="its blocks, a multiple of four; 32 released")
    context: Positive = Field(
        default=3000, description="frames it attends to, prefix included; 3,000 released"
    )
    depth_dim: Positive = Field(default=32, description="width of the depth model; 1,024 released")
    depth_heads: Positive = Field(default=2, description="its attention heads; 16 released")
    depth_layers: Positive = Field(default=2, description="its blocks; 6 released")
    ffn_hidden_temporal: Positive = Field(
        default=128, description="gated width of a temporal block; 11,264 released"
    )
    ffn_hidden_depth: Positive = Field(default=64, description="gated width of a depth block; 2,816 released")
    text_card: Positive | None = Field(
        default=None,
        description="text classes; null takes as many as the store's tokenizer has; 32,000 released",
    )


class ModelConfig(Section):
    """The speech model, of which `trains` says what trains."""

    weights: str = Field(
        default=RELEASED["personaplex"],
        description="hub id, folder or file of released safetensors, or seeded:SEED, a small untrained model; none is "
        "the released model of the family. A folder of the hub id's name beside comes before the hub",
    )
    family: Literal["personaplex", "moshi"] = Field(
        default="personaplex",
        description="personaplex predicts both voices (16 codebooks; files with 8 are expanded), moshi the agent's (8)",
    )
    sizes: SizesConfig | None = Field(
        default=None, description="sizes of the model; null means the released ones, small ones with a seed"
    )
    dtype: Literal["bfloat16", "float32"] = Field(
        default="bfloat16",
        description="arithmetic of the speech model; what trains is kept in float32, writer and readers compute in it",
    )
    recompute: bool = Field(
        default=False,
        description="run the model's blocks again in backward instead of keeping their activations",
    )

    @property
    def seed(self) -> int | None:
        """Seed of a seeded model, None for released weights."""
        return int(self.weights.removeprefix(SEEDED)) if self.weights.startswith(SEEDED) else None

    @model_validator(mode="before")
    @classmethod
    def _released_unless_named(cls, given: Any) -> Any:
        if isinstance(given, dict) and not given.get("weights"):
            family = given.get("family", "personaplex")
            return {**given, "weights": RELEASED.get(family, "")} if isinstance(family, str) else given
        return given

    @field_validator("weights")
    @classmethod
    def _seed_is_a_number(cls, weights: str) -> str:
        seed = weights.removeprefix(SEEDED) if weights.startswith(SEEDED) else "0"
        if not (seed.isascii() and seed.isdecimal() and len(seed) < 20 and int(seed) < 2**63):
            raise ValueError(f"a seeded model is {SEEDED}NUMBER, a number below 2⁶³")
        return weights

    @model_validator(mode="after")
    def _sizes_fit(self) -> ModelConfig:
        try:
            self.architecture(text_card=4)
        except ConfigError as error:
            raise ValueError("; ".join(error.faults)) from error
        return self

    def architecture(self, *, text_card: int) -> PersonaPlexConfig:
        """Sizes of the model; `text_card` is that of the store's tokenizer. Raises ConfigError."""
        dep_q = PREDICTED[self.family]
        if self.sizes is None and self.seed is None:
            return PersonaPlexConfig(dep_q=dep_q)
        sizes = (self.sizes or SizesConfig()).model_dump()
        sizes["text_card"] = sizes["text_card"] or text_card
        return PersonaPlexConfig(**sizes, dep_q=dep_q)


class LoraConfig(Section):
    """Low-rank adapters on the linear maps of the speech model; used where `trains` names lora."""

    temporal_rank: Rank = Field(default=128, description="rank in the temporal model; 0 for none")
    depth_rank: Rank = Field(default=128, description="rank in the depth model; 0 for none")
    scaling: Annotated[float, Field(gt=0, lt=float("inf"))] = Field(
        default=2.0, description="factor of what an adapter adds"
    )
    targets: tuple[Target, ...] = Field(
        default=TARGETS,
        min_length=1,
        description="attention, feed_forward, depth_input (from the temporal model to the depth model), heads",
    )
    embeddings: bool = Field(default=False, description="also train the embedding tables, whole")
    heads: bool = Field(default=False, description="train the output maps whole, instead of by an adapter")

    def options(self) -> LoraOptions:
        """Where adapters go."""
        targets = tuple(name for name in self.targets if not (self.heads and name == "heads"))
        return LoraOptions(self.temporal_rank, self.depth_rank, self.scaling, targets)


class MemoryModelConfig(Section):
    """Writer and readers."""

    slot_width: Positive = Field(default=1024, description="width of a memory slot")


class ObjectiveConfig(Section):
    """What the loss weighs (seeds/000, section 10)."""

    preset: str = Field(default="stage1", description=f"one of {', '.join(PRESETS)}")
    weights: dict[Literal["first_piece", "later_piece", "pad", "epad", "semantic", "acoustic"], Weight] = (
        Field(default_factory=dict, description="weights that differ from the preset's")
    )
    caller: bool = Field(default=True, description="whether the caller's voice carries loss")

    @field_validator("preset")
    @classmethod
    def _known(cls, preset: str) -> str:
        if preset not in PRESETS:
            raise ValueError(f"must be one of {', '.join(PRESETS)}")
        return preset

    @model_validator(mode="after")
    def _something_to_learn(self) -> ObjectiveConfig:
        if not any(self.make().by_part()):
            raise ValueError("every weight is 0, so nothing would be learned")
        return self

    def make(self) -> ObjectiveWeights:
        return objective_weights(self.preset, caller=self.caller, **self.weights)


class DataConfig(Section):
    """Which calls, how often, and how many together."""

    split: str = Field(default="train", description="split to train on")
    prefix: str = Field(
        default=OWN,
        description="what stands before each call: its own prefix, random-voice (anew in every pass, of the same role), "
        "or the id of a stored prefix",
    )
    passes: Positive = Field(default=4, description="times that every call is seen")
    calls_per_update: Positive = Field(
        default=32, description="calls behind one optimiser step, over all ranks"
    )
    window_frames: Positive | None = Field(
        default=None, description="longest window of a call; null is the model's context less the prefix"
    )
    duration_s: Annotated[float, Field(ge=0.08, le=86_400)] | None = Field(
        default=None, description="the same in seconds"
    )
    forward_frames: Positive | None = Field(
        default=None,
        description="windows go through the device together while they fit in so many frames, the longest times "
        "their number; null is one at a time",
    )

    mix: tuple[Annotated[float, Field(gt=0, lt=float("inf"))], ...] | None = Field(
        default=None,
        description="weight of each store, where there are several; null gives every call once a pass",
    )
    exclude: tuple[str, ...] = Field(
        default=(), description="ids of calls that are left out; may change when a run is resumed"
    )
    bad_calls: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="calls that a run may leave out because their bytes are damaged, their loss is not finite, or the "
        "device has no memory for them; may change when a run is resumed",
    )

    @model_validator(mode="after")
    def _one_length(self) -> DataConfig:
        if self.window_frames is not None and self.duration_s is not None:
            raise ValueError("give window_frames or duration_s, not both")
        return self

    @property
    def longest_frames(self) -> int | None:
        """Frames of the longest window without its prefix, None for what the context has room for."""
        return self.window_frames if self.duration_s is None else int(self.duration_s * FRAME_RATE_HZ)


class ChecksConfig(Section):
    """Periodic checks on the frozen panel, and the choice of a checkpoint (seeds/000, section 11)."""

    split: str = Field(default="validation", description="split of the panel")
    tasks: Positive = Field(default=TASKS, description="tasks of the panel, one call each")
    every_updates: Positive = Field(
        default=50, description="updates between checks; the last update is always checked"
    )
    wrong_memory: bool = Field(default=True, description="also check with the memory of another task")
    resamples: Positive = Field(default=RESAMPLES, description="draws of the bootstrap over families")
    margin_nats: Annotated[float, Field(ge=0)] = Field(
        default=VOICE_MARGIN_NATS, description="nats by which the agent's voice may get worse"
    )


class CheckpointsConfig(Section):
    """When a run saves itself, and what it keeps."""

    every_updates: Positive = Field(
        default=50, description="updates between checkpoints; the last update always has one"
    )
    keep: Positive = Field(default=3, description="newest checkpoints that stay, besides the selected one")


class TrainRecipe(Section):
    """One training recipe."""

    name: str = Field(default="train", description="of the recipe; a run may be resumed under another")
    trains: Trains = Field(
        default="memory",
        description="memory (writer and readers on a frozen model), lora, full (every weight of the model), or "
        "memory_and_lora",
    )
    model: ModelConfig
    lora: LoraConfig = LoraConfig()
    memory: MemoryModelConfig = MemoryModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    data: DataConfig = DataConfig()
    checks: ChecksConfig | None = Field(
        default=ChecksConfig(), description="null checks nothing and selects nothing"
    )
    checkpoints: CheckpointsConfig = CheckpointsConfig()
    seed: Seed = Field(
        default=0, description="of the order of calls, the readers' first weights, panel and bootstrap"
    )

    @property
    def reads_memory(self) -> bool:
        """Whether the model has a writer and readers."""
        return self.trains in ("memory", "memory_and_lora")

    @property
    def trains_lora(self) -> bool:
        return self.trains in ("lora", "memory_and_lora")

    @property
    def trains_speech(self) -> bool:
        """Whether anything of the speech model itself trains."""
        return self.trains != "memory"

    @model_validator(mode="after")
    def _parts_fit(self) -> TrainRecipe:
        layers = self.model.architecture(text_card=4).layers
        if self.reads_memory and layers % 4:
            raise ValueError(f"four readers need a multiple of four layers, got {layers}")
        if self.reads_memory and self.data.forward_frames is not None:
            raise ValueError("data.forward_frames must be null: memory is read one call at a time")
        lora = self.lora
        if self.trains_lora and not (lora.temporal_rank or lora.depth_rank or lora.embeddings or lora.heads):
            raise ValueError("lora has ranks of 0, so nothing would be trained")
        return self

    def decisive(self) -> dict[str, Any]:
        """What a resumed run must share with its beginning, as JSON values."""
        return self.model_dump(
            mode="json", exclude={"name": True, "checkpoints": True, "data": {"exclude", "bad_calls"}}
        )


_FOUND_AS: Mapping[str, str] = {"memory": "train_stage1"}
_PREFIX = "train_"
"""Of the files of training recipes; their names may be given without it."""


def train_recipe_names() -> list[str]:
    """Names of the training recipes that come with the package."""
    return sorted(path.stem for path in resource_folder("pipelines").glob(f"{_PREFIX}*.yaml"))


def load_train_recipe(name_or_path: str, overrides: Mapping[str, Any] | None = None) -> TrainRecipe:
    """Read a recipe by name (of those that come with the package) or path, and apply overrides.

    `overrides` maps dotted keys to values: `{"data.passes": 2}`. Raises ConfigError that lists every fault.
    """
    names = train_recipe_names()
    name = _FOUND_AS.get(name_or_path, name_or_path)
    if _PREFIX + name in names:
        name = _PREFIX + name
    path = find_recipe(name, names, what="training recipe")
    return read_recipe(TrainRecipe, path, overrides, what="training recipe")


def recipe_differences(saved: Mapping[str, Any], wanted: Mapping[str, Any], at: str = "") -> list[str]:
    """One line for every key of two decisive recipes that differs."""
    lines = []
    for key in sorted({*saved, *wanted}):
        old, new = saved.get(key), wanted.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += recipe_differences(old, new, f"{at}{key}.")
        elif old != new:
            lines.append(f"{at}{key}: the run has {old!r}, this recipe {new!r}")
    return lines
