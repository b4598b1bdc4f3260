"""Loading PersonaPlex and Moshi safetensors into `PersonaPlexLM`.

Accepts the released names, Kyutai's newer ones (`in_projs.3.weight` for one slice of a packed attention
weight), and checkpoints with fewer depth positions, which are expanded as the released loader does it
(seeds/000, "Effective constructor"): attention slices are repeated, and each missing per-position group is
copied from the position 8 before. Nothing may be missing or unexpected after that.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from inkplex_data.errors import CheckpointError
from inkplex_data.grid import CODEBOOKS
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM

WEIGHTS_FILE = "model.safetensors"
RELEASED: Final = {"personaplex": "nvidia/personaplex-7b-v1", "moshi": "kyutai/moshiko-pytorch-bf16"}
"""Hub ids of the released models, by family."""
_TYPES = {torch.bfloat16: "BF16", torch.float32: "F32", torch.float16: "F16", torch.float64: "F64"}
"""The format's names of types."""

_SPLIT = re.compile(r"(.*\.self_attn\.)(in|out)_projs\.(\d+)\.weight$")
_PACKED_ATTENTION = re.compile(r"depformer\.layers\.\d+\.self_attn\.(in_proj_weight|out_proj\.weight)$")
_POSITION = re.compile(
    r"((?:depformer_in|depformer_emb|linears|depformer\.layers\.\d+\.gating)\.)(\d+)(\..*)$"
)


@dataclass(frozen=True)
class LoadReport:
    """What a load did beside reading. expanded: tensors that the file lacks or has for fewer depth positions.
    cast: how many tensors changed type, by both types, `F32 -> BF16`. Nothing is ever ignored: a tensor without a place
    is refused."""

    expanded: tuple[str, ...] = ()
    cast: Mapping[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """A sentence for people, empty where nothing happened."""
        said = [f"{count} tensors cast {types}" for types, count in self.cast.items()]
        if self.expanded:
            said.insert(0, f"{len(self.expanded)} tensors expanded to more depth positions")
        return ", ".join(said)


@dataclass(frozen=True)
class _Entry:
    """A tensor to be: its shape, the file's name of its type, how to read it, and whether it was made of others."""

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Tensor]
    expanded: bool = False


def load_personaplex(
    path: Path | str,
    config: PersonaPlexConfig | None = None,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.bfloat16,
) -> PersonaPlexLM:
    """A frozen model in `dtype` on `device` with the weights of `path`: a safetensors file, its folder or a hub id.

    Raises CheckpointError as `load_reported` does.
    """
    return load_reported(path, config, device=device, dtype=dtype)[0]


