"""Small stores with made content, for the tests of this folder."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from inkplex_data.grid import EPAD, PAD
from inkplex_data.memory.tables import TOKENS, VERSIONS
from inkplex_data.problems import Problem
from inkplex_data.store.describe import write_description, write_pieces
from inkplex_data.store.digests import digest_file
from inkplex_data.store.format import CLAIMS, EVIDENCE, WORDS
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.shard import CallPart, CallShardWriter, PrefixShardWriter, RecordingShardWriter

WIDTH = 8
PIECES = 400


def problem(call_id: str, code: str = "made-up", message: str = "a message") -> Problem:
    return Problem(call_id, "words", code, "info", "word 1", message)


def table(schema: dict[str, Any], rows: int, **columns: Any) -> pl.DataFrame:
    """`rows` rows of `schema`; columns that are not given are null."""
    given = {name: pl.Series(name, value, schema[name], strict=False) for name, value in columns.items()}
    return pl.DataFrame(
        [given.get(name, pl.Series(name, [None] * rows, dtype)) for name, dtype in schema.items()]
    )


def call_part(
    call_id: str, frames: int, *, words: int = 3, versions: int = 5, claims: int = 0, **row: Any
) -> CallPart:
    """One call with random content that its id and length determine."""
    rng = np.random.default_rng([*call_id.encode(), frames])
    start = rng.integers(0, max(frames - 1, 1), versions)
    return CallPart(
        row={
            "call_id": call_id,
            "split": "train",
            "family": f"family of {call_id}",
            "audio_sha256": f"audio of {call_id}",
            "samples": frames * 1920,
            "duration_us": frames * 80_000,
            **row,
        },
        streams={
            "codes": rng.integers(0, 2048, (frames, 16)).astype(np.uint16),
            "text": rng.choice(np.array([PAD, EPAD, 5, 17, PIECES - 1], np.int32), frames).astype(np.int32),
            "role": rng.integers(0, 4, frames).astype(np.uint8),
            "mask": rng.integers(0, 8, frames).astype(np.uint8),
            "level": rng.integers(-120, 1, (frames, 2)).astype(np.int8),
        },
        words=table(
            WORDS,
            words,
            word_ix=np.arange(words),
            text=[f"word{i}" for i in range(words)],
            start_us=np.arange(words) * 100_000,
            end_us=np.arange(words) * 100_000 + 50_000,
            frame=[-1, *range(1, words)][:words],
            pieces=[[i, i + 1] for i in range(words)],
        ),
        versions=table(
            VERSIONS,
            versions,
            row=np.arange(versions),
            start=start,
            end=start + 1,
            recency=rng.integers(0, 17, versions),
            age=rng.integers(0, 15, versions),
            whole=rng.integers(0, 2, versions).astype(bool),
        ),
        problems=[problem(call_id)],
        evidence=table(
            EVIDENCE,
            claims,
            evidence_id=[f"bill of {call_id}"] * claims,
            kind=["tool_result"] * claims,
            status=["succeeded"] * claims,
            available_us=[40_000] * claims,
            arrival_us=[40_000] * claims,
        ),
        claims=table(
            CLAIMS,
            claims,
            claim_ix=[0] * claims,
            text=[f"about {call_id}"] * claims,
            supported_by=[[f"bill of {call_id}"]] * claims,
            words=[[0]] * claims,
            targets=[[]] * claims,
        ),
    )


def token_table(tokens: int) -> pl.DataFrame:
    """Tokens of one request, one a second, in layout order."""
    return table(
        TOKENS,
        tokens,
        row=np.arange(tokens),
        call=[0] * tokens,
        position=np.arange(tokens),
        token_id=np.arange(tokens) + 7,
        kind=["user", "thinking"] * (tokens // 2) + ["reply"] * (tokens % 2),
        bytes=[b" word"] * tokens,
        special=[False] * tokens,
        arrival_us=np.arange(tokens) * 1_000_000,
        rank=np.arange(tokens),
        piece_ids=[[1, 2]] * tokens,
    )


@dataclass
class Made:
    """What was put into a made store."""

    root: str
    parts: dict[str, CallPart] = field(default_factory=dict)
    tokens: dict[str, pl.DataFrame] = field(default_factory=dict)
    states: dict[str, np.ndarray] = field(default_factory=dict)


def add_calls(made: Made, shard: int, parts: list[CallPart]) -> None:
    with CallShardWriter(made.root, shard) as writer:
        for part in parts:
            writer.add(part)
            made.parts[part.row["call_id"]] = part
        writer.publish()


def add_recordings(made: Made, shard: int, sizes: dict[str, int], *, width: int = WIDTH) -> None:
    with RecordingShardWriter(made.root, shard) as writer:
        for recording_id, tokens in sizes.items():
            states = np.random.default_rng(tokens).integers(0, 2**16, (tokens, 3, width), dtype=np.uint16)
            writer.begin({"recording_id": recording_id, "state_width": width})
            if width:
                for start in range(0, tokens, 50):
                    writer.append_states(states[start : start + 50])
                made.states[recording_id] = states
            made.tokens[recording_id] = token_table(tokens)
            writer.end(made.tokens[recording_id])
        writer.publish()


def add_prefixes(made: Made, shard: int = 0) -> None:
    with PrefixShardWriter(made.root, shard) as writer:
        for number, (voice, role, split) in enumerate(
            [
                ("anna", "clerk", "train"),
                ("ben", "clerk", "train"),
                ("ben", "clerk", "test"),
                (None, None, None),
            ]
        ):
            frames = 12 + number
            rng = np.random.default_rng(number)
            writer.add(
                {"prefix_id": f"p{number}", "voice": voice, "role": role, "split": split},
                {
                    "codes": rng.integers(0, 2048, (frames, 16)).astype(np.uint16),
                    "text": np.full(frames, PAD, np.int32),
                    "role": np.full(frames, 4, np.uint8),
                },
            )
        writer.publish()


def make_store(root: object, *, finished: bool = True) -> Made:
    """Two shards of calls with long, short and empty parts, two recordings, four prefixes, a snapshot."""
    made = Made(str(root))
    write_description(made.root, {"codec": {"id": "made"}})
    write_pieces(made.root, [f"▁piece{i}" for i in range(PIECES)])
    memory = {"recording_id": "task one", "recording_starts_at_us": 20_000_000, "prefix_id": "p0"}
    add_calls(
        made,
        0,
        [
            call_part("first", 3_000, **memory, wrong_memory_of="third/ünï, 1"),
            call_part("second", 2_500, words=0, versions=0),
        ],
    )
    add_calls(
        made,
        1,
        [
            call_part("third/ünï, 1", 40, recording_id="task two", recording_starts_at_us=0, prefix_id="p3"),
            call_part("fourth", 4_097, split="test", prefix_id="p1"),
        ],
    )
    add_recordings(made, 0, {"task one": 150, "task two": 71})
    add_prefixes(made)
    if finished:
        publish_snapshot(made.root, refused=[problem("lost", "unexpected", "it was refused")])
    return made


def publish_again(root: str, shard: str, name: str) -> None:
    """Make a file that was changed the published one: whoever writes a shard writes its digests too."""
    path = Path(root, shard, "shard.json")
    document = json.loads(path.read_text())
    document["files"][name] = vars(digest_file(Path(root, shard, name)))
    path.write_text(json.dumps(document))
    shutil.rmtree(Path(root, "snapshots"))
    Path(root, "newest.json").unlink()
    publish_snapshot(root)
