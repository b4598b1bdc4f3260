"""From what a user writes after `--codec` to the files that hold the weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from inkplex_data.corpus.model_config import model_config
from inkplex_data.errors import ConfigError
from inkplex_data.libraries import HUB_ID, hub_snapshot, seed_of

WAYS_ON: Final = (
    "Name a local folder or .safetensors file with the weights (`--codec /path/to/mimi`), "
    "or try the pipeline with random weights (`--codec untrained:0`)."
)
MOSHI_WEIGHTS: Final = ("tokenizer-*.safetensors", "*mimi*.safetensors")

# Geometry that the frame grid and the weights rest on; every released Mimi has these values, and a
# config.json that says otherwise describes another model.
GEOMETRY: Final[dict[str, object]] = {
    "sampling_rate": 24_000,
    "audio_channels": 1,
    "upsampling_ratios": [8, 6, 5, 4],
    "num_filters": 64,
    "num_residual_layers": 1,
    "kernel_size": 7,
    "last_kernel_size": 3,
    "residual_kernel_size": 3,
    "compress": 2,
    "use_causal_conv": True,
    "use_conv_shortcut": False,
    "pad_mode": "constant",
    "hidden_size": 512,
    "intermediate_size": 2_048,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "sliding_window": 250,
    "hidden_act": "gelu",
    "norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "codebook_size": 2_048,
    "codebook_dim": 256,
    "vector_quantization_hidden_dimension": 256,
    "num_semantic_quantizers": 1,
    "upsample_groups": 512,
    "frame_rate": 12.5,
}


@dataclass(frozen=True)
class CodecFiles:
    """The safetensors files of one codec, and the id that a store records."""

    id: str
    weights: tuple[Path, ...]


def untrained_seed(spec: str) -> int | None:
    """The seed of `untrained:SEED`, or None for any other spec.

    Raises ConfigError where SEED is no integer from 0 to 2^63 − 1.
    """
    hint = "Give a number, for example `--codec untrained:0`."
    return seed_of(spec, "untrained", what="an untrained codec", where="--codec", next_step=hint)


def find_codec(spec: str) -> CodecFiles:
    """The weights that `spec` names: a file, a folder, or a hub id. Raises ConfigError if there are none."""
    try:
        path = Path(spec).expanduser()
        if path.is_file():
            return _file(path)
        if path.is_dir():
            return _folder(path, path.resolve().name)
    except (OSError, RuntimeError) as error:  # no permission, a name too long, no such home folder
        raise ConfigError(
            f"{spec!r} cannot be opened: {error}", where="--codec", next_step=WAYS_ON
        ) from error
    if HUB_ID.fullmatch(spec) and not spec.endswith(".safetensors"):
        return _folder(_download(spec), spec)
    raise ConfigError(
        f"{spec!r} is not a file, a folder or a hub id (owner/name)", where="--codec", next_step=WAYS_ON
    )


def _file(path: Path) -> CodecFiles:
    if path.suffix != ".safetensors":
        raise ConfigError(
            f"{path.name} is not a .safetensors file; other formats can run code when they are opened",
            where="--codec",
            next_step="Convert it with safetensors.torch.save_file, or download the .safetensors release.",
        )
    return CodecFiles(path.name, (path,))


def _folder(folder: Path, codec_id: str) -> CodecFiles:
    config = _read_config(folder)
    if config.get("model_type") == "mimi":
        _check_geometry(config, codec_id)
        weights = sorted(folder.glob("model*.safetensors"))
        if weights:
            return CodecFiles(codec_id, tuple(weights))
    # A Moshi or PersonaPlex folder holds the codec beside the language model; its config may name the file.
    named = config.get("mimi_name")
    if isinstance(named, str) and named == Path(named).name and (folder / named).is_file():
        return CodecFiles(codec_id, (folder / named,))
    found = sorted({path for pattern in MOSHI_WEIGHTS for path in folder.glob(pattern)})
    if len(found) == 1:
        return CodecFiles(codec_id, (found[0],))
    if len(found) > 1:
        raise ConfigError(
            f"{len(found)} files could be Mimi: {', '.join(path.name for path in found)}",
            where=codec_id,
            next_step="Name one of the files instead of the folder.",
        )
    raise ConfigError(
        "no Mimi weights: neither config.json with model_type `mimi` beside model.safetensors, "
        f"nor {' or '.join(MOSHI_WEIGHTS)}",
        where=codec_id,
        next_step=WAYS_ON,
    )


def _read_config(folder: Path) -> dict[str, Any]:
    config = model_config(folder, where=folder.name, next_step=WAYS_ON)
    return config if isinstance(config, dict) else {}


def _check_geometry(config: dict[str, Any], codec_id: str) -> None:
    # A null in a transformers config means the class's own default.
    faults = [
        f"{key}: {config[key]!r}, Mimi has {value!r}"
        for key, value in GEOMETRY.items()
        if config.get(key) is not None and config[key] != value
    ]
    if faults:
        raise ConfigError(
            "config.json describes a model that is not Mimi at 24 kHz and 12.5 Hz",
            where=codec_id,
            faults=faults,
            next_step=WAYS_ON,
        )


def _download(hub_id: str) -> Path:
    """The local snapshot of a hub id; only the codec's own files are fetched, never a language model."""
    fetch = partial(hub_snapshot, hub_id, what="codec", extra="codec", where="--codec", next_step=WAYS_ON)
    folder = fetch(["config.json", *MOSHI_WEIGHTS])
    is_mimi = _read_config(folder).get("model_type") == "mimi"
    return fetch(["config.json", "model*.safetensors"]) if is_mimi else folder
