"""A made store for the trainer's tests: calls whose first word is the result that a tool returned.

No codec and no reasoning model: codes are noise around few values, and the state of the token that holds the
result points in the direction of that result. Everything else is as a build writes it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import torch

from inkplex_data.corpus.recordings.states_identity import StatesIdentity
from inkplex_data.grid import EPAD, MASK_ALL, PAD, TAG_EPAD, TAG_FIRST, TAG_LATER, TAG_PREFIX
from inkplex_data.memory.tables import TOKENS
from inkplex_data.memory.versions import SessionClock, build_versions
from inkplex_data.store.describe import write_description, write_pieces
from inkplex_data.store.format import WORDS
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.shard import CallPart, CallShardWriter, PrefixShardWriter, RecordingShardWriter
from tests.store.made import table

WIDTH = 8
PIECES = 32
PREFIX_FRAMES = 5
FRAMES = 18
RESPONSE = 13
RESULTS = ("red", "green", "blue", "gold")
STARTS_US = 1_000_000
RESULT_US = STARTS_US + 700_000
PIECE_LIST = ["<unk>", "<s>", "</s>", "<pad>", *(f"▁{word}" for word in RESULTS), "▁it", "▁is", "s", "."]


def result_of(number: int) -> int:
    return number % len(RESULTS)


def _tokens(result: int) -> pl.DataFrame:
    """Four tokens of setup and question, the result while the call runs, and a reply after it."""
    arrivals = [0, 0, STARTS_US, STARTS_US, RESULT_US, RESULT_US + 400_000]
    spelled = [b"You", b" answer", b" Which", b" one", f" {RESULTS[result]}".encode(), b" said"]
    return table(
        TOKENS,
        len(arrivals),
        row=range(len(arrivals)),
        call=[0, 0, 0, 0, 1, 1],
        position=[0, 1, 2, 3, 4, 5],
        token_id=range(len(arrivals)),
        kind=["setup", "setup", "user", "user", "tool_result", "reply"],
        bytes=spelled,
        special=[False] * len(arrivals),
        arrival_us=arrivals,
        rank=range(len(arrivals)),
        piece_ids=[[8], [9], [8], [9], [4 + result], [9]],
    )


def _states(number: int, *, finite: bool = True) -> np.ndarray:
    """uint16 [6, 3, D]: small noise, and the result's direction in the row of its token."""
    draw = np.random.default_rng(number)
    states = draw.normal(0, 0.3, (6, 3, WIDTH)).astype(np.float32)
    states[4, :, result_of(number)] += 4.0 if finite else np.nan
    return torch.from_numpy(states).bfloat16().view(torch.uint16).numpy()


def _part(number: int, split: str, partner: str | None, tokens: pl.DataFrame) -> CallPart:
    draw = np.random.default_rng([number, 1])
    text, role = np.full(FRAMES, PAD, np.int32), np.zeros(FRAMES, np.uint8)
    text[RESPONSE - 1], role[RESPONSE - 1] = EPAD, TAG_EPAD
    text[RESPONSE], role[RESPONSE] = 4 + result_of(number), TAG_FIRST
    text[RESPONSE + 1], role[RESPONSE + 1] = 10, TAG_LATER
    # Two words: the caller's question, and the answer.
    words = table(
        WORDS,
        2,
        word_ix=[0, 1],
        text=["Which?", RESULTS[result_of(number)]],
        start_us=[400_000, RESPONSE * 80_000],
        end_us=[800_000, RESPONSE * 80_000 + 160_000],
        speaker=["SPEAKER_CALLER", "SPEAKER_MAIN"],
        frame=[-1, RESPONSE],
        pieces=[[8], [4 + result_of(number), 10]],
        placed=[0, 2],
        method=["made", "made"],
    )
    return CallPart(
        row={
            "call_id": f"call-{number:03}",
            "call_ix": number,
            "split": split,
            "family": f"family-{number:03}",
            "audio_sha256": f"audio-{number}",
            "samples": FRAMES * 1920,
            "duration_us": FRAMES * 80_000,
            "recording_id": f"task-{number:03}",
            "recording_starts_at_us": STARTS_US,
            "prefix_id": "p0",
            "wrong_memory_of": partner,
            "response_start_frame": RESPONSE,
            "agent_origin": ["recorded", "synthetic"][number % 2],
            "decisions": ["speak"],
        },
        streams={
            "codes": draw.integers(0, 6, (FRAMES, 16)).astype(np.uint16),
            "text": text,
            "role": role,
            "mask": np.full(FRAMES, MASK_ALL, np.uint8),
            "level": np.full((FRAMES, 2), -60, np.int8),
        },
        words=words,
        versions=build_versions(tokens, SessionClock(STARTS_US, 0, FRAMES)),
        problems=[],
    )


