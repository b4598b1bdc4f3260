"""Speaker turns, and RTTM files of them. Times are int64 microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np

from inkplex_data.atomic import replacing
from inkplex_data.audio.turns import Intervals
from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.transcripts import Content
from inkplex_data.corpus.transcripts.rttm import recordings, turns
from inkplex_data.errors import CorpusError
from inkplex_data.problems import refusal
from inkplex_data.reading import read_bounded


@dataclass(frozen=True, order=True)
class SpeakerTurn:
    """[start, end) in which `speaker` speaks. Turns of different speakers may overlap."""

    start_us: int
    end_us: int
    speaker: str


def read_rttm(path: Path, audio: str | None = None, *, only: bool = False) -> list[SpeakerTurn]:
    """Turns of one audio file in an RTTM file, sorted; empty ones are left out.

    That is the one called `audio` (its ending left out on both sides); without one, and unless `only` that one
    will do, the one that the file holds or that is named like it.
    Raises CallRefused (words-unreadable) where it has no such turns, or is not RTTM.
    """
    try:
        content = Content(path, read_bounded(path))
    except (OSError, CorpusError) as error:
        raise refusal("words-unreadable", str(error), path) from error
    known = recordings(content)
    wanted = "_".join((audio or "").split())
    own = [name for name in known if wanted in (name, PurePath(name).stem)] if wanted else []
    if not own and only:
        what = f"has no speaker turns of {wanted!r}, but of {', '.join(known[:5]) or 'nothing'}"
        raise refusal("words-unreadable", what, path)
    found = [
        SpeakerTurn(max(seconds_to_us(part.start_s), 0), seconds_to_us(part.end_s), part.speaker)
        for part in turns(content, own[0] if own else None)
    ]
    return sorted(turn for turn in found if turn.end_us > turn.start_us)


def rttm_text(turns: Iterable[SpeakerTurn], audio: str) -> str:
    """The lines of an RTTM file. A name's white space, which the format cannot hold, becomes `_`."""
    name = "_".join(audio.split()) or "recording"
    return "".join(
        f"SPEAKER {name} 1 {turn.start_us / 1e6:.6f} {(turn.end_us - turn.start_us) / 1e6:.6f} "
        f"<NA> <NA> {'_'.join(turn.speaker.split())} <NA> <NA>\n"
        for turn in sorted(turns)
    )


def write_rttm(path: Path, turns: Iterable[SpeakerTurn], audio: str) -> None:
    """Write an RTTM file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(rttm_text(turns, audio).encode())


def speakers(turns: Sequence[SpeakerTurn]) -> dict[str, int]:
    """Speaking time of each speaker, µs, in order of their first turn."""
    found: dict[str, int] = {}
    for turn in sorted(turns):
        found[turn.speaker] = found.get(turn.speaker, 0) + turn.end_us - turn.start_us
    return found


def intervals(turns: Iterable[SpeakerTurn], *, of: str | None = None, but: str | None = None) -> Intervals:
    """Union of the turns of one speaker, or of all but one: int64 [k, 2], sorted and disjoint."""
    chosen = sorted(
        (turn.start_us, turn.end_us)
        for turn in turns
        if (of is None or turn.speaker == of) and turn.speaker != but
    )
    merged: list[list[int]] = []
    for start, end in chosen:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return np.array(merged, np.int64).reshape(-1, 2)


def common(a: Intervals, b: Intervals) -> Intervals:
    """Where both of two sorted, disjoint sets of intervals hold."""
    out, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        low, high = max(a[i, 0], b[j, 0]), min(a[i, 1], b[j, 1])
        if high > low:
            out.append((low, high))
        if a[i, 1] <= b[j, 1]:
            i += 1
        else:
            j += 1
    return np.array(out, np.int64).reshape(-1, 2)
