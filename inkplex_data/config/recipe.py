"""Build recipes: the pydantic models of `pipelines/*.yaml`, and how one is found, read and overridden.

A recipe holds everything that changes the bytes of a store, and nothing that does not (worker counts,
schedulers and progress are arguments of the run). Its digest is kept in `store.json`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from inkplex_data.config.augment import AugmentConfig
from inkplex_data.config.check_speech import CheckSpeechConfig
from inkplex_data.config.section import Section as Section  # noqa: PLC0414 - other recipes build on it
from inkplex_data.config.surprise import SurpriseConfig
from inkplex_data.config.yamltext import MOST_DEPTH, read_yaml
from inkplex_data.errors import ConfigError
from inkplex_data.grid import WINDOW
from inkplex_data.resources import resource_folder

SHARD_BYTES = 512 * 2**20


class AudioConfig(Section):
    """Where the two sides of a call come from."""

    streams: Literal["two", "single"] = Field(
        "two",
        description="two: the agent's and the caller's; single: everybody in the agent's stream and in one text stream, and no caller",
    )
    agent: Literal["left", "right", "auto"] = Field(
        "left",
        description="the agent's channel if the corpus names none; auto: a guess from greeting, order of speech and transcript",
    )
    agent_confidence: Annotated[float, Field(ge=0.5, lt=1)] = Field(
        0.8,
        description="lowest confidence at which a guess is used; below it the call is refused. Speaking first alone gives 0.75",
    )
    mono: Literal["refuse", "diarize"] = Field(
        "refuse",
        description="what happens to a one-channel file: refusal, or diarization into two constructed streams",
    )
    diarizer: str = Field(
        "offline",
        description="for one-channel files: offline, or a folder or hub id of a pyannote.audio pipeline",
    )
    main_speaker: Annotated[str, Field(min_length=1)] = Field(
        "most",
        description="who becomes the agent of a one-channel file: who speaks most or first, one at random, or a label of the diarizer",
    )
    speakers: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="how many people speak in each one-channel file, if known; null lets the diarizer count",
    )
    inactive: Literal["zero", "room"] = Field(
        "zero",
        description="what a constructed stream holds where it is silent: zeros, or the file's own room tone",
    )
    seed: Annotated[int, Field(ge=0)] = Field(
        0, description="seed of `main_speaker: random` and of room tone"
    )
    swap_roles: bool = Field(
        False,
        description="also build each call with its sides exchanged, as ID~swapped, in the same family and split",
    )
    bandwidth: str = Field(
        "resample",
        description="what widens the band of telephone speech: resample leaves it as it is; else an installed model's name, or a function from samples to samples, as MODULE:FUNCTION or FILE.py:FUNCTION",
    )


class WordsConfig(Section):
    """Where the agent's words come from."""

    source: Literal["given", "whisper", "none"] = Field(
        "given",
        description="given: the transcript beside the audio; whisper: the same, or made by Whisper if there is none; none: no text stream",
    )
    whisper: str | tuple[str, ...] = Field(
        "packaged:tiny.en",
        description="Whisper model for `source: whisper`: packaged:tiny.en, a size such as medium, a file, folder or hub id; of a list, the first that can be had",
    )
    aligner: str = Field(
        "pocketsphinx",
        description="what aligns those words to the audio: pocketsphinx, a folder or hub id of a CTC model, or none",
    )
    language: str = Field("en", description="language of those words")
    uncertainty_limit_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        0.5, description="seconds; the text around a word whose times may be off by more carries no loss"
    )

    @field_validator("whisper")
    @classmethod
    def _names_a_model(cls, whisper: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not whisper or not all(whisper):
            raise ValueError("name at least one model")
        return whisper if isinstance(whisper, str) or len(whisper) > 1 else whisper[0]

    agent: str | None = Field(
        None,
        description="label or channel number of the agent in transcripts; null: what the format says (a role, or else the agent's channel)",
    )


class TextConfig(Section):
    """The text stream's rules (DESIGN §3 names each)."""

    policy: Literal["kyutai", "moshi-paper"] = Field(
        "kyutai", description="where a word's pieces go: the released recipe's rule, or the paper's"
    )
    overflow: Literal["replace", "shift"] = Field(
        "replace", description="what a new word does to pending pieces: replace them, or queue behind them"
    )
    rounding: Literal["exact", "kyutai"] = Field(
        "exact",
        description="exact integers, or the released recipe's floating point, which is a frame early at some boundaries",
    )
    in_word_padding: Annotated[int, Field(ge=0)] | None = Field(
        None, description="id of the padding inside a word; null uses PAD"
    )
    delay_s: Annotated[float, Field(ge=-10, le=10)] = Field(
        0.0, description="seconds by which the text is ahead of the audio"
    )
    speaker_tokens: bool = Field(False, description="keep all speakers, with BOS and EOS at changes")
    main_speaker: str = Field("SPEAKER_MAIN", description="label of the agent's words")
    tokenizer: str | None = Field(
        None, description="path of a SentencePiece model; null: the small one that comes with the package"
    )


class CodecConfig(Section):
    """Which Mimi encodes the audio, and how."""

    id: str = Field(
        "kyutai/mimi", description="hub id, local folder, Moshi-format .safetensors, or untrained:SEED"
    )
    stream: Literal["whole", "live"] = Field(
        "whole",
        description="whole: the codes of whole files; live: those of Moshi's live server, which from 10 s on hears one position less in every other one",
    )
    batch_rows: Annotated[int, Field(ge=1, le=1_024)] = Field(
        1, description="channels that the model always sees at once; a call's two sides share them"
    )


class PrefixConfig(Section):
    """The voice and role prefix (seeds/000, section 9)."""

    voice: Literal["auto", "none"] = Field(
        "auto",
        description="auto: a stretch of another call with the same voice in the same split; none: silence only",
    )
    voice_max_s: Annotated[float, Field(gt=0, le=120)] = Field(
        10.0, description="longest voice sample, in seconds"
    )
    role: bool = Field(True, description="speak the call's role text in the prefix")
    past: bool = Field(
        False,
        description="behind the role, the public conversation before the call, from its sidecar's prompt",
    )
    voices: dict[str, str] = Field(
        default_factory=dict,
        description="further voices, by name, each an audio file; each is stored with every role of the corpus",
    )


class CaptureConfig(Section):
    """Where the hidden states of a recording come from if it brings none."""

    model: str = Field(
        "small:0", description="checkpoint folder, hub id, or small:SEED, the untrained 42-block model"
    )
    chunk_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="tokens per prefill chunk; null: up to 8,192, as the devices have room (512 for the small model); recorded in the store, because expert routes can depend on it",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="arithmetic of the model; auto: bfloat16 for a checkpoint, float32 for the small model; states are stored as bfloat16",
    )
    device: str = Field(
        "auto",
        description="cpu, cuda …; balanced, balanced_low_0 or sequential over all GPUs, then memory, then disk; a device map as JSON; or auto: a GPU, all of them for a checkpoint that one does not hold, else the CPU",
    )


