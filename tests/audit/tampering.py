"""A hundred ways in which a buggy writer falsifies a store, and what finds each: docs/reference/tampering.md."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

import inkplex_data as ink
from inkplex_data.grid import EPAD, MASK_ALL, PAD
from inkplex_data.memory.tables import VERSIONS
from inkplex_data.memory.versions import SessionClock, build_versions
from tests.audit.made import Bench
from tests.pipeline.memory_made import WINDOW

Tamper = Callable[[Bench], None]
Change = Callable[[pl.DataFrame], pl.DataFrame]

CALL, TWIN, RECORDING, SPEAKING = "late", "paid", "late-0000", "amy-0"
IN_CALL, FIRST_OF_TOKEN = pl.col("start") > 0, pl.col("row") != pl.col("row").shift(1)
ARRIVAL, PIECES = pl.col("arrival_us"), pl.col("piece_ids")


def where(condition: pl.Expr, **columns: Any) -> Change:
    """Set columns in the first row for which `condition` holds."""
    first = condition & (condition.cast(pl.Int32).cum_sum() == 1)

    def change(table: pl.DataFrame) -> pl.DataFrame:
        values = {
            name: value if isinstance(value, pl.Expr) else pl.lit(value) for name, value in columns.items()
        }
        return table.with_columns(
            pl.when(first).then(value.cast(table.schema[name])).otherwise(pl.col(name)).alias(name)
            for name, value in values.items()
        )

    return change


def all_rows(**columns: Any) -> Change:
    return lambda table: table.with_columns(
        (value if isinstance(value, pl.Expr) else pl.lit(value)).cast(table.schema[name]).alias(name)
        for name, value in columns.items()
    )


def _own(table: pl.DataFrame, own: pl.Expr, change: Change) -> pl.DataFrame:
    """`change` done to the rows that are `own`, which lie together."""
    mine = table.with_row_index("at").filter(own)
    if not mine.height:
        return table
    first, stop = mine["at"][0], mine["at"][-1] + 1
    return pl.concat([table[:first], change(table[first:stop]), table[stop:]])


def versions(change: Change, call_id: str = CALL) -> Tamper:
    return lambda bench: bench.change_table(
        "versions", lambda table: _own(table, pl.col("call_ix") == bench.calls[call_id]["call_ix"], change)
    )


def words(change: Change, call_id: str = SPEAKING) -> Tamper:
    return lambda bench: bench.change_table(
        "words", lambda table: _own(table, pl.col("call_ix") == bench.calls[call_id]["call_ix"], change)
    )


def tokens(change: Change, recording: str = RECORDING) -> Tamper:
    return lambda bench: bench.change_table(
        "tokens",
        lambda table: _own(
            table, pl.col("recording_ix") == bench.recordings[recording]["recording_ix"], change
        ),
    )


def call(call_id: str = CALL, **columns: Any) -> Tamper:
    return lambda bench: bench.change_table("calls", where(pl.col("call_id") == call_id, **columns))


def recording(**columns: Any) -> Tamper:
    return lambda bench: bench.change_table(
        "recordings", where(pl.col("recording_id") == RECORDING, **columns)
    )


def prefixes(**columns: Any) -> Tamper:
    return lambda bench: bench.change_table("prefixes", where(pl.col("role").is_not_null(), **columns))


def sidecar(change: Callable[[dict[str, Any]], Any]) -> Tamper:
    def run(bench: Bench) -> None:
        document = json.loads(bench.calls[CALL]["sidecar"])
        change(document)
        call(sidecar=json.dumps(document))(bench)

    return run


def both(*tampers: Tamper) -> Tamper:
    def run(bench: Bench) -> None:
        for tamper in tampers:
            tamper(bench)

    return run


def stream(name: str, change: Callable[[np.ndarray], Any], call_id: str = SPEAKING) -> Tamper:
    return lambda bench: bench.stream(call_id, name, change)


def states(change: Callable[[np.ndarray], Any], of: str = RECORDING) -> Tamper:
    return lambda bench: bench.states(of, change)


def prefix(name: str, change: Callable[[np.ndarray], Any]) -> Tamper:
    return lambda bench: bench.prefix(SPEAKING, name, change)


def put(at: Any, value: Any) -> Callable[[np.ndarray], None]:
    return lambda array: array.__setitem__(at, value)


def moved(array: np.ndarray) -> np.ndarray:
    return np.roll(array, 1, axis=0)


def _rebuilt(bench: Bench, change: Change, *, shift_us: int = 0) -> None:
    """Change the recording's tokens, and build the versions of its call from what they are then."""
    tokens(change)(bench)
    row, recorded = bench.calls[CALL], bench.recordings[RECORDING]
    table = pl.read_parquet(bench.root / f"recordings/{recorded['shard']:06d}/tokens.parquet")
    own = table.filter(pl.col("recording_ix") == recorded["recording_ix"])
    clock = SessionClock(row["recording_starts_at_us"] + shift_us, 0, row["frames"])
    made = build_versions(own, clock, window=WINDOW)
    _with_versions(bench, made)


