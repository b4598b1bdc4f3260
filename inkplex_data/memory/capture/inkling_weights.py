"""An Inkling's weights: read onto the devices that hold them, checked for completeness, and named by their digest."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import CheckpointError, ConfigError
from inkplex_data.libraries import require
from inkplex_data.memory.capture.inkling_source import FULL_MODEL, InklingCheckpoint

if TYPE_CHECKING:
    import torch

WHERE: Final = "memory.capture.device"
SPREADS: Final = ("balanced", "balanced_low_0", "sequential")
"""Ways in which transformers spreads a model over all devices, then the host's memory, then the disk."""
ROOM: Final = 0.8
"""Share of a GPU that weights may take; the rest is for caches and the chunk in work."""
HOST_ROOM_BYTES: Final = 4 << 30
"""Not what is free at the moment: the same recording is to be cut alike on every machine."""
QUANTISERS: Final = {
    "awq": "gptqmodel",
    "bitsandbytes": "bitsandbytes",
    "bitsandbytes_4bit": "bitsandbytes",
    "bitsandbytes_8bit": "bitsandbytes",
    "compressed-tensors": "compressed-tensors",
    "fbgemm_fp8": "kernels",
    "fp8": "kernels",
    "gptq": "gptqmodel",
    "hqq": "hqq",
    "modelopt": "nvidia-modelopt",
    "mxfp4": "kernels",
    "quanto": "optimum-quanto",
    "quark": "amd-quark",
    "torchao": "torchao",
}
"""The Python package that a `quant_method` of a checkpoint's configuration needs (transformers, quantizers/)."""
_NOT_CUT: Final = (
    "embed_tokens",
    "layers.*.mlp.shared_experts",
    "layers.*.mlp.shared_experts.gate_proj",
    "layers.*.mlp.shared_experts.up_proj",
    "layers.*.mlp.shared_experts.down_proj",
)
"""What every process of a tensor-parallel group holds whole: 2 of 258 experts, and 1.6 GB of embedding."""
_OUTER: Final = ("language_model", "audio_tower", "vision_tower")


@dataclass
class LoadedWeights:
    """The text model and its audio front end or None.

    `offloaded` is the folder of weights that are read from the disk for each pass, where any are and the checkpoint has
    them in another layout; it goes with the model. `processes`: how many hold a part of every block.
    """

    text: Any
    audio: Any
    offloaded: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)
    processes: int = 1


def one_device(name: str) -> Any:
    """The torch device of that name; `auto` is a GPU where there is one. Raises ConfigError."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        # An allocation finds a GPU that is named but not there.
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"no device {name!r}: {reason}", where=WHERE, next_step="Use auto or cpu."
        ) from error


def device_map(device: str, checkpoint: InklingCheckpoint) -> Any:
    """What transformers calls a device map, or None where one device takes the whole model.

    `device`: a torch device, one of `SPREADS`, a JSON object from modules to devices, cpu or disk, or `auto`, which
    spreads a checkpoint that one GPU does not hold. Raises ConfigError for a map that is none.
    """
    if device in SPREADS:
        return device
    if device.lstrip().startswith("{"):
        return _given_map(device, whole=checkpoint.model_type == FULL_MODEL)
    if device == "auto" and _needs_more_than_one_gpu(checkpoint):
        return "auto"
    return {"": str(one_device(device))} if checkpoint.quantised else None


def _given_map(text: str, *, whole: bool) -> dict[str, int | str]:
    try:
        found = parse_json(text)
    except ValueError as error:
        raise ConfigError(f"the device map is no JSON object ({error})", where=WHERE) from error
    for name, place in found.items():
        if isinstance(place, bool) or not isinstance(place, (int, str)):
            raise ConfigError(
                f"the device map puts {name!r} on {place!r}, which is no device",
                where=WHERE,
                next_step='Name devices as 0, "cuda:1", "cpu" or "disk".',
            )
        if place != "disk":
            one_device(f"cuda:{place}" if isinstance(place, int) else place)
    if not whole:
        return dict(found)
    # Names are those of the text model, so that one map fits a checkpoint with and without its front ends.
    towers = {} if "" in found else {"audio_tower": "cpu", "vision_tower": "cpu"}
    return towers | {
        name if not name or name.split(".")[0] in _OUTER else f"language_model.{name}": place
        for name, place in found.items()
    }


def _needs_more_than_one_gpu(checkpoint: InklingCheckpoint) -> bool:
    import torch

    if not torch.cuda.is_available():
        return False
    size = sum(path.stat().st_size for path in checkpoint.folder.glob("*.safetensors"))
    return size > ROOM * torch.cuda.get_device_properties(0).total_memory


def load_weights(checkpoint: InklingCheckpoint, dtype: torch.dtype, device: str) -> LoadedWeights:
    """Raises CheckpointError for weights that are missing or cannot be read, ConfigError for a device or a library of a
    quantised checkpoint that is not there, MissingLibraryError for accelerate where a device map needs it."""
    from safetensors import SafetensorError
    from transformers import InklingModel, InklingTextModel

    whole = checkpoint.model_type == FULL_MODEL
    kind = InklingModel if whole else InklingTextModel
    options: dict[str, Any] = {}
    offloaded = None
    if world_size() > 1:
        options["distributed_config"] = _tensor_parallel(device, whole=whole)
    elif (places := device_map(device, checkpoint)) is not None:
        require("accelerate", extra="memory", needed_for="a model on several devices, or a quantised one")
        offloaded = tempfile.TemporaryDirectory(prefix="inkplex-offloaded-")
        options |= {"device_map": places, "offload_folder": offloaded.name}
    try:
        # The dtype is given here, not cast later: the short convolutions stay float32 only so. The base
        # model has no readout, which is the largest matrix and would stay unused.
        model, report = kind.from_pretrained(
            checkpoint.folder,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
            **options,
        )
    except ImportError as error:
        raise _library_missing(error, checkpoint) from error
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"the checkpoint cannot be loaded: {_reason(error)}",
            where=checkpoint.id,
            next_step=(
                f"It is quantised ({checkpoint.quantised}); see whether this machine and its libraries can run that."
                if checkpoint.quantised
                else "Download it again; an interrupted download is the usual cause."
            ),
        ) from error
    lacking = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    prefix = "language_model." if whole else ""
    needed = [name for name in lacking if prefix in name]
    if needed:
        raise CheckpointError(
            f"{len(needed)} weights are missing or of another shape, among them {needed[0]}",
            where=checkpoint.id,
            next_step="Download it again; states of random weights would mean nothing.",
        )
    if not options:
        model = model.to(one_device(device))
    if not whole:
        return LoadedWeights(model, None, offloaded, world_size())
    hears = not any("audio_tower." in name for name in lacking)
    audio = model.audio_tower if hears else None
    return LoadedWeights(model.language_model, audio, offloaded, world_size())


def world_size() -> int:
    """Processes that `torchrun` started to share one model; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _tensor_parallel(device: str, *, whole: bool) -> Any:
    from transformers.distributed import DistributedConfig

    if device not in ("auto", "cuda"):
        raise ConfigError(
            f"{world_size()} processes of torchrun share the model, each on its own device, not on {device!r}",
            where=WHERE,
            next_step="Use auto, or start one process.",
        )
    # transformers 5.24 cuts these too and then multiplies cut tensors with whole ones, which torch refuses.
    prefix = "language_model." if whole else ""
    plan = {**dict.fromkeys(_NOT_CUT, "replicate"), "layers.*.mlp.experts.gate_up_proj": "packed_colwise"}
    return DistributedConfig(
        tp_plan={f"{prefix}{name}": style for name, style in plan.items()}, tp_size=world_size()
    )


