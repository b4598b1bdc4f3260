"""What every kind of checkpoint shares: ids, fields that must fit, checksums, and a readable `.meta.json` beside the tensors.

The contract is that of seeds/001, section 11. The tensors' own file holds all that a resume needs, so that one rename
publishes it. The sidecar repeats the machine's fields for people and holds `profile`, which is theirs: every save keeps
what they wrote. `checkpoint_id` stays for the life of a model; `revision_id` is new with each save.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crc32c

from inkplex_data.atomic import replacing
from inkplex_data.corpus.jsontext import parse_json
from inkplex_data.errors import CheckpointError
from inkplex_data.reading import read_bounded

if TYPE_CHECKING:
    from torch import Tensor

META_SUFFIX = ".meta.json"
EMPTY_PROFILE: Mapping[str, str] = {"name": "", "tagline": "", "art": "", "about": ""}
MAX_META_BYTES = 16 * 2**20
_AS_BEFORE = "Use the model, codec, tokenizer and store that it was trained with, or start a new run."

log = logging.getLogger(__name__)


def new_id() -> str:
    """For a checkpoint, or a revision of one."""
    return secrets.token_hex(16)


def meta_path(path: Path) -> Path:
    """The sidecar of a checkpoint: `run/update-000100.safetensors` has `run/update-000100.meta.json`."""
    return path.with_suffix(META_SUFFIX)


def write_sidecar(path: Path, fields: Mapping[str, Any], profile: dict[str, Any]) -> dict[str, Any]:
    """Write the sidecar of the checkpoint at `path`: the machine's `fields` and a profile, which it returns.

    The profile in an existing sidecar wins over the one given. Raises OutputError for a full disk.
    """
    profile = read_profile(path, profile, set_aside=True)
    text = json.dumps({**fields, "profile": profile}, indent=2, ensure_ascii=False) + "\n"
    with replacing(meta_path(path)) as file:
        file.write(text.encode())
    return profile


def read_profile(path: Path, otherwise: dict[str, Any], *, set_aside: bool = False) -> dict[str, Any]:
    """The profile in the sidecar of the checkpoint at `path` as people left it; `otherwise` where there is none.

    set_aside: rename a sidecar that is no JSON any more, before it is written anew, so that a slip of the
    editor costs nobody their words.
    """
    sidecar = meta_path(path)
    try:
        document = parse_json(read_bounded(sidecar, MAX_META_BYTES))
        profile = document["profile"]
        if not isinstance(profile, dict):
            raise ValueError("profile is not an object")
        return profile
    except FileNotFoundError:
        return otherwise
    except (ValueError, KeyError, TypeError) as error:
        log.warning("%s has no readable profile: %s", sidecar, error)
        aside = sidecar.with_name(f"{sidecar.name}.unreadable")
        if set_aside and not aside.exists():
            sidecar.replace(aside)
            log.warning("%s is kept as %s", sidecar, aside.name)
        return otherwise


def check_compatibility(
    saved: Mapping[str, Any], wanted: Mapping[str, Any], *, where: str = "", next_step: str = _AS_BEFORE
) -> None:
    """Raise CheckpointError naming each field of `wanted` that `saved` lacks or has otherwise."""
    # Through JSON, because that is how saved values were spelled: tuples are lists, keys are strings.
    here = json.loads(json.dumps(dict(wanted)))
    faults = [
        f"{name}: the checkpoint has {json.dumps(saved.get(name))}, this run has {json.dumps(value)}"
        for name, value in here.items()
        if saved.get(name) != value
    ]
    if faults:
        raise CheckpointError(
            "the checkpoint was made for something else:\n  - " + "\n  - ".join(faults),
            where=where or None,
            next_step=next_step,
        )


def tensor_checksum(value: Tensor) -> int:
    """CRC32C of a CPU tensor's bytes."""
    import torch

    return int(crc32c.crc32c(value.contiguous().flatten().view(torch.uint8).numpy().data))