def _with_versions(bench: Bench, made: pl.DataFrame) -> None:
    row = bench.calls[CALL]
    before = row["versions"]
    given = (
        made.with_columns(call_ix=pl.lit(row["call_ix"], pl.Int64))
        .select(list(VERSIONS))
        .cast(dict(VERSIONS))
    )
    versions(lambda table: given)(bench)
    later = (pl.col("shard") == row["shard"]) & (pl.col("version_offset") > row["version_offset"])
    bench.change_table(
        "calls",
        lambda table: table.with_columns(
            versions=pl.when(pl.col("call_id") == CALL).then(len(given)).otherwise("versions"),
            version_offset=pl.when(later)
            .then(pl.col("version_offset") + len(given) - before)
            .otherwise("version_offset"),
        ).cast(table.schema),
    )


def _started_late(bench: Bench) -> None:
    """The call begins a frame later on the session clock, and its versions fit that."""
    call(recording_starts_at_us=pl.col("recording_starts_at_us") + 80_000)(bench)
    sidecar_of = json.loads(bench.calls[CALL]["sidecar"])
    sidecar_of["private_updates"]["mapping"]["recording_starts_at_s"] += 0.08
    call(sidecar=json.dumps(sidecar_of))(bench)
    _rebuilt(bench, lambda table: table, shift_us=80_000)


def _exchanged_pieces(table: pl.DataFrame) -> pl.DataFrame:
    """Two tokens with different pieces have each other's."""
    lists = table["piece_ids"].to_list()
    full = [at for at, ids in enumerate(lists) if ids]
    one = full[2]
    other = next(at for at in full[3:] if lists[at] != lists[one])
    lists[one], lists[other] = lists[other], lists[one]
    return table.with_columns(pl.Series("piece_ids", lists, table.schema["piece_ids"]))


def _from_later_word(table: pl.DataFrame) -> pl.DataFrame:
    lists = table["piece_ids"].to_list()
    full = [at for at, ids in enumerate(lists) if ids]
    at = next(at for at, later in itertools.pairwise(full) if lists[at] != lists[later])
    lists[at] = lists[full[full.index(at) + 1]]
    return table.with_columns(pl.Series("piece_ids", lists, table.schema["piece_ids"]))


def _bytes_and_pieces(table: pl.DataFrame) -> pl.DataFrame:
    """A token has bytes and pieces of another: they fit each other."""
    rows = table.with_row_index("at").filter(
        pl.col("word_ix").is_not_null(), pl.col("bytes").bin.starts_with(b" ")
    )
    one, other = (
        rows["at"][0],
        next(at for at, b in rows.select("at", "bytes").rows() if b != rows["bytes"][0]),
    )
    borrowed = table.row(other, named=True)
    here = pl.col("row") == table["row"][one]
    return table.with_columns(
        pl.when(here).then(pl.lit(borrowed[name], table.schema[name])).otherwise(pl.col(name)).alias(name)
        for name in ("bytes", "piece_ids")
    )