def add_tasks(
    root: Path,
    shard: int,
    numbers: range,
    split: str,
    states: StatesIdentity | None = None,
    not_finite: int | None = None,
) -> None:
    """One shard of calls and one of recordings; the partner of a call is the next one, of another result.

    not_finite: a call whose states have values that are no numbers."""
    tokens = {number: _tokens(result_of(number)) for number in numbers}
    with RecordingShardWriter(str(root), shard) as recordings:
        for number in numbers:
            row = {"recording_id": f"task-{number:03}", "state_width": WIDTH, "states": "imported"}
            recordings.begin(row | ({} if states is None else {"states_identity": states.model_dump_json()}))
            recordings.append_states(_states(number, finite=number != not_finite))
            recordings.end(tokens[number])
        recordings.publish()
    with CallShardWriter(str(root), shard) as calls:
        for number in numbers:
            following = numbers.start + (number + 1 - numbers.start) % len(numbers)
            partner = None if split == "train" else f"call-{following:03}"
            calls.add(_part(number, split, partner, tokens[number]))
        calls.publish()


def bad_task_store(root: Path) -> Path:
    """Eight calls to train on, `call-020` whose states are damaged, and `call-022` whose states are no numbers."""
    make_task_store(root, train=8, validation=3)
    add_tasks(root, 2, range(20, 21), "train")
    add_tasks(root, 3, range(22, 23), "train", not_finite=22)
    publish_snapshot(str(root), refused=[])
    states = root / "recordings" / "000002" / "arrays.zarr" / "states" / "c" / "0" / "0" / "0"
    data = bytearray(states.read_bytes())
    data[100] ^= 1
    states.write_bytes(data)
    return root


def add_twins(root: Path, shard: int, first: int) -> tuple[str, str]:
    """A validation call and its twin in one family: the same until another result arrives."""
    with RecordingShardWriter(str(root), shard) as recordings:
        for number, parent in ((first, None), (first + 1, f"task-{first:03}")):
            row = {"recording_id": f"task-{number:03}", "state_width": WIDTH, "states": "imported"}
            recordings.begin({**row, "branch_of": parent, "branch_at_us": RESULT_US if parent else None})
            recordings.append_states(_states(number))
            recordings.end(_tokens(result_of(number)))
        recordings.publish()
    with CallShardWriter(str(root), shard) as calls:
        for number in (first, first + 1):
            part = _part(number, "validation", None, _tokens(result_of(number)))
            part.row["family"] = f"family-{first:03}"
            calls.add(part)
        calls.publish()
    publish_snapshot(str(root), refused=[])
    return f"call-{first:03}", f"call-{first + 1:03}"


def make_task_store(
    root: Path,
    *,
    train: int = 8,
    validation: int = 5,
    codec_sha256: str = "c0dec",
    states: StatesIdentity | None = None,
) -> Path:
    """A published store with `train` and `validation` calls, each of its own family and recording. `states`: whose."""
    root.mkdir(parents=True, exist_ok=True)
    write_description(
        str(root),
        {
            "configuration": {"memory": {"window": 40_000}},
            "codec": {"id": "untrained:0", "sha256": codec_sha256, "untrained": True},
            "tokenizer": {"name": "made", "sha256": "70c", "pieces": PIECES},
        },
    )
    write_pieces(str(root), PIECE_LIST + [f"x{i}" for i in range(PIECES - len(PIECE_LIST))])
    with PrefixShardWriter(str(root), 0) as prefixes:
        prefixes.add(
            {"prefix_id": "p0", "voice": None, "role": None, "split": None},
            {
                "codes": np.random.default_rng(7).integers(0, 6, (PREFIX_FRAMES, 16)).astype(np.uint16),
                "text": np.full(PREFIX_FRAMES, PAD, np.int32),
                "role": np.full(PREFIX_FRAMES, TAG_PREFIX, np.uint8),
            },
        )
        prefixes.publish()
    add_tasks(root, 0, range(train), "train", states)
    add_tasks(root, 1, range(train, train + validation), "validation", states)
    publish_snapshot(str(root), refused=[])
    return root
