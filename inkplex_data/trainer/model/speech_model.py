"""The speech model of a run as it is loaded, and whether a store fits it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
import torch

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import CheckpointError, ConfigError, UsageError
from inkplex_data.loader.state_models import state_models
from inkplex_data.store.reader import Store
from inkplex_data.trainer.memory.connector import MemoryReaders
from inkplex_data.trainer.model.load_weights import LoadReport, load_reported
from inkplex_data.trainer.model.model_files import ModelFiles, find_model
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM
from inkplex_data.trainer.run.train_config import PREDICTED, ModelConfig, TrainRecipe

_MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format."""
_PROBE_BYTES = 4_096


@dataclass(frozen=True)
class SpeechModel:
    """identity: a name that differs where the weights differ. untrained: seeded, so that only a test of the
    machinery can come of it. report: what loading changed."""

    lm: PersonaPlexLM
    identity: str
    untrained: bool
    report: LoadReport = field(default_factory=LoadReport)


@dataclass(frozen=True)
class StoreIdentity:
    """What a run and its checkpoints share with a store. codec: its sha256; state_width: D, None
    where no memory is read; model_states: whose states they are (`StatesIdentity.described`), None where none are read
    or the store does not say."""

    codec: str
    codec_id: str
    codec_untrained: bool
    tokenizer_sha256: str
    text_pieces: int
    state_width: int | None
    model_states: dict[str, Any] | None = None

    def marks(self) -> list[str]:
        """What must be said of every result: parts that mean nothing, or of which nothing is known."""
        states = self.model_states or {}
        marks = [
            (
                self.codec_untrained,
                f"the audio codes come from the untrained codec {self.codec_id}: voice losses mean nothing",
            ),
            (
                states.get("untrained"),
                f"the states come from the untrained model {states.get('id')}: what is read of them means nothing",
            ),
            (states.get("unidentified"), "the states do not say which model computed them"),
        ]
        return [text for applies, text in marks if applies]

    def flags(self) -> dict[str, bool]:
        """The same as JSON values."""
        states = self.model_states or {}
        return {
            "untrained_codec": self.codec_untrained,
            "untrained_states": bool(states.get("untrained")),
            "unidentified_states": bool(states.get("unidentified")),
        }


def store_identity(
    store: Store, *, split: str, allow_untrained_codec: bool = False, memory: bool = True
) -> StoreIdentity:
    """Read what matters for training and evaluation out of a store. memory: whether states are read.

    Raises UsageError for a store whose build has not finished, and ConfigError for an untrained codec or states of an
    untrained model that were not allowed, and where the split has no call with states or states of several models.
    """
    if not store.complete:
        raise UsageError(
            "its build has not finished", where=store.root, next_step="Run the same build again to finish it."
        )
    codec, tokenizer = store.description["codec"], store.description["tokenizer"]
    if codec["untrained"] and not allow_untrained_codec:
        raise ConfigError(
            f"the audio codes come from the untrained codec {codec['id']}: nothing about speech can be learned",
            where=store.root,
            next_step="Build with trained Mimi weights, or give --allow-untrained-codec to try the machinery.",
        )
    width = states = None
    if memory:
        width, states = _states(store, split)
        if states is not None and states["untrained"] and not allow_untrained_codec:
            raise ConfigError(
                f"the states come from the untrained model {states['id']}: nothing can be learned from them",
                where=store.root,
                next_step="Capture with trained weights, or give --allow-untrained-codec to try the machinery.",
            )
    return StoreIdentity(
        codec=str(codec["sha256"]),
        codec_id=str(codec["id"]),
        codec_untrained=bool(codec["untrained"]),
        tokenizer_sha256=str(tokenizer["sha256"]),
        text_pieces=int(tokenizer["pieces"]),
        state_width=width,
        model_states=states,
    )


def _states(store: Store, split: str) -> tuple[int, dict[str, Any] | None]:
    """Width and model of the states of a split's recordings. Raises ConfigError where there are none, or several."""
    calls = store.calls().filter(pl.col("split") == split).select("recording_id").collect()
    recordings = store.recordings().select("recording_id", "state_width").collect()
    read = recordings.join(calls.unique(), on="recording_id").filter(pl.col("state_width") > 0)
    widths = read["state_width"].unique().sort().to_list()
    models = state_models(store, read["recording_id"])
    if len(widths) != 1 or len(models) > 1:
        names = [model["id"] for model in models]
        raise ConfigError(
            f"split {split!r} has calls with states of {len(names) or len(widths)} models or widths {names or widths}"
            if widths
            else f"no call of split {split!r} has a recording with states",
            where=store.root,
            next_step="Use a single reasoning model in a store."
            if widths
            else "Build with `memory.capture` or from recordings that name their states, or train the speech model "
            "itself: -p finetune_lora.",
        )
    return int(widths[0]), models[0] if models else None