def _two_rows_exchanged(table: pl.DataFrame) -> pl.DataFrame:
    """Ids, bytes, kinds and pieces of two neighbours, in each other's place."""
    names = ["token_id", "bytes", "kind", "special", "piece_ids", "word_ix"]
    order = [1, 0, *range(2, len(table))]
    return table.with_columns(table[name][order].alias(name) for name in names)


def _of_another_call(bench: Bench) -> None:
    """The versions of a call over the same recording that begins later."""
    other = bench.calls["again-1"]
    table = pl.read_parquet(bench.root / f"calls/{other['shard']:06d}/versions.parquet")
    own = table.filter(pl.col("call_ix") == other["call_ix"]).drop("call_ix")
    _with_versions(bench, own)


def _words_of_another(bench: Bench) -> None:
    """The words table is that of another call, which says the same later: frames of the one, words of the other."""
    words(lambda table: table.with_columns(frame=pl.col("frame") + 1))(bench)


def _swapped_halves(codes: np.ndarray) -> np.ndarray:
    return np.concatenate([codes[:, 8:], codes[:, :8]], axis=1)


def _codes_of_another(bench: Bench) -> None:
    row = bench.calls["amy-1"]
    taken: list[np.ndarray] = []
    with_frames = row["frames"]

    def note(codes: np.ndarray) -> np.ndarray:
        taken.append(codes[row["frame_offset"] : row["frame_offset"] + with_frames].copy())
        own = bench.calls[SPEAKING]
        assert own["shard"] == row["shard"]
        codes[own["frame_offset"] : own["frame_offset"] + with_frames] = taken[0]
        return codes

    bench.change_array(f"calls/{row['shard']:06d}/codes", note)


def _another_word(bench: Bench) -> None:
    """A word's text, pieces and frames are those of another word: all fit each other."""
    row = bench.calls[SPEAKING]
    table = pl.read_parquet(bench.root / f"calls/{row['shard']:06d}/words.parquet")
    own = table.filter(pl.col("call_ix") == row["call_ix"])
    spoken = own.filter(pl.col("placed") > 0)
    one = spoken.row(0, named=True)
    other = next(
        word
        for word in spoken.iter_rows(named=True)
        if word["text"] != one["text"] and len(word["pieces"]) == len(one["pieces"]) == one["placed"]
    )
    words(where(pl.col("word_ix") == one["word_ix"], text=other["text"], pieces=pl.lit(other["pieces"])))(
        bench
    )
    frames = slice(one["frame"], one["frame"] + one["placed"])
    stream("text", put(frames, other["pieces"]))(bench)


def _rolled_text(bench: Bench) -> None:
    for name in ("text", "role"):
        stream(name, moved)(bench)


def _first_piece(change: Callable[[np.ndarray, int], Any]) -> Callable[[np.ndarray], Any]:
    return lambda text: change(text, int(np.flatnonzero((text != PAD) & (text != EPAD))[0]))


def _other_states(array: np.ndarray) -> np.ndarray:
    """What another model would give: as large, and nothing in common."""
    random = np.random.default_rng(1)
    shuffled = array.copy().reshape(-1)
    random.shuffle(shuffled)
    return shuffled.reshape(array.shape)


def _with_new_digests(tamper: Tamper, *of: str) -> Tamper:
    """States that were wrong when they were made, so that there is no digest of the right ones."""
    lost = pl.when(pl.col("recording_id").is_in(of)).then(None).otherwise("state_digests")
    return both(
        tamper,
        lambda bench: bench.change_table(
            "recordings", lambda table: table.with_columns(state_digests=lost).cast(table.schema)
        ),
    )


