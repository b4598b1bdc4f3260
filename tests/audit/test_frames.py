"""What frames hold, against the words they were made of: the builder's own streams pass, and any change is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.audio.augment_plan import AugmentPlan
from inkplex_data.audit.frames import TextRules, frame_faults, word_faults
from inkplex_data.audit.stored_prefixes import PrefixAudit
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.grid import (
    MASK_ALL,
    MASK_CALLER,
    MASK_TEXT,
    NO_INPUT,
    PAD,
    TAG_FIRST,
    TAG_PREFIX,
    TEXT_CARD,
)
from inkplex_data.pipeline.calls.withheld_text import withhold
from inkplex_data.speech.interleave import Word, interleave
from inkplex_data.speech.prefix import build_prefix, wrap_role
from inkplex_data.speech.tokenizer import TextTokenizer
from inkplex_data.store.call import StoredPrefix
from inkplex_data.store.frame_streams import OnFrames

FRAMES = 60


class Made(OnFrames):
    """A call whose streams are given."""

    def __init__(self, **streams: np.ndarray) -> None:
        self.__dict__["_streams"] = streams


def make(words: list[Word], **options: Any) -> tuple[Made, pl.DataFrame]:
    """A call of `words` as a build makes it, and its rows of the words table."""
    made = interleave(words, FRAMES, **options)
    table = pl.DataFrame(
        {
            "word_ix": range(len(words)),
            "text": [f"w{index}" for index in range(len(words))],
            "frame": made.word_frames,
            "pieces": [list(word.pieces) for word in words],
            "placed": made.word_placed,
        },
        schema={
            "word_ix": pl.Int32,
            "text": pl.String,
            "frame": pl.Int32,
            "pieces": pl.List(pl.Int32),
            "placed": pl.Int16,
        },
    )
    codes = np.arange(16 * FRAMES, dtype=np.uint16).reshape(16, FRAMES) % 2048
    mask = np.full(FRAMES, MASK_ALL, np.uint8)
    mask[made.ids == NO_INPUT] ^= MASK_TEXT
    level = np.full((2, FRAMES), -30, np.int8)
    return Made(text=made.ids, role=made.roles, codes=codes, mask=mask, level=level), table


def faults(
    call: Made, words: pl.DataFrame, rules: TextRules | None = None, permitted: np.ndarray | None = None
) -> list[str]:
    rules = rules or TextRules()
    return [*frame_faults(call, rules, permitted), *word_faults(call, words, rules)]


@st.composite
def spoken(draw: st.DrawFn) -> list[Word]:
    starts = draw(st.lists(st.integers(0, FRAMES * 80_000), max_size=12))
    return [
        Word(
            draw(st.lists(st.sampled_from([0, 3, 10, 11, 12]), max_size=5)),
            start,
            start + draw(st.integers(-10_000, 700_000)),
            draw(st.sampled_from(["SPEAKER_MAIN", "SPEAKER_MAIN", "other"])),
        )
        for start in sorted(starts)
    ]


@given(spoken(), st.sampled_from(["replace", "shift"]), st.sampled_from(["kyutai", "moshi-paper"]), st.booleans(),
       st.sampled_from([None, 9]), st.integers(-900_000, 900_000))  # fmt: skip
def test_what_the_builder_places_is_found_again(
    words: list[Word], overflow: str, policy: str, speaker_tokens: bool, padding: int | None, delay_us: int
) -> None:
    call, table = make(
        words,
        overflow=overflow,
        policy=policy,
        speaker_tokens=speaker_tokens,
        in_word_padding=padding,
        delay_us=delay_us,
    )
    assert faults(call, table, TextRules(padding, speaker_tokens)) == []


@pytest.mark.parametrize("unit", ["word", "piece"])
@pytest.mark.parametrize("loss", ["drop", "keep"])
@pytest.mark.parametrize("seed", range(6))
def test_text_that_is_withheld_is_no_fault(unit: str, loss: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    starts = np.sort(random.integers(0, FRAMES * 80_000, 8)).tolist()
    words = [
        Word(random.integers(10, 14, 3).tolist(), start, start + 400_000, "SPEAKER_MAIN") for start in starts
    ]
    spoken = [TimedWord("w", start, start + 400_000, "SPEAKER_MAIN", None, "given") for start in starts]
    plan = AugmentPlan(text_mask=0.4, text_seed=seed, text_mask_unit=unit, text_mask_loss=loss)  # type: ignore[arg-type]
    whole, table = make(words)
    withheld = withhold(interleave(words, FRAMES), spoken, plan, "SPEAKER_MAIN")
    text = withheld.text
    mask = np.where(text.ids == NO_INPUT, MASK_ALL ^ MASK_TEXT, MASK_ALL) | 8 * withheld.hidden
    call = Made(
        text=text.ids, role=text.roles, codes=whole.codes, mask=mask.astype(np.uint8), level=whole.level
    )
    left = {"frame": text.word_frames, "placed": text.word_placed}
    stored = table.with_columns(pl.Series(name, value, table.schema[name]) for name, value in left.items())
    assert withheld.count
    assert faults(call, stored) == []


WORDS = [
    Word([70, 71, 72], 160_000, 500_000),
    Word([80, 81], 800_000, 1_000_000),
    Word([90], 2_000_000, 2_200_000),
]


def _set(name: str, at: int, value: int) -> Callable[[Made, pl.DataFrame], pl.DataFrame]:
    def change(call: Made, words: pl.DataFrame) -> pl.DataFrame:
        call.stream(name)[..., at] = value
        return words

    return change


def _words(**columns: pl.Expr) -> Callable[[Made, pl.DataFrame], pl.DataFrame]:
    return lambda call, words: words.with_columns(
        pl.when(pl.col("word_ix") == 1)
        .then(value)
        .otherwise(pl.col(name))
        .cast(words.schema[name])
        .alias(name)
        for name, value in columns.items()
    )


def _rolled(call: Made, words: pl.DataFrame) -> pl.DataFrame:
    call.text[:], call.role[:] = np.roll(call.text, 1), np.roll(call.role, 1)
    return words


@pytest.mark.parametrize(
    ("change", "named"),
    {
        "a code out of range": (_set("codes", 7, 2048), "frame 7 has a code"),
        "a text id out of range": (_set("text", 30, TEXT_CARD), "frame 30 has a text id"),
        "no input under a piece": (_set("text", 3, NO_INPUT), "frame 3 is tagged as a piece and has none"),
        "a piece under PAD": (_set("text", 30, 70), "frame 30 is tagged PAD and has the id of a piece"),
        "an EPAD that is PAD": (_set("text", 1, PAD), "frame 1 is tagged EPAD"),
        "another piece": (_set("text", 3, 75), "word 0 'w0' has the pieces [70, 71, 72]"),
        "a tag of a prefix": (_set("role", 20, TAG_PREFIX), "frame 20 is tagged as no part of a call"),
        "a tag that is lost": (_set("role", 3, 0), "frame 3 is tagged PAD"),
        "an unknown bit of the mask": (_set("mask", 4, 16), "frame 4 has a loss mask with unknown bits"),
        "loss that the sidecar forbids": (_set("mask", 40, MASK_ALL), "frame 40 carries loss"),
        "the stream one frame late": (_rolled, "word 0 'w0'"),
        "a word's frame moved": (_words(frame=pl.lit(30)), "word 1 'w1'"),
        "a word's frame beyond the end": (_words(frame=pl.lit(99)), "word 1 'w1' is placed on frame 99 of 60"),
        "a word said to be lost": (_words(placed=pl.lit(0)), "word 1 'w1' has a frame, but none"),
        "fewer pieces than there are": (_words(placed=pl.lit(1)), "frame 11 has a piece that belongs to no word"),
        "other pieces": (_words(pieces=pl.lit([81, 80], pl.List(pl.Int32))), "word 1 'w1' has the pieces [81, 80]"),
        "a word that is gone": (lambda call, words: words.filter(pl.col("word_ix") != 1), "belongs to no word"),
        "a word that claims another's frames": (
            _words(frame=pl.lit(2), pieces=pl.lit([70, 71], pl.List(pl.Int32))),
            "word 1 'w1' and the word before it claim the same frame",
        ),
    }.values(),
)  # fmt: skip
def test_any_change_is_named(change: Callable[[Made, pl.DataFrame], pl.DataFrame], named: str) -> None:
    call, words = make(WORDS)
    permitted = np.full(FRAMES, MASK_ALL, np.uint8)
    permitted[40:] = MASK_CALLER
    call.mask[40:] = MASK_CALLER
    assert faults(call, words, permitted=permitted) == []
    words = change(call, words)
    found = faults(call, words, permitted=permitted)
    assert any(named in what for what in found), found


def _prefix(role: str | None = "a clerk", voice_frames: int = 3) -> StoredPrefix:
    tokenizer = TextTokenizer.load()
    voice = np.full((voice_frames, 8), 9, np.uint16) if voice_frames else None
    made = build_prefix(voice, tokenizer.encode(wrap_role(role)) if role else [], None)
    row = {
        "prefix_id": "p",
        "voice": "anna" if voice_frames else None,
        "role": role,
        "voice_frames": voice_frames,
        "role_pieces": len(made.layout.role_pieces),
    }
    return StoredPrefix(row, {"codes": made.codes.copy(), "text": made.text.copy(), "role": made.role.copy()})


def _vocabulary() -> pl.Series:
    tokenizer = TextTokenizer.load()
    return pl.Series([tokenizer.piece(index) for index in range(len(tokenizer))])


def _prefix_faults(*prefixes: StoredPrefix) -> list[str]:
    audit = PrefixAudit(_vocabulary())
    return [what for prefix in prefixes for what in audit.faults(prefix)]


def test_the_builders_prefixes_pass() -> None:
    assert (
        _prefix_faults(_prefix(), _prefix(None, 0), _prefix("says “naïve” things", 0), _prefix("b", 40)) == []
    )


def _tamper(name: str, at: object, value: int) -> Callable[[StoredPrefix], object]:
    return lambda prefix: prefix.stored[name].__setitem__(at, value)


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (_tamper("text", 12, 77), "its text says"),
        (_tamper("text", 1, 77), "text outside its role"),
        (_tamper("role", 4, TAG_FIRST), "not all tagged"),
        (_tamper("codes", (8, 2), 2048), "a code that is none"),
        (_tamper("codes", (8, 2), 1), "its silence has other codes"),
        (_tamper("codes", (1, 9), 1), "its tone has other codes"),
        (lambda prefix: prefix.row.update(voice_frames=4), "are another number"),
        (lambda prefix: prefix.row.update(role="a cleric"), "its text says"),
        (lambda prefix: prefix.row.update(role=None), "it has no role, and"),
        (lambda prefix: prefix.row.update(voice=None), "frames of voice None"),
    ],
)
def test_a_changed_prefix_is_named(tamper: Callable[[StoredPrefix], object], named: str) -> None:
    changed = _prefix()
    tamper(changed)
    found = _prefix_faults(_prefix("other", 0), changed)
    assert any(named in what for what in found), found
