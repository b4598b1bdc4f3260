"""Models that widen the band of telephone speech: an installed one by its name, or any function from samples to samples.

8 kHz speech is given the band that a codec expects by a model, not by interpolation (seeds/002, stage 4).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module, reload
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Final, Protocol, cast

import numpy as np

from inkplex_data.audio.files.decoders import Samples
from inkplex_data.errors import ConfigError, UsageError

RESAMPLE: Final = "resample"
ENTRY_POINTS: Final = "inkplex_data.bandwidth"


class BandwidthExtension(Protocol):
    """A model that gives band-limited speech the band it lacks. `identity` names it and its weights in the store.

    The recipe key `audio.bandwidth` names it by an entry point of the group `inkplex_data.bandwidth`, which makes
    it when called without arguments. `MODULE:FUNCTION` and `FILE.py:FUNCTION` name a plain function instead
    (`WidenedBy`).
    """

    identity: str

    def extend(self, chunks: Iterable[Samples], *, band_hz: int) -> Iterator[Samples]:
        """24 kHz float32 chunks [n] in, as many samples in all out; what lies under `band_hz` should stay."""
        ...


@dataclass
class WidenedBy:
    """A function as an extension: float32 [n] at 24 kHz, the whole of a side, to as many samples."""

    function: Callable[[Samples], Samples]
    identity: str

    def extend(self, chunks: Iterable[Samples], *, band_hz: int) -> Iterator[Samples]:
        """Raises UsageError where the function gives anything but as many finite samples."""
        given = np.concatenate([np.zeros(0, np.float32), *chunks])
        found = np.asarray(self.function(given), np.float32)
        if found.shape != given.shape or not np.isfinite(found).all():
            wrong = (
                "samples that are not finite" if found.shape == given.shape else f"shape {list(found.shape)}"
            )
            raise UsageError(
                f"made {wrong} of float32 {list(given.shape)}",
                where=f"audio.bandwidth: {self.identity}",
                next_step="Return one float sample at 24 kHz for each that is given.",
            )
        yield found


def source_of(name: str) -> Path | None:
    """The source file of `MODULE:FUNCTION` or `FILE.py:FUNCTION`; None for a name that is neither.

    Raises ConfigError where there is no such module or file.
    """
    where, colon, _ = name.rpartition(":")
    if not colon:
        return None
    path = Path(where)
    if not path.is_file():
        try:
            found = find_spec(where)
        except (ImportError, ValueError):
            found = None
        path = Path((found.origin if found is not None else None) or where)
    if not path.is_file():
        raise ConfigError(
            f"there is no module or file {where!r}",
            where="audio.bandwidth",
            next_step="Install the module, put its folder into PYTHONPATH, or name a file: FILE.py:FUNCTION.",
        )
    return path


def bandwidth_extension(name: str) -> BandwidthExtension | None:
    """The extension called `name`; None for "resample", which leaves sound as it is.

    Raises ConfigError for a name that nothing installed has, and for a function that cannot be imported.
    """
    if name == RESAMPLE:
        return None
    if (path := source_of(name)) is not None:
        where, _, function = name.rpartition(":")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        return WidenedBy(_imported(path, where, function), f"{Path(where).name}:{function}@{digest}")
    known = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in known:
        raise ConfigError(
            f"there is no bandwidth extension {name!r}",
            where="audio.bandwidth",
            next_step=f"Name one of {', '.join([RESAMPLE, *sorted(known)])}, or a function as MODULE:FUNCTION.",
        )
    made: BandwidthExtension = known[name].load()()
    return made


def _imported(path: Path, where: str, function: str) -> Callable[[Samples], Samples]:
    try:
        if Path(where) == path:
            spec = spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None:
                raise ImportError("it is no Python file")
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            # Asked for again only where its source has changed (`tools.bandwidth`).
            module = reload(sys.modules[where]) if where in sys.modules else import_module(where)
        found = getattr(module, function)
    # Whatever a module of the user's does while it is imported, the recipe's key is what to look at.
    except Exception as error:
        raise ConfigError(
            f"{function!r} cannot be imported from {where!r}: {type(error).__name__}: {error}",
            where="audio.bandwidth",
            next_step="Mend the module, or name another function.",
        ) from error
    if not callable(found):
        raise ConfigError(
            f"{function!r} in {where!r} is not a function",
            where="audio.bandwidth",
            next_step="Name a function from samples to samples.",
        )
    return cast(Callable[[Samples], Samples], found)
