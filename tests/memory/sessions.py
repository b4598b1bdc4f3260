"""Random sessions for the tests of the memory, and the rules written out step by step, without NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from hypothesis import strategies as st

from inkplex_data.memory.versions import SessionClock
from inkplex_data.memory.words import Words

SPELLINGS = [
    b"a",
    b" a",
    b" the",
    b"ing",
    b"x y z",
    b"\n",
    b" ",
    b"\t b ",
    b"",
    b"\xc3",
    b"\xa9",
    b"\xff",
    b"\xe2\x80\x83",
]
GAPS_US = [0, 0, 0, 1, 79_999, 80_000, 80_001, 400_000, 999_999, 1_000_000, 2_000_000, 3_000_000, 7_000_000]
BLANKS = b"\t\n\x0b\x0c\r "


@dataclass(frozen=True)
class Session:
    tokens: pl.DataFrame
    clock: SessionClock
    window: int


@st.composite
def token_tables(draw: st.DrawFn, max_calls: int = 4, max_tokens: int = 12) -> pl.DataFrame:
    """Overlapping calls with ties and bursts, in any order; every call has its own arrivals in order."""
    tokens = []
    for call in draw(st.lists(st.integers(0, 9), min_size=1, max_size=max_calls, unique=True)):
        arrival_us = draw(st.integers(0, 200)) * 80_000 + draw(st.sampled_from([0, 1, 79_999]))
        position = draw(st.integers(0, 5))
        for _ in range(draw(st.integers(1, max_tokens))):
            arrival_us += draw(st.sampled_from(GAPS_US))
            special = draw(st.integers(0, 9)) == 0
            media = not special and draw(st.integers(0, 9)) == 0
            tokens.append(
                {
                    "call": call,
                    "position": position,
                    "special": special,
                    "media": "audio" if media else None,
                    "bytes": b"<|x y|>" if special or media else draw(st.sampled_from(SPELLINGS)),
                    "arrival_us": arrival_us,
                }
            )
            position += 1
    schema = {
        "call": pl.Int32,
        "position": pl.Int32,
        "special": pl.Boolean,
        "media": pl.String,
        "bytes": pl.Binary,
        "arrival_us": pl.Int64,
    }
    return pl.DataFrame(draw(st.permutations(tokens)), schema=schema)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """A session whose steps often fall exactly on, or 1 µs beside, an arrival or the change of an age bucket."""
    tokens = draw(token_tables())
    arrival_us = draw(st.sampled_from(tokens["arrival_us"].to_list()))
    boundary_us = draw(st.sampled_from([0, 1, 3, 7, 15, 31])) * 1_000_000
    frames_before = draw(st.integers(0, 60))
    beside_us = draw(st.sampled_from([-1, 0, 0, 0, 1]))
    clock = SessionClock(
        recording_starts_at_us=arrival_us + boundary_us + beside_us - frames_before * 80_000,
        prefix_frames=draw(st.sampled_from([0, 0, 1, 7])),
        frames=draw(st.integers(0, 80)),
    )
    return Session(tokens, clock, draw(st.integers(1, 50)))


def spans(words: Words) -> list[tuple[int, int, int, int]]:
    """(word, row, first byte, end byte) of every token and word it touches."""
    columns = words.span_word, words.span_row, words.span_start, words.span_end
    return list(zip(*(column.tolist() for column in columns), strict=True))


def slow_words(tokens: list[dict]) -> list[dict]:
    """Words of tokens in layout order, byte by byte: call, text, rows {row: (start, end)}, completer."""
    words: list[dict] = []
    for call in sorted({token["call"] for token in tokens}):
        rows = [row for row, token in enumerate(tokens) if token["call"] == call]
        current = None
        for row in rows:
            token = tokens[row]
            if token["special"]:
                if current:
                    current["completer"] = row
                current = None
                continue
            for byte in b"" if token.get("media") else token["bytes"]:
                if byte in BLANKS:
                    if current:
                        current["completer"] = row
                    current = None
                    continue
                if current is None:
                    current = {"call": call, "text": b"", "rows": {}, "completer": rows[-1]}
                    words.append(current)
                start, _ = current["rows"].get(row, (len(current["text"]), 0))
                current["text"] += bytes([byte])
                current["rows"][row] = (start, len(current["text"]))
    return words


@dataclass(frozen=True)
class Update:
    """Rows [first, stop) that may be seen in `spans` of session µs, an end of None being never; None: not listed."""

    first: int
    stop: int
    spans: list[tuple[int, int | None]] | None


@st.composite
def permissions(draw: st.DrawFn, session: Session) -> list[Update]:
    """Updates of random rows, also overlapping and past the end, some in intervals that begin or end on a step."""
    count, start_us = len(session.tokens), session.clock.recording_starts_at_us
    moment = st.integers(-5, session.clock.frames + 5).map(lambda step: start_us + step * 80_000)
    moment = st.builds(lambda us, by: us + by, moment, st.sampled_from([0, 0, -1, 1, 40_000]))
    updates = []
    for _ in range(draw(st.integers(1, 5))):
        first = draw(st.integers(0, count))
        spans = []
        for _ in range(draw(st.integers(0, 3))):
            begin, end = draw(moment), draw(st.none() | moment)
            spans.append((begin, end if end is None or end >= begin else begin))
        updates.append(
            Update(first, draw(st.integers(first, count + 2)), draw(st.sampled_from([spans, spans, None])))
        )
    return updates


def may_see(updates: list[Update] | None, row: int, now_us: int) -> bool:
    """Whether a token may be seen: there is no list, or it is of an update that is permitted now."""
    own = [update for update in updates or () if update.first <= row < update.stop]
    return updates is None or any(
        begin <= now_us and (end is None or now_us < end)
        for update in own
        for begin, end in update.spans or ()
    )


def slow_versions(
    tokens: pl.DataFrame, clock: SessionClock, window: int, updates: list[Update] | None = None
) -> list[tuple]:
    """The rules of seeds/000, "Current sequence memory", sections 3–5, one step and one token at a time.

    With permitted updates, a token is seen only where it may be, and whole only while all of its words' tokens may be.
    """
    laid_out = sorted(tokens.to_dicts(), key=lambda token: (token["call"], token["position"]))
    words = slow_words(laid_out)
    by_arrival = sorted(range(len(laid_out)), key=lambda row: (laid_out[row]["arrival_us"], row))
    rank = {row: at for at, row in enumerate(by_arrival)}
    touched = {row: [word for word in words if row in word["rows"]] for row in rank}
    found: list[list] = []
    opened: dict[int, list] = {}
    for step in range(clock.frames):
        now_us = clock.recording_starts_at_us + max(step - clock.prefix_frames, 0) * 80_000
        count = sum(token["arrival_us"] <= now_us for token in laid_out)

        def live(row: int, count: int = count, now_us: int = now_us) -> bool:
            return laid_out[row]["arrival_us"] <= now_us and count - rank[row] <= window

        for row, token in enumerate(laid_out):
            if not live(row) or not may_see(updates, row, now_us):
                opened.pop(row, None)
                continue
            recency = min(16, (count - rank[row]).bit_length() - 1)
            age = min(14, ((now_us - token["arrival_us"]) // 1_000_000 + 1).bit_length() - 1)
            whole = bool(touched[row]) and all(
                laid_out[word["completer"]]["arrival_us"] <= now_us
                and live(min(word["rows"]))
                and all(may_see(updates, spelling, now_us) for spelling in [*word["rows"], word["completer"]])
                for word in touched[row]
            )
            if row in opened and opened[row][3:] == [recency, age, whole]:
                opened[row][2] = step + 1
            else:
                opened[row] = [row, step, step + 1, recency, age, whole]
                found.append(opened[row])
    return sorted(tuple(version) for version in found)