def _library_missing(error: ImportError, checkpoint: InklingCheckpoint) -> ConfigError:
    library = QUANTISERS.get(checkpoint.quantised or "")
    step = f"Install it with `pip install {library}`." if library else "Install the library that it names."
    how = f", which is quantised ({checkpoint.quantised})," if checkpoint.quantised else ""
    return ConfigError(
        f"the checkpoint{how} needs a library that is not installed: {_reason(error)}",
        where=checkpoint.id,
        next_step=step,
    )


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def weights_sha256(loaded: LoadedWeights) -> str:
    """Hex digest over every tensor of text model and front end in sorted name order: name, dtype, shape, bytes.

    It is the same wherever the weights are: on devices, on the disk, or in parts in several processes. One tensor at a
    time is held.
    """
    import torch

    parts = {"text": loaded.text, "audio": loaded.audio}
    modules = {name: module for name, module in parts.items() if module is not None}
    digest = hashlib.sha256()
    for name in sorted(f"{part}.{name}" for part, module in modules.items() for name in module.state_dict()):
        part, inner = name.split(".", 1)
        tensor = _whole_tensor(modules[part], inner).detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _whole_tensor(model: Any, name: str) -> torch.Tensor:
    from torch.distributed.tensor import DTensor

    module_name, _, own = name.rpartition(".")
    module = model.get_submodule(module_name)
    tensor: torch.Tensor = getattr(module, own)
    if tensor.is_meta:
        # accelerate's hook knows where it is, and which of its hooks is responsible.
        tensor = _offloaded(module)[own]
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _offloaded(module: Any) -> Mapping[str, torch.Tensor]:
    hook = module._hf_hook
    return next(
        one.weights_map for one in getattr(hook, "hooks", [hook]) if getattr(one, "weights_map", None)
    )


def execution_device(module: Any) -> torch.device:
    """The device on which a module computes: of its weights, or, where these are elsewhere, the one they are brought to."""
    import torch

    weight = next(module.parameters())
    return torch.device(module._hf_hook.execution_device) if weight.is_meta else weight.device


def room_bytes(model: Any) -> int:
    """Memory for the chunk in work: half of what weights leave on the fullest GPU, or `HOST_ROOM_BYTES` without one."""
    import torch

    places = [execution_device(layer) for layer in model.layers]
    gpus = {place for place in places if place.type == "cuda"}
    free = [
        torch.cuda.get_device_properties(gpu).total_memory - torch.cuda.memory_allocated(gpu) for gpu in gpus
    ]
    return min(free, default=2 * HOST_ROOM_BYTES) // 2


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without progress bars and notes of transformers, which would run through the build's own display."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if bars:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