def open_speech_model(
    config: ModelConfig, store: StoreIdentity, *, device: torch.device | str = "cpu"
) -> SpeechModel:
    """The frozen model of a recipe, checked against a store's tokenizer.

    Raises CheckpointError for weights that cannot be read or do not fit, ConfigError for a tokenizer that is
    not the model's.
    """
    files = None if config.seed is not None else find_model(config.weights)
    architecture = architecture_of(config, files, text_card=store.text_pieces)
    if store.text_pieces > architecture.text_card:
        raise ConfigError(
            f"the store's tokenizer has {store.text_pieces} pieces, the model has {architecture.text_card} text classes",
            next_step="Build the store with the tokenizer of the speech model.",
        )
    if files is not None and store.text_pieces != architecture.text_card:
        raise ConfigError(
            f"the store's tokenizer has {store.text_pieces} pieces, the model's has {architecture.text_card}",
            next_step="Build the store with the tokenizer that comes with the speech model.",
        )
    if files is not None:
        _refuse_other_tokenizer(files.folder, store)
    return load_speech_model(config, files, architecture, device=device)


def architecture_of(config: ModelConfig, files: ModelFiles | None, *, text_card: int) -> PersonaPlexConfig:
    """The sizes of a model: the recipe's where it gives any, else those of `config.json`, else the released ones.

    Raises ConfigError for a `config.json` of another architecture.
    """
    if files is not None and config.sizes is None:
        found = files.sizes(dep_q=PREDICTED[config.family])
        if found is not None:
            return found
    return config.architecture(text_card=text_card)


def planned_architecture(config: ModelConfig, *, text_card: int) -> PersonaPlexConfig:
    """The sizes of a model whose files need not be here yet: then they are those of the recipe."""
    try:
        files = (
            None
            if config.seed is not None or not Path(config.weights).exists()
            else find_model(config.weights)
        )
    except CheckpointError:  # a folder that the weights are still to be put in
        files = None
    return architecture_of(config, files, text_card=text_card)


def load_speech_model(
    config: ModelConfig,
    files: ModelFiles | None,
    architecture: PersonaPlexConfig,
    *,
    device: torch.device | str = "cpu",
) -> SpeechModel:
    """The frozen model of a recipe, without files a seeded one. Raises CheckpointError for weights that do not fit."""
    dtype = torch.bfloat16 if config.dtype == "bfloat16" else torch.float32
    if files is None:
        assert config.seed is not None
        lm = PersonaPlexLM.seeded(architecture, config.seed).to(device=device, dtype=dtype).freeze().eval()
        return SpeechModel(lm, f"seeded:{config.seed}", untrained=True)
    lm, report = load_reported(files.weights, architecture, device=device, dtype=dtype)
    return SpeechModel(lm, f"safetensors:{fingerprint(files.weights)}", untrained=False, report=report)


def make_readers(recipe: TrainRecipe, lm: PersonaPlexLM, *, state_width: int) -> MemoryReaders:
    """Writer and readers as a run of `recipe` begins with them, float32, on the model's device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        readers = MemoryReaders(lm.config, state_width=state_width, slot_width=recipe.memory.slot_width)
    return readers.to(lm.device)


def fingerprint(path: Path) -> str:
    """A sha256 that stands for the weights of a safetensors file: its size, its header, and the first 4 KiB of
    every tensor. Hashing all 16 GB would take longer than loading them.

    Raises CheckpointError where the file is not safetensors.
    """
    try:
        with path.open("rb") as file:
            header = _header(file)
            digest = hashlib.sha256(f"{path.stat().st_size}\0".encode() + header)
            names = parse_json(header)
            if not isinstance(names, dict):
                raise ValueError("its header is no JSON object")
            for name in sorted(set(names) - {"__metadata__"}):
                first, stop = names[name]["data_offsets"]
                if not 0 <= first <= stop:
                    raise ValueError(f"tensor {name!r} lies from {first} to {stop}")
                file.seek(8 + len(header) + first)
                digest.update(file.read(min(stop - first, _PROBE_BYTES)))
            return digest.hexdigest()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"not a readable safetensors file: {error}", where=str(path)) from error


def _header(file: BinaryIO) -> bytes:
    length = int.from_bytes(file.read(8), "little")
    if not 0 < length <= _MAX_HEADER_BYTES:
        raise ValueError(f"its header claims {length:,} bytes")
    return file.read(length)


def _refuse_other_tokenizer(folder: Path, store: StoreIdentity) -> None:
    """A folder of released weights has its tokenizer beside them; where it does, it must be the store's."""
    found = sorted(folder.glob("tokenizer*.model"))
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
    if digests and store.tokenizer_sha256 not in digests:
        raise ConfigError(
            "the store's text was made with a different tokenizer from the model's",
            where=str(found[0]),
            next_step=f"Build the store again with --tokenizer {found[0]}.",
        )