def _made_wrong(change: Callable[[np.ndarray], Any]) -> Tamper:
    """The states of both twins are wrong in the same way."""
    twins = (RECORDING, "paid-0000")
    return _with_new_digests(both(*(states(change, of) for of in twins)), *twins)


def _update(index: int, **values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda document: document["private_updates"]["updates"][index].update(values)


MEMORY: dict[str, Tamper] = {
    "a token is seen a step before it arrives": versions(where(IN_CALL & FIRST_OF_TOKEN, start=pl.col("start") - 1)),
    "a token is seen after it left the window": versions(
        where((pl.col("end") < 6) & (pl.col("row") != pl.col("row").shift(-1)), end=pl.col("end") + 1)
    ),
    "a live token is not seen": versions(where(IN_CALL & (pl.col("end") - pl.col("start") > 1), start=pl.col("start") + 1)),
    "a token is seen twice": versions(lambda t: pl.concat([t.head(1), t.head(len(t) - 1)])),
    "another recency": versions(where(IN_CALL, recency=pl.col("recency") + 1)),
    "another age": versions(where(IN_CALL, age=pl.col("age") + 1)),
    "words are whole too early": versions(where(~pl.col("whole"), whole=True)),
    "versions name the next token": versions(all_rows(row=pl.col("row") + 1)),
    "a version is lost": lambda bench: _with_versions(bench, _versions(bench).tail(-1)),
    "the versions of another call": _of_another_call,
    "the call begins a frame later": call(recording_starts_at_us=pl.col("recording_starts_at_us") + 80_000),
    "the call begins a frame later, and versions fit it": _started_late,
    "the call reads another recording": call(recording_id="dialogues-101"),
    "the call reads its twin's recording": call(recording_id="paid-0000"),
    "the recording is lost to the call": call(recording_id=None),
    "one token arrives earlier": tokens(where(pl.col("position") > 3, arrival_us=ARRIVAL - 10**6)),
    "all tokens arrive 40 ms later, and versions fit it": lambda bench: _rebuilt(
        bench, all_rows(arrival_us=ARRIVAL + 40_000)
    ),
    "another place in the order of arrival": tokens(where(pl.lit(True), rank=pl.col("rank") + 1)),
    "another word number": tokens(where(pl.col("word_ix") == 3, word_ix=2)),
    "a request's positions one on": tokens(
        lambda t: t.with_columns(position=pl.col("position") + (pl.col("call") == t["call"].max()).cast(pl.Int32))
    ),
    "requests are numbered otherwise": tokens(
        lambda t: t.with_columns(call=pl.col("call") + (pl.col("call") == t["call"].max()).cast(pl.Int32))
    ),
    "the prefix chain is another recording's": lambda bench: recording(
        requests=bench.recordings["dialogues-101"]["requests"]
    )(bench),
    "another token id": tokens(where(pl.col("bytes").bin.starts_with(b" "), token_id=7)),
    "another kind": tokens(where(pl.col("kind") == "thinking", kind="reply")),
    "a token turns special": tokens(where(pl.col("word_ix") == 3, special=True)),
    "a token has other bytes": tokens(where(pl.col("word_ix") == 3, bytes=pl.lit(b" other"))),
    "a token has bytes and pieces of another": tokens(_bytes_and_pieces),
    "two tokens are exchanged": tokens(_two_rows_exchanged),
    "pieces of two tokens are exchanged": tokens(_exchanged_pieces),
    "pieces are shifted by a token": tokens(lambda t: t.with_columns(PIECES.shift(1, fill_value=[]))),
    "pieces are emptied": tokens(where(PIECES.list.len() > 0, piece_ids=pl.lit([], pl.List(pl.Int32)))),
    "pieces of a later word": tokens(_from_later_word),
    "pieces in another order": tokens(where(PIECES.list.len() > 1, piece_ids=PIECES.list.reverse())),
    "twins differ before their fork": tokens(where(pl.col("row") == 4, token_id=7), "paid-0000"),
    "another fork": lambda bench: bench.change_table(
        "recordings", where(pl.col("branch_of").is_not_null(), branch_at_us=pl.col("branch_at_us") + 3_000_000)
    ),
    "a twin is none": lambda bench: bench.change_table(
        "recordings", where(pl.col("branch_of").is_not_null(), branch_of=None, branch_at_us=None)
    ),
    "another reasoning model": recording(model="other"),
    "recorded times are called constructed": recording(times="recorded"),
    "a recording of other bytes": recording(content_sha256="0" * 64),
    "a partner without memory": call(wrong_memory_of="plain"),
    "a partner of the call's own family": call(wrong_memory_of="paid"),
}  # fmt: skip


def _versions(bench: Bench) -> pl.DataFrame:
    row = bench.calls[CALL]
    table = pl.read_parquet(bench.root / f"calls/{row['shard']:06d}/versions.parquet")
    return table.filter(pl.col("call_ix") == row["call_ix"]).drop("call_ix")


def _states_of_another(bench: Bench) -> None:
    """The twin's states in the place of the recording's own."""
    own, twin = (bench.recordings[name] for name in (RECORDING, "paid-0000"))
    with ink.open_store(bench.root) as store:
        first = twin["token_offset"]
        given = store.states(twin["shard"]).read_rows(first, first + min(own["tokens"], twin["tokens"]))
    states(put(slice(0, len(given)), given))(bench)


STATES: dict[str, Tamper] = {
    "a value is no number": states(put((3, 1, 5), 0x7FC0)),
    "a token's states are zero": states(put(5, 0)),
    "one row of a token is zero": states(put((5, 2), 0)),
    "states are shifted by a token": states(moved),
    "two tokens' states are exchanged": states(lambda s: s[[1, 0, *range(2, len(s))]]),
    "rows 28 and 34 are exchanged": states(lambda s: s[:, [1, 0, 2]]),
    "a value is rounded otherwise": states(lambda s: s ^ 1),
    "states of another recording": _states_of_another,
    "a token's states are those of another": _with_new_digests(
        states(lambda s: s[[0, 0, *range(2, len(s))]]), RECORDING
    ),
    "a twin's states are of another model": _with_new_digests(states(_other_states, "paid-0000"), "paid-0000"),
    "states were made by another model": _made_wrong(lambda s: s[..., ::-1]),
    "states were shifted when they were made": _made_wrong(moved),
}  # fmt: skip


FRAMES: dict[str, Tamper] = {
    "a code that is none": stream("codes", put((7, 3), 2048)),
    "agent and caller are exchanged": stream("codes", _swapped_halves),
    "agent and caller are exchanged, their levels too": both(
        stream("codes", _swapped_halves), stream("level", lambda level: level[:, ::-1])
    ),
    "codes are a frame late": stream("codes", moved),
    "codes of another call": _codes_of_another,
    "text and tags are a frame late": _rolled_text,
    "a piece is another": stream("text", _first_piece(lambda text, at: text.__setitem__(at, text[at] + 1))),
    "an EPAD is a PAD": stream("text", lambda text: text.__setitem__(int(np.flatnonzero(text == EPAD)[0]), PAD)),
    "a tag is another": stream("role", lambda role: role.__setitem__(int(np.flatnonzero(role == 2)[0]), 0)),
    "a later piece is tagged as a first": stream("role", lambda role: role.__setitem__(int(np.flatnonzero(role == 3)[0]), 2)),
    "an unknown bit of the mask": stream("mask", put(4, MASK_ALL | 64)),
    "no frame carries loss": stream("mask", put(slice(None), 0)),
    "levels of agent and caller are exchanged": stream("level", lambda level: level[:, ::-1]),
    "levels are lost": stream("level", put(slice(None), -120)),
    "words' onsets are all a frame late": _words_of_another,
    "a word has other pieces": words(where(pl.col("placed") > 0, pieces=pl.lit([70, 71], pl.List(pl.Int32)))),
    "a word is another, with its pieces and frames": _another_word,
    "a word has another text": words(where(pl.col("placed") > 0, text="other")),
    "a word's times are others": words(where(pl.col("placed") > 0, start_us=pl.col("start_us") + 5_000)),
    "a word is said to be lost": words(where(pl.col("placed") > 0, placed=0)),
}  # fmt: skip

PREFIX: dict[str, Tamper] = {
    "a piece of the role is another": prefix("text", _first_piece(lambda text, at: text.__setitem__(at, text[at] + 1))),
    "the prefix's text lies over its voice": prefix("text", put(1, 77)),
    "silence is something else": prefix("codes", put((25, slice(0, 8)), 5)),
    "the tone is something else": prefix("codes", put((4, slice(8, 16)), 5)),
    "agent and caller of the prefix are exchanged": prefix("codes", _swapped_halves),
    "the voice is another": prefix("codes", put((slice(0, 20), slice(0, 8)), 5)),
    "the role is another": prefixes(role="You are rude."),
    "the voice is shorter": prefixes(voice_frames=pl.col("voice_frames") - 1),
    "the prefix is another call's": lambda bench: call(SPEAKING, prefix_id=bench.calls[CALL]["prefix_id"])(bench),
    "the call has no prefix": call(SPEAKING, prefix_id=None),
}  # fmt: skip

SIDECAR: dict[str, Tamper] = {
    "the sidecar is lost": call(sidecar=None),
    "the sidecar of another call": lambda bench: call(sidecar=bench.calls[TWIN]["sidecar"])(bench),
    "the sidecar cannot be read": call(sidecar="{}"),
    "an update is available later": sidecar(_update(1, ready_at_s=9.0)),
    "an update's rows are one on": sidecar(lambda d: d["private_updates"]["updates"][1].update(rows=[r + 1 for r in d["private_updates"]["updates"][1]["rows"]])),
    "another clock": sidecar(lambda d: d["private_updates"]["mapping"].update(recording_starts_at_s=0.5)),
    "evidence comes later than its claim": sidecar(lambda d: d["evidence"]["items"][0].update(available_at_s=5)),
    "a claim comes before its evidence": sidecar(lambda d: d["evidence"]["claims"][0].update(start_s=-9.0)),
    "an update is permitted before it arrives": sidecar(lambda d: d["masks"]["permitted_updates"][0].update(start_s=-9.0)),
    "frames carry loss that the sidecar excludes": sidecar(
        lambda d: d["masks"].update(excluded=[{"modality": "text", "start_s": 0.0, "end_s": 0.3, "reason": "uncertain"}])
    ),
}  # fmt: skip

FORM: dict[str, Tamper] = {
    "more samples than frames": call(SPEAKING, samples=pl.col("samples") + 1920),
    "another share of PAD": call(SPEAKING, pad_fraction=0.5),
    "a split that is none": call(SPEAKING, split="dev"),
    "another family": call(SPEAKING, family="other"),
    "another role": call(SPEAKING, role="You are rude."),
    "another audio": call(SPEAKING, audio_sha256="0" * 64),
    "words that were dropped are not counted": call(SPEAKING, words_dropped=pl.col("words_dropped") + 3),
    "the words of the call before": call("amy-1", word_offset=pl.col("word_offset") - 1),
    "the frames of the call before": call("amy-1", frame_offset=pl.col("frame_offset") - 1),
}  # fmt: skip

GROUPS: dict[str, tuple[tuple[str, ...], dict[str, Tamper]]] = {
    "memory": ((CALL,), MEMORY),
    "states": ((CALL,), STATES),
    "frames and words": ((SPEAKING,), FRAMES),
    "prefix": ((SPEAKING, CALL), PREFIX),
    "sidecar": ((CALL,), SIDECAR),
    "rows and offsets": ((SPEAKING, "amy-1"), FORM),
}
"""What is tampered with → calls that tell of it, and how."""
