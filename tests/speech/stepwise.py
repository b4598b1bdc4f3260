"""The text stream built one frame and one word at a time: slow, plain, and written from the rules alone.

`inkplex_data.speech.interleave` computes the same thing over a whole call at once; tests compare the two.
Times are fractions for exact rounding, and floats in seconds for the released recipe's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from inkplex_data.speech.interleave import Word

PAD, EPAD, BOS, EOS, NO_INPUT = 3, 0, 1, 2, -1


@dataclass
class Item:
    """One thing that wants a frame: a piece of a word, or the BOS or EOS before it."""

    word: int
    id: int
    opens: bool
    marker: bool


@dataclass
class Stepwise:
    ids: list[int]
    roles: list[int]
    frames: dict[int, int] = field(default_factory=dict)
    placed: Counter[int] = field(default_factory=Counter)
    lost: Counter[tuple[int, str]] = field(default_factory=Counter)
    markers: int = 0


def stepwise(
    words: Sequence[Word],
    frames: int,
    *,
    policy: str = "kyutai",
    overflow: str = "replace",
    rounding: str = "exact",
    in_word_padding: int | None = None,
    delay_us: int = 0,
    speaker_tokens: bool = False,
    main_speaker: str = "SPEAKER_MAIN",
) -> Stepwise:
    out = Stepwise([PAD] * frames, [0] * frames)

    def grid(time_us: int) -> Fraction | float:
        if rounding == "kyutai":
            return (time_us / 1e6 - delay_us / 1e6) * 12.5
        return Fraction(time_us - delay_us, 80_000)

    def frame_of(time_us: int) -> int:
        if policy == "moshi-paper":
            return round(grid(time_us)) - 1
        return floor(grid(time_us))

    queue: list[tuple[int, int, list[Item]]] = []  # onset, last frame, items
    before: str | None = None
    for index in sorted(range(len(words)), key=lambda i: words[i].start_us):
        word = words[index]
        size = len(word.pieces)
        items = []
        if speaker_tokens:
            if word.speaker != before:
                if word.speaker == main_speaker:
                    items.append(Item(index, BOS, False, True))
                elif before == main_speaker:
                    items.append(Item(index, EOS, False, True))
            before = word.speaker
        elif word.speaker != main_speaker:
            out.lost[index, "other-speaker"] += size
            continue
        if word.end_us <= word.start_us:
            out.lost[index, "no-duration"] += size
            continue
        if word.end_us <= delay_us:
            out.lost[index, "before-delay"] += size
            continue
        if not size:
            out.lost[index, "no-pieces"] += 0
        for piece in word.pieces:
            if piece in (PAD, EPAD):
                out.lost[index, "reserved-id"] += 1
            else:
                items.append(Item(index, piece, False, False))
        if items:
            items[0].opens = True
        onset = max(frame_of(word.start_us), 1 if policy == "moshi-paper" else 0)
        queue.append((onset, frame_of(word.end_us), items))

    pending: list[Item] = []
    last_frame = -1
    occupant: list[Item | None] = [None] * frames
    for t in range(frames):
        while queue and queue[0][0] <= t:
            _, last_frame, items = queue.pop(0)
            if overflow == "replace":
                for item in pending:
                    if not item.marker:
                        out.lost[item.word, "replaced"] += 1
                pending = []
            pending = pending + items
        if pending:
            occupant[t] = pending.pop(0)
            out.ids[t] = occupant[t].id
            out.roles[t] = 2 if occupant[t].opens else 3
            if t > 0 and occupant[t - 1] is None:
                out.ids[t - 1], out.roles[t - 1] = EPAD, 1
        elif in_word_padding is not None and t <= last_frame:
            out.ids[t] = in_word_padding
    for item in pending + [item for _, _, items in queue for item in items]:
        if not item.marker:
            out.lost[item.word, "past-end"] += 1

    if delay_us < 0:
        blank = int(12.5 * -(delay_us / 1e6)) if rounding == "kyutai" else -delay_us // 80_000
        for t in range(min(blank, frames)):
            out.ids[t], out.roles[t] = NO_INPUT, 0
            item = occupant[t]
            if item is not None and not item.marker:
                out.lost[item.word, "no-input"] += 1
            occupant[t] = None
    for t, item in enumerate(occupant):
        if item is not None:
            out.frames.setdefault(item.word, t)
            out.markers += item.marker
            out.placed[item.word] += not item.marker
    return out
