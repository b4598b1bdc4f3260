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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from inkplex_data.errors import CheckpointError
from inkplex_data.grid import CODEBOOKS
from inkplex_data.libraries import HUB_ID, hub_snapshot
from inkplex_data.plural import counted
from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM

WEIGHTS_FILE = "model.safetensors"
RELEASED: Final = "nvidia/personaplex-7b-v1"
"""Hub id of the released model."""
_WAYS_ON: Final = (
    f"Accept the licence of {RELEASED} on the hub and log in, or give the folder that holds {WEIGHTS_FILE}."
)
_DTYPES: Final = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}

_SPLIT = re.compile(r"(.*\.self_attn\.)(in|out)_projs\.(\d+)\.weight$")
_PACKED_ATTENTION = re.compile(r"depformer\.layers\.\d+\.self_attn\.(in_proj_weight|out_proj\.weight)$")
_POSITION = re.compile(
    r"((?:depformer_in|depformer_emb|linears|depformer\.layers\.\d+\.gating)\.)(\d+)(\..*)$"
)


@dataclass(frozen=True)
class _Entry:
    """A tensor to be: its shape, and how to read it."""

    shape: tuple[int, ...]
    read: Callable[[], Tensor]
    made: Literal["", "repeated", "copied", "zeros"] = ""
    """How it comes of other tensors, if it is not in the file as it is."""


def find_weights(spec: str) -> Path:
    """The safetensors file that `spec` names: a file, a folder, or a hub id.

    For a hub id a folder of the model's name in the current one comes first, then the local cache, then the hub.
    Raises CheckpointError where there are no weights, ConfigError where they cannot be downloaded.
    """
    path = Path(spec)
    if not path.exists() and HUB_ID.fullmatch(spec):
        path = Path(path.name)
        if not (path / WEIGHTS_FILE).is_file():
            files = [WEIGHTS_FILE, "tokenizer*.model"]
            what = "speech model"
            path = hub_snapshot(spec, files, what=what, extra="codec", where="model", next_step=_WAYS_ON)
    path = path / WEIGHTS_FILE if path.is_dir() else path
    if not path.is_file():
        raise CheckpointError("there are no model weights here", where=str(path), next_step=_WAYS_ON)
    return path


def load_personaplex(
    path: Path | str,
    config: PersonaPlexConfig | None = None,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.bfloat16,
    note: Callable[[str], None] = lambda _: None,
) -> PersonaPlexLM:
    """A frozen model in `dtype` on `device` with the weights of `path`: a safetensors file, its folder or a hub id.

    `note` is told what was not taken as it is in the file: tensors that were expanded or cast. Nothing is ignored.
    Tensors are read one by one, so at most one is held twice. Raises CheckpointError where the file cannot be
    read, or names or shapes do not fit `config` (the released model by default); all misfits are named.
    """
    path = find_weights(str(path))
    with torch.device("meta"):
        model = PersonaPlexLM(config)
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            entries = {
                name: _Entry(tuple(file.get_slice(name).get_shape()), _reader(file, name))
                for name in file.keys()  # noqa: SIM118 (not a dict)
            }
            dtypes = Counter(str(file.get_slice(name).get_dtype()) for name in entries)
            entries = _fit(_join_split(entries), wanted)
            _refuse_misfits(entries, wanted, path)
            state = {name: entries[name].read().to(device=device, dtype=dtype) for name in wanted}
    except SafetensorError as error:
        raise CheckpointError(
            f"not a readable safetensors file: {error}", where=str(path), next_step="Download it again."
        ) from error
    for line in _told(entries.values(), dtypes, dtype):
        note(line)
    model.load_state_dict(state, strict=True, assign=True)
    return model.freeze().eval()


def _told(entries: Iterable[_Entry], dtypes: Counter[str], dtype: torch.dtype) -> list[str]:
    """What the model's owner should know of a load."""
    made = Counter(entry.made for entry in entries)
    lines = []
    if made.total() > made[""]:
        lines.append(
            f"the weights have fewer depth positions than the model: {counted(made['copied'], 'tensor')} copied from the "
            f"position {CODEBOOKS} before, {made['repeated']} of attention repeated, {made['zeros']} of zeros"
        )
    wanted = str(dtype).removeprefix("torch.")
    cast_ = [(name, count) for name, count in sorted(dtypes.items()) if _DTYPES.get(name) != dtype]
    return lines + [f"{counted(count, 'tensor')} cast from {name} to {wanted}" for name, count in cast_]


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
        joined[name] = _Entry((rows, slices[0].shape[1]), _concatenation(slices))
    return joined


def _fit(entries: dict[str, _Entry], wanted: Mapping[str, tuple[int, ...]]) -> dict[str, _Entry]:
    """Expand depth positions where the file has fewer than wanted."""
    entries = dict(entries)
    for name, shape in wanted.items():
        have = entries.get(name)
        if have is not None:
            if _PACKED_ATTENTION.match(name) and (2 * have.shape[0], *have.shape[1:]) == shape:
                entries[name] = _Entry(shape, _concatenation([have, have]), "repeated")
            continue
        if found := _POSITION.match(name):
            head, position, tail = found.groups()
            source = f"{head}{int(position) - CODEBOOKS}{tail}"
            if int(position) >= CODEBOOKS and source in entries:
                entries[name] = _Entry(entries[source].shape, _concatenation([entries[source]]), "copied")
            elif head == "depformer_emb." and int(position) == CODEBOOKS - 1:
                # An 8-position model never feeds its last code on, so this table has no source; a zero table
                # gives position 8 its projection alone, as if the code before were no input.
                entries[name] = _Entry(shape, functools.partial(torch.zeros, shape), "zeros")
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
