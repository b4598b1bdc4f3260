from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from inkplex_data.soma.tokens.soma_tokenizer import SOMA, TURN, USER, SomaTokenizer
from inkplex_data.soma.tokens.store_text import (
    call_turns,
    recording_kinds,
    spoken_turns,
    store_documents,
    word_text,
)
from inkplex_data.soma.tokens.token_stream import TokenStream
from inkplex_data.store.format import WORDS
from inkplex_data.store.publish_snapshot import publish_snapshot
from inkplex_data.store.reader import Store, open_store
from tests.soma.dialogues import dialogue_part
from tests.store.made import add_calls, make_store, table

SAID = [
    ("SPEAKER_MAIN", "hello"),
    ("SPEAKER_MAIN", "there"),
    ("x", "good"),
    ("x", "morning"),
    ("SPEAKER_MAIN", "bye"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    root = tmp_path_factory.mktemp("soma") / "store"
    made = make_store(root)
    add_calls(made, 9, [dialogue_part("said", SAID)])
    publish_snapshot(root)
    with open_store(root) as opened:
        yield opened


def words_of(said: list[tuple[str, str]], starts: list[int]):
    return table(
        WORDS, len(said), word_ix=np.arange(len(said)), text=[word for _, word in said],
        speaker=[speaker for speaker, _ in said], start_us=starts, end_us=[start + 1 for start in starts],
    )  # fmt: skip


def test_both_sides_come_in_order_of_time() -> None:
    words = words_of([("a", "one"), ("b", "two"), ("a", "three"), ("c", "four")], [30, 10, 20, 40])
    turns = spoken_turns(words, "a")
    assert [(turn.side, [word["text"] for word in turn.words]) for turn in turns] == [
        ("user", ["two"]), ("soma", ["three", "one"]), ("user", ["four"]),
    ]  # fmt: skip
    assert [turn.side for turn in spoken_turns(words, None)] == ["soma"] * 3
    assert spoken_turns(words.clear(), "a") == []


def test_a_call_is_a_dialogue_of_roles_words_and_turns(store: Store) -> None:
    [document] = [one for one in store_documents(store) if getattr(one, "call_id", None) == "said"]
    batch = TokenStream([document], SomaTokenizer.load()).take(1_000)
    assert batch is not None
    marks = [int(i) for i in batch.ids if i < 6]
    assert marks == [SOMA, TURN, USER, TURN, SOMA, TURN]
    assert SomaTokenizer.load().decode(batch.ids) == b" hello there good morning bye"
    assert [len(turn.words) for turn in call_turns(store, "said")] == [2, 2, 1]


def test_a_word_costs_the_same_bytes_wherever_it_stands() -> None:
    assert word_text({"text": " hello "}) == b" hello"
    assert word_text({"text": None}) == b" "


def test_a_trace_is_turns_of_one_kind(store: Store) -> None:
    recording_id = store.owners("recordings")["recording_id"][0]
    turns = recording_kinds(store, recording_id)
    kinds = [kind for kind, _ in turns]
    assert set(kinds) <= {"user", "thinking", "reply"}
    assert all(first != second for first, second in itertools.pairwise(kinds))
    assert {kind: turn.side for kind, turn in turns} == {
        kind: "user" if kind == "user" else "soma" for kind in kinds
    }
    tokens = sum(turn.text.count(b" word") for _, turn in turns)
    [size] = store.recordings().filter(recording_id=recording_id).select("tokens").collect()["tokens"]
    assert tokens == size


def test_traces_come_before_calls_and_every_one_once(store: Store) -> None:
    names = [document.name for document in store_documents(store)]
    recordings = store.owners("recordings").height
    assert len(names) == recordings + len(store) == len(set(names))
    assert all("recording" in name for name in names[:recordings])