class MemoryConfig(Section):
    """The causal memory of a task recording (seeds/000, "Current sequence memory")."""

    window: Annotated[int, Field(ge=1)] = Field(
        WINDOW, description="number of newest tokens, by arrival, that stay live"
    )
    capture: CaptureConfig | None = Field(
        None,
        description="how hidden states are captured; null stores tokens, words and versions without states",
    )
    accept_unidentified_states: bool = Field(
        False, description="take states that do not say which model computed them, and mark them for ever"
    )


class SplitConfig(Section):
    """How families that name no split are divided."""

    validation: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.05, description="share of the families for validation"
    )
    test: Annotated[float, Field(ge=0, lt=1)] = Field(0.05, description="share of the families for test")
    seed: int = Field(0, description="seed of the draw, and of the choice of wrong-memory partners")


class StoreConfig(Section):
    """The store's geometry."""

    shard_bytes: Annotated[int, Field(ge=1)] = Field(
        SHARD_BYTES, description="size in bytes at which a shard is closed"
    )


class Recipe(Section):
    """One build recipe. Every field has the default that a plain `inkplex-data build` uses."""

    name: str = Field("default", description="name of the recipe; not part of its digest")
    audio: AudioConfig = AudioConfig()
    words: WordsConfig = WordsConfig()
    text: TextConfig = TextConfig()
    codec: CodecConfig = CodecConfig()
    prefix: PrefixConfig | None = PrefixConfig()
    memory: MemoryConfig | None = MemoryConfig()
    augment: AugmentConfig | None = Field(None, description="changes made to training calls; null makes none")
    check_speech: CheckSpeechConfig | None = Field(
        None, description="check that the agent's audio matches its text; null trusts the corpus"
    )
    surprise: SurpriseConfig | None = Field(
        None, description="what is done about calls whose text surprises a model; null asks none"
    )
    splits: SplitConfig = SplitConfig()
    store: StoreConfig = StoreConfig()
    device: Literal["cpu", "cuda"] = Field(
        "cpu", description="the class of device on which the models run; near ties of codes fall by it"
    )
    strict: bool = Field(False, description="refuse a call whose data would need a repair")

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not name or any(character in name for character in "/\\\0"):
            raise ValueError("a recipe's name has no slashes")
        return name

    def digest(self) -> str:
        """sha256 over the canonical JSON of everything but the name."""
        body = self.model_dump(mode="json", exclude={"name"})
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    @model_validator(mode="after")
    def _splits_leave_something(self) -> Recipe:
        if self.splits.validation + self.splits.test >= 1:
            raise ValueError("splits.validation and splits.test leave nothing to train on")
        return self

    @model_validator(mode="after")
    def _a_single_stream_has_no_sides(self) -> Recipe:
        if self.audio.streams != "single":
            return self
        sided = {
            "audio.mono: refuse": self.audio.mono != "refuse",
            "audio.swap_roles: false": self.audio.swap_roles,
            "prefix: null": self.prefix is not None,
            **{
                f"augment.{name}: null": self.augment is not None and getattr(self.augment, name) is not None
                for name in ("gain", "noise", "room", "silence", "barge_in")
            },
        }
        if wrong := [setting for setting, is_set in sided.items() if is_set]:
            raise ValueError(f"audio.streams: single has no agent and caller; it needs {', '.join(wrong)}")
        return self

    @model_validator(mode="after")
    def _speech_can_be_checked(self) -> Recipe:
        if self.check_speech is not None and self.words.source == "none":
            raise ValueError("check_speech compares audio with text, but words.source: none gives no text")
        if self.check_speech is not None and self.words.language != "en":
            raise ValueError(
                f"check_speech knows only English, but words.language is {self.words.language!r}"
            )
        return self


