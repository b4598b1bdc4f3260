from __future__ import annotations

import polars as pl
import pytest

from inkplex_data.errors import RecordingError
from inkplex_data.memory.twins import PAIRS, check_twins, counterfactual_pairs, fork_between
from tests.memory.test_ownership import asked, tabulate

PAST = [asked(0, [0, 1, 2]), asked(1, [5, 6], cached=(0, 3))]
NAMES = ("original", "twin")


def test_twins_share_their_past_and_may_differ_from_the_fork_on() -> None:
    tokens = tabulate([*PAST, asked(2, [10, 11], cached=(1, 5))])[0]
    twin = tabulate([*PAST, asked(2, [10, 10, 12], cached=(1, 5)), asked(3, [20])])[0]
    assert check_twins(tokens, twin, at_us=10, names=NAMES) == 5
    # Where the branch goes on with more tokens, the rows of a later request shift; its tokens are the same.
    assert check_twins(tokens, twin.drop("media"), at_us=10, names=NAMES) == 5
    with pytest.raises(RecordingError, match="token 6 in order of arrival") as caught:
        check_twins(tokens, twin, at_us=12, names=NAMES)
    assert caught.value.code == "recording-twin-differs"
    assert "original has request 2 position 6" in str(caught.value)
    assert "at 11 µs; twin has request 2 position 6" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        pl.col("token_id") + 1,
        pl.col("arrival_us") + 1,
        pl.col("bytes") + b"s",
        ~pl.col("special"),
        pl.lit("user", pl.String).alias("kind"),
        pl.lit("audio", pl.String).alias("media"),
    ],
)
def test_any_difference_before_the_fork_is_found(change: pl.Expr) -> None:
    tokens = tabulate(PAST)[0]
    name = change.meta.output_name()
    changed = tokens.with_columns(pl.col("kind", "media").cast(pl.String))
    changed = changed.with_columns(
        pl.when(pl.col("row") == 3).then(change).otherwise(pl.col(name)).alias(name)
    )
    assert check_twins(tokens, changed, at_us=5, names=NAMES) == 3
    with pytest.raises(RecordingError, match="token 3 in order"):
        check_twins(tokens, changed, at_us=100, names=NAMES)


def test_a_missing_token_is_found() -> None:
    tokens = tabulate(PAST)[0]
    with pytest.raises(RecordingError, match="twin has no further token"):
        check_twins(tokens, tokens.head(4), at_us=100, names=NAMES)


def test_forks_follow_the_tree() -> None:
    branches = {
        "b": ("a", 50),
        "c": ("a", 30),
        "d": ("b", 80),
        "loop": ("loop", 1),
        "x": ("y", 1),
        "y": ("x", 2),
    }
    assert fork_between(branches, "a", "b") == fork_between(branches, "b", "a") == 50
    assert fork_between(branches, "b", "c") == 30
    assert fork_between(branches, "d", "a") == 50
    assert fork_between(branches, "d", "b") == 80
    assert fork_between(branches, "a", "z") is None
    assert fork_between(branches, "loop", "a") is None
    assert fork_between(branches, "a", "x") is None


def test_pairs_are_the_same_question_or_the_same_moment_on_twins() -> None:
    calls = pl.DataFrame(
        [
            ("one", "a", 1_000_000, "hash 1"),
            ("two", "b", 1_000_000, "hash 1"),
            ("later", "b", 9_000_000, "hash 1"),
            ("other words", "b", 1_000_000, "hash 2"),
            ("no pair", "b", 2_000_000, "hash 3"),
            ("elsewhere", "z", 1_000_000, "hash 1"),
            ("no memory", None, None, "hash 1"),
        ],
        schema=["call_id", "recording_id", "recording_starts_at_us", "audio_sha256"],
        orient="row",
    )
    pairs = counterfactual_pairs(calls, {"b": ("a", 1_080_001)})
    assert pairs.schema == PAIRS
    assert pairs.select(
        "call_id", "twin_call_id", "fork_us", "fork_frame", "same_audio", "same_start"
    ).rows() == [
        ("one", "later", 1_080_001, 2, True, False),
        ("one", "other words", 1_080_001, 2, False, True),
        ("one", "two", 1_080_001, 2, True, True),
    ]
    assert counterfactual_pairs(calls.drop("audio_sha256"), {"b": ("a", 0)})["fork_frame"].to_list() == [0, 0]
    assert counterfactual_pairs(calls, {}).is_empty()
