"""What a sidecar says of its call's waveform, compared with the files that the call has."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from inkplex_data.corpus.sidecars.sidecar_models import Audio


@dataclass(frozen=True)
class AudioFile:
    """An audio file of a call as it was decoded. `samples`: a channel's, at the file's own rate; `slack_samples`: by how
    much the counts of two decoders of such a file may differ."""

    name: str
    sha256: str | None
    sample_rate_hz: int
    samples: int
    slack_samples: int = 0


def audio_differences(audio: Audio, files: Sequence[AudioFile]) -> list[str]:
    """What of `audio` is not so, each as a clause about the sidecar; empty where all is.

    Of a call in two files `audio` describes the one that its `path` names, or either.
    """
    named = files
    if audio.path is not None:
        own = _composed(PurePath(audio.path).name)
        named = [file for file in files if _composed(file.name) == own]
        if not named:
            return [f"it is about {audio.path!r}, the audio is {' and '.join(repr(f.name) for f in files)}"]
    return min((_of_one(audio, file) for file in named), key=len)


def _of_one(audio: Audio, file: AudioFile) -> list[str]:
    found = []
    if audio.sha256 is not None and audio.sha256 != file.sha256:
        found.append(
            f"its sha256 {audio.sha256[:12]}… is not {(file.sha256 or '')[:12]}…, which {file.name!r} has"
        )
    if audio.sample_rate_hz is not None and audio.sample_rate_hz != file.sample_rate_hz:
        found.append(
            f"its {audio.sample_rate_hz:,} Hz are not the {file.sample_rate_hz:,} Hz of {file.name!r}"
        )
    elif audio.samples is not None and abs(audio.samples - file.samples) > file.slack_samples:
        found.append(f"its {audio.samples:,} samples are not the {file.samples:,} of {file.name!r}")
    return found


def _composed(name: str) -> str:
    """File systems and editors disagree on how accents are composed."""
    return unicodedata.normalize("NFC", name)