def load_reported(
    path: Path | str,
    config: PersonaPlexConfig | None = None,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[PersonaPlexLM, LoadReport]:
    """The same, and what was changed on the way.

    Tensors are read one by one, so at most one is held twice. Raises CheckpointError where the file cannot be
    read, or names or shapes do not fit `config` (the released model by default); all misfits are named.
    """
    path = Path(path)
    if path.is_dir():
        path = path / WEIGHTS_FILE
    if not path.is_file():
        raise CheckpointError(
            "there are no model weights here",
            where=str(path),
            next_step=f"Download {RELEASED['personaplex']}, or give the folder that holds {WEIGHTS_FILE}.",
        )
    with torch.device("meta"):
        model = PersonaPlexLM(config)
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            entries = {
                name: _Entry(tuple(part.get_shape()), str(part.get_dtype()), _reader(file, name))
                for name in file.keys()  # noqa: SIM118 (not a dict)
                for part in [file.get_slice(name)]
            }
            entries = _fit(_join_split(entries), wanted)
            _refuse_misfits(entries, wanted, path)
            state = {name: entries[name].read().to(device=device, dtype=dtype) for name in wanted}
    except SafetensorError as error:
        raise CheckpointError(
            f"not a readable safetensors file: {error}", where=str(path), next_step="Download it again."
        ) from error
    model.load_state_dict(state, strict=True, assign=True)
    types = Counter(entries[name].dtype for name in wanted)
    report = LoadReport(
        expanded=tuple(name for name in wanted if entries[name].expanded),
        cast={f"{own} -> {_TYPES[dtype]}": n for own, n in types.items() if own != _TYPES.get(dtype)},
    )
    return model.freeze().eval(), report


def _reader(file: safe_open, name: str) -> Callable[[], Tensor]:
    return lambda: cast(Tensor, file.get_tensor(name))  # type: ignore[no-untyped-call]


def _join_split(entries: dict[str, _Entry]) -> dict[str, _Entry]:
    """Put `in_projs.i.weight` and `out_projs.i.weight` together in order of i under the released names."""
    joined: dict[str, _Entry] = {}
    groups: dict[str, dict[int, _Entry]] = {}
    for name, entry in entries.items():
        if found := _SPLIT.match(name):
            prefix, kind, index = found.groups()
            released = f"{prefix}in_proj_weight" if kind == "in" else f"{prefix}out_proj.weight"
            groups.setdefault(released, {})[int(index)] = entry
        else:
            joined[name] = entry
    for name, parts in groups.items():
        slices = [parts[index] for index in sorted(parts)]
        if sorted(parts) != list(range(len(parts))) or any(len(part.shape) != 2 for part in slices):
            raise CheckpointError(f"the slices of {name} are not numbered 0 … {len(parts) - 1}")
        rows = sum(part.shape[0] for part in slices)
        joined[name] = _Entry((rows, slices[0].shape[1]), slices[0].dtype, _concatenation(slices))
    return joined


def _fit(entries: dict[str, _Entry], wanted: Mapping[str, tuple[int, ...]]) -> dict[str, _Entry]:
    """Expand depth positions where the file has fewer than wanted."""
    entries = dict(entries)
    for name, shape in wanted.items():
        have = entries.get(name)
        if have is not None:
            if _PACKED_ATTENTION.match(name) and (2 * have.shape[0], *have.shape[1:]) == shape:
                entries[name] = _Entry(shape, have.dtype, _concatenation([have, have]), expanded=True)
            continue
        if found := _POSITION.match(name):
            head, position, tail = found.groups()
            source = f"{head}{int(position) - CODEBOOKS}{tail}"
            if int(position) >= CODEBOOKS and source in entries:
                have = entries[source]
                entries[name] = _Entry(have.shape, have.dtype, _concatenation([have]), expanded=True)
            elif head == "depformer_emb." and int(position) == CODEBOOKS - 1:
                # An 8-position model never feeds its last code on, so this table has no source; a zero table
                # gives position 8 its projection alone, as if the code before were no input.
                dtype = entries["emb.0.weight"].dtype if "emb.0.weight" in entries else "BF16"
                entries[name] = _Entry(shape, dtype, functools.partial(torch.zeros, shape), expanded=True)
    return entries


def _concatenation(parts: list[_Entry]) -> Callable[[], Tensor]:
    return lambda: torch.cat([part.read() for part in parts])


def _refuse_misfits(entries: Mapping[str, _Entry], wanted: Mapping[str, tuple[int, ...]], path: Path) -> None:
    faults = [f"missing {name}" for name in sorted(set(wanted) - set(entries))]
    faults += [f"unexpected {name}" for name in sorted(set(entries) - set(wanted))]
    faults += [
        f"{name} is {list(entries[name].shape)}, should be {list(shape)}"
        for name, shape in wanted.items()
        if name in entries and entries[name].shape != shape
    ]
    if faults:
        shown = "\n  - ".join(
            [*faults[:12], *([f"… and {len(faults) - 12} more"] if len(faults) > 12 else [])]
        )
        raise CheckpointError(
            f"the weights do not fit the model:\n  - {shown}",
            where=str(path),
            next_step="Give the configuration that these weights were made for.",
        )
