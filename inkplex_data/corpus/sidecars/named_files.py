"""The small files that a sidecar names, with their digests: source references, the voice prompt, audio to teach.

(Its waveform is the call's own, and states belong to the recording.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from inkplex_data.corpus.paths import Paths
from inkplex_data.corpus.sidecars.sidecar_models import FileReference, Sidecar
from inkplex_data.faults import FaultError


def named_files(sidecar: Sidecar) -> list[FileReference]:
    """Each of them, in the order of the sidecar."""
    found = list(sidecar.identity.references)
    if sidecar.prompt is not None and sidecar.prompt.voice_prompt is not None:
        found.append(sidecar.prompt.voice_prompt)
    targets = sidecar.targets.items if sidecar.targets is not None else ()
    return found + [target.audio for target in targets if target.audio is not None]


def find_files(sidecar: Sidecar, folder: Path, paths: Paths) -> tuple[Path | None, ...]:
    """Where they lie; None for one that is not in the corpus, which nobody goes looking for. `folder`: the sidecar's,
    which their paths are relative to."""
    beside = replace(paths, folder=folder)

    def find(spelled: str) -> Path | None:
        try:
            return beside.file(spelled)
        except FaultError:
            return None

    return tuple(find(reference.path) for reference in named_files(sidecar))


def differing_files(
    references: Sequence[FileReference], digests: Sequence[str | None]
) -> tuple[list[str], list[str]]:
    """Paths of files that are not what their sha256 says, and of those that are not there to be compared.

    `digests`: what each has, None where it was not found.
    """
    pairs = list(zip(references, digests, strict=True))
    return (
        [one.path for one, found in pairs if found is not None and one.sha256 not in (None, found)],
        [one.path for one, found in pairs if found is None],
    )
