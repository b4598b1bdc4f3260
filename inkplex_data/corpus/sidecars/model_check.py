"""Whether the reasoning model that a sidecar names is the one whose states the call reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inkplex_data.corpus.recordings.states_identity import STREAMS, tokenizer_sha256
from inkplex_data.corpus.sidecars.sidecar_models import ReasoningModel, StatePart


@dataclass(frozen=True)
class ReadModel:
    """What a call reads: of its recording and, where it has states, of them. None: nothing is known of that.

    `model` is the one that the recording names, `states_model` the one that its states are of: of a stand-in, they
    are two, and a sidecar may name either. `dtype` is that of the files that bring states, `files` are their SHA-256.
    """

    model: str | None
    tokenizer: str | None
    tokens: int
    runtime_profile: str | None = None
    input_sha256: str | None = None
    width: int = 0
    dtype: str | None = None
    files: Sequence[str] = ()
    states_model: str | None = None


def model_faults(said: ReasoningModel, read: ReadModel) -> list[str]:
    """Every field of the sidecar's `reasoning_model` that differs from what is read, with both values."""
    pairs = [("model", said.model, read.model)] if said.model != read.states_model else []
    if said.tokenizer is not None and said.tokenizer != tokenizer_sha256(read.tokenizer):
        pairs.append(("tokenizer", said.tokenizer, read.tokenizer))
    for name in ("runtime_profile", "input_sha256"):
        if getattr(said, name) is not None:
            pairs.append((name, getattr(said, name), getattr(read, name)))
    faults = [
        f"{name} is {mine!r}, the recording's is {theirs!r}" for name, mine, theirs in pairs if mine != theirs
    ]
    return faults + (_part_faults(said.states, read) if said.states else [])


def _part_faults(parts: Sequence[StatePart], read: ReadModel) -> list[str]:
    faults = []
    for index, part in enumerate(parts):
        if tuple(part.streams) != STREAMS:
            faults.append(f"states/{index}/streams are {', '.join(part.streams)}, not {', '.join(STREAMS)}")
        if read.dtype is not None and part.dtype != read.dtype:
            faults.append(f"states/{index}/dtype is {part.dtype!r}, the file's is {read.dtype!r}")
        if part.shape[1:] != [len(STREAMS), read.width]:
            faults.append(f"states/{index}/shape is {part.shape}, not [n, {len(STREAMS)}, {read.width}]")
        if part.sha256 is not None and part.sha256 not in read.files:
            faults.append(f"states/{index}/sha256 is that of no file of the recording's states")
    rows = sum(part.shape[0] for part in parts if part.shape)
    if rows != read.tokens:
        faults.append(f"states have {rows} rows, the recording has {read.tokens} tokens")
    return faults