def recipe_names() -> list[str]:
    """Names that `load_recipe` accepts besides paths."""
    return sorted(
        path.stem for path in resource_folder("pipelines").glob("*.yaml") if not path.stem.startswith("train")
    )


def load_recipe(name_or_path: str | None, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe by name (one that comes with the package) or path, and apply overrides.

    `overrides` maps dotted keys to values: `{"codec.id": "untrained:0"}`.
    Raises ConfigError that lists every fault of the file at once.
    """
    return read_recipe(
        Recipe,
        None if name_or_path is None else find_recipe(name_or_path, recipe_names(), what="recipe"),
        overrides,
        what="recipe",
        next_step="See docs/reference/recipes.md, which lists every key.",
    )


Model = TypeVar("Model", bound=Section)


def read_recipe(
    model: type[Model],
    path: Path | None,
    overrides: Mapping[str, Any] | None,
    *,
    what: str,
    next_step: str | None = None,
) -> Model:
    """A recipe from its file, or from nothing but `overrides`. Raises ConfigError that lists every fault."""
    where, body = "defaults", {}
    if path is not None:
        where, body = str(path), read_yaml(path)
        body.setdefault("name", path.stem)
    for dotted, value in (overrides or {}).items():
        set_dotted(body, dotted, value)
    try:
        return model.model_validate(body)
    except ValidationError as error:
        faults = validation_faults(error)
        raise ConfigError(
            f"the {what} has faults", where=where, faults=faults, next_step=next_step
        ) from error


def validation_faults(error: ValidationError) -> list[str]:
    """One sentence per fault: the key, the rule and the value found."""
    return [
        f"{'.'.join(str(part) for part in fault['loc']) or '(file)'}: {fault['msg']} (got {_short(fault['input'])})"
        for fault in error.errors()
    ]


def _short(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def find_recipe(name_or_path: str, names: list[str], *, what: str) -> Path:
    """The file of a recipe: one of `names`, which come with the package, else a path. Raises ConfigError.

    Whatever else has the name of a recipe, such as a folder beside, does not stand in its way: a path to a file of that
    name has a slash in it.
    """
    if name_or_path in names:
        return resource_folder("pipelines") / f"{name_or_path}.yaml"
    path = Path(name_or_path)
    if not path.is_file():
        is_path = path.suffix in {".yaml", ".yml"} or path.name != name_or_path
        raise ConfigError(
            f"{name_or_path!r} is a folder, not a {what}"
            if path.is_dir()
            else f"there is no {what}{' file' * is_path} {name_or_path!r}",
            next_step=f"Give a YAML file, or one of {', '.join(names)}.",
        )
    return path


def set_dotted(body: dict[str, Any], dotted: str, value: Any) -> None:
    """Set `{"a": {"b": value}}` for the key `a.b`. Raises ConfigError for a key deeper than a recipe can be."""
    *parents, last = dotted.split(".")
    if len(parents) >= MOST_DEPTH:
        raise ConfigError(f"there is no key of {len(parents) + 1} parts ({_short(dotted)})")
    for parent in parents:
        child = body.get(parent)
        if not isinstance(child, dict):
            child = body[parent] = {}
        body = child
    body[last] = value
