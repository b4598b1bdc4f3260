"""Scores of the agent's channel: symmetric, honest about how sure they are, and right on texts of others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.corpus.transcripts import read_transcript
from inkplex_data.speech.agent.phrases import PHRASES, heard, plain
from inkplex_data.speech.agent.place import Said, channels_of_levels, texts_of
from inkplex_data.speech.agent.score import (
    SURE,
    THRESHOLD,
    SideGuess,
    channel_evidence,
    combine,
    order_evidence,
    phrase_evidence,
    place_evidence,
)

SENTENCES = st.lists(
    st.sampled_from(
        [
            "Thank you for calling.",
            "How may I help you?",
            "Let me check.",
            "I'm calling about my order.",
            "My internet has been down.",
            "I need a new card.",
            "Yes.",
        ]
    ),
    max_size=4,
).map(" ".join)
FIRST = st.none() | st.integers(0, 10_000_000)
ALONE = st.integers(0, 5_000_000)


def guessed(
    first: tuple[int | None, int | None], texts: tuple[str, str], alone: tuple[int, int]
) -> SideGuess:
    return combine([*order_evidence(first), *phrase_evidence(texts), *place_evidence(alone, labelled=True)])


@given(st.tuples(FIRST, FIRST), st.tuples(SENTENCES, SENTENCES), st.tuples(ALONE, ALONE))
def test_exchanged_channels_exchange_the_answer(
    first: tuple[int | None, int | None], texts: tuple[str, str], alone: tuple[int, int]
) -> None:
    one, other = guessed(first, texts, alone), guessed(first[::-1], texts[::-1], alone[::-1])
    assert one.confidence == pytest.approx(other.confidence, abs=1e-12)
    assert 0.5 <= one.confidence <= SURE
    assert one.confidence < 0.5 + 1e-9 or one.agent_channel == 1 - other.agent_channel
    assert sorted(-each.log_odds for each in one.evidence) == pytest.approx(
        sorted(each.log_odds for each in other.evidence)
    )


def test_nothing_decides_nothing_and_order_alone_does_not() -> None:
    assert combine([]).confidence == 0.5 and not combine([]).decided()
    assert "nothing" in combine([]).text()
    early = combine(order_evidence((400_000, 2_000_000)))
    assert early.side == "left" and early.confidence == pytest.approx(0.75)
    assert not early.decided() and early.decided(0.7)
    assert order_evidence((400_000, 500_000)) == [] == order_evidence((None, 500_000))
    with_greeting = combine(
        [*order_evidence((400_000, 2_000_000)), *phrase_evidence(["how can I help?", ""])]
    )
    assert with_greeting.decided() and "'how can I help'" in with_greeting.text()


def test_what_both_sides_say_tells_nothing_and_much_text_is_no_certainty() -> None:
    assert phrase_evidence(["thank you for calling", "Thanks for calling!"]) == []
    every = "how can i help thank you for calling anything else i can do please hold what is your name"
    assert combine(phrase_evidence(["", every])).confidence == pytest.approx(100 / 101)
    assert combine(phrase_evidence(["", every])).side == "right"


def test_evidence_against_each_other_leaves_doubt() -> None:
    against = combine([*order_evidence((5_000_000, 300_000)), *phrase_evidence(["Anna speaking", ""])])
    assert not against.decided(THRESHOLD)
    assert not SideGuess(0, 0.99, doubt="the words are those of right").decided()


def test_words_of_the_agent_weigh_by_how_clearly_they_lie() -> None:
    sure = combine(place_evidence((10_000_000, 0), labelled=True))
    assert sure.confidence == pytest.approx(0.99)
    assert combine(place_evidence((6_000_000, 5_000_000), labelled=True)).confidence < 0.7
    assert combine(place_evidence((100_000, 0), labelled=True)).confidence < 0.6
    assert not combine(place_evidence((10_000_000, 0), labelled=False)).confidence > THRESHOLD + 1e-9
    assert place_evidence((0, 0), labelled=True) == []
    assert combine(channel_evidence(1)).side == "right"


def test_phrases_are_found_however_they_are_written() -> None:
    assert plain("I’m  calling, about… MY order!") == "im calling about my order"
    assert [phrase.name for phrase in heard("I'm calling about it")] == ["I am calling about"]
    assert [phrase.name for phrase in heard("Northwind Mobile, Brian speaking.")] == ["name speaking"]
    assert heard("Thanks for calling me back") == [] == heard("")
    assert len({phrase.name for phrase in PHRASES}) == len(PHRASES)


def test_dialogues_of_others(real_data: Path) -> None:
    """Phrases alone, on the text of dialogues that they were not written from: nothing is taken for the other side."""
    texts = []
    for name in ("0002f70f7386445b.json", "example-call.json"):
        words = read_transcript(real_data / "words" / name)
        own = " ".join(word.text for word in words.words if word.speaker == words.agent)
        texts.append((own, " ".join(word.text for word in words.words if word.speaker != words.agent)))
    for dialogue in json.loads((real_data / "traces" / "abcd_sample.json").read_text()):
        turns = dialogue["original"]
        texts.append(
            tuple(" ".join(text for who, text in turns if who == role) for role in ("agent", "customer"))  # type: ignore[arg-type]
        )
    for dialogue in json.loads((real_data / "traces" / "airline_12.json").read_text()):
        turns = dialogue["traj"]
        texts.append(
            tuple(
                " ".join(t["content"] or "" for t in turns if t["role"] == role)
                for role in ("assistant", "user")
            )  # type: ignore[arg-type]
        )
    guesses = [combine(phrase_evidence(pair)) for pair in texts]
    assert not [guess for guess in guesses if guess.decided() and guess.side == "right"]
    assert sum(guess.decided() for guess in guesses) >= 0.8 * len(guesses)


def levels(*spans: tuple[float, float, float], seconds: float = 10) -> np.ndarray:
    """Levels of 10 ms: −70 dBFS but for (start, end, dB) spans."""
    found = np.full(int(seconds * 100), -70, np.float32)
    for start, end, level_db in spans:
        found[int(start * 100) : int(end * 100)] = level_db
    return found


def test_a_leaked_voice_is_not_the_channels_own() -> None:
    leaked = channels_of_levels([levels((1, 4, -20)), levels((1, 4, -35), (6, 9, -25))])
    assert leaked.first_us() == [1_000_000, 6_000_000]
    said = [Said("a", 1_200_000, 1_900_000, "hello"), Said("b", 6_500_000, 7_000_000, "yes")]
    assert leaked.alone_us(said) == (700_000, 500_000)
    assert leaked.side_of(said[:1]) == 0 and leaked.side_of(said[1:]) == 1 and leaked.side_of(said) is None
    assert texts_of(said, leaked) == ("hello", "yes")


def test_a_click_opens_no_call_and_one_label_for_both_sides_is_parted() -> None:
    found = channels_of_levels([levels((0.5, 0.6, -20), (5, 8, -20)), levels((1, 4, -20))])
    assert found.first_us() == [5_000_000, 1_000_000]
    mixed = [Said("main", 1_000_000, 2_000_000, "caller"), Said("main", 6_000_000, 7_000_000, "agent")]
    assert texts_of(mixed, found) == ("agent", "caller")
    assert texts_of(mixed, found, {"main": 1}) == ("", "caller agent")
    assert channels_of_levels([levels(), levels()]).first_us() == [None, None]
