"""A call without a word of its agent: what the refusal says of the words that were read."""

from __future__ import annotations

import pytest

from inkplex_data.corpus.agent_words import main_speaker_faults, refuse_without_agent
from inkplex_data.corpus.word_repair import RawWord, TimedWord, repair_words
from inkplex_data.errors import CallRefused
from inkplex_data.problems import ProblemLog

AUDIO_US = 2_000_000
MAIN, CALLER = "SPEAKER_MAIN", "SPEAKER_CALLER"


def refused(*words: tuple[object, object, str]) -> CallRefused:
    """The refusal of a call of two seconds with these words: start, end, label."""
    raw = [RawWord(f"w{n}", start, end, label, None, f"[{n}]") for n, (start, end, label) in enumerate(words)]
    log = ProblemLog("call")
    timed = repair_words(raw, duration_us=AUDIO_US, log=log)
    with pytest.raises(CallRefused) as caught:
        refuse_without_agent(timed, raw, log, duration_us=AUDIO_US, where="call.json")
    assert caught.value.code == "text-all-pad"
    return caught.value


def test_main_speaker_faults_name_the_labels() -> None:
    words = [TimedWord("a", 0, 1, label, None, "") for label in ("SPEAKER_00", "SPEAKER_01")]
    (fault,) = main_speaker_faults(words)
    assert fault == "no word has the main speaker's label SPEAKER_MAIN; labels seen: SPEAKER_00, SPEAKER_01"
    assert main_speaker_faults(words, "SPEAKER_01") == []
    assert main_speaker_faults([]) == ["there are no words"]


def test_times_in_milliseconds_are_told_by_what_they_would_be() -> None:
    error = refused((200, 400, MAIN), (400, 1_900, MAIN))
    assert error.what == (
        "2 words were read and none is left: 2 wholly before or after the audio (word-outside-audio), such as "
        "[0] 'w0': 200000000 to 400000000 µs, audio is 2000000 µs long; taken as milliseconds, all times lie within "
        "the audio"
    )
    assert error.next_step == "Are the times in milliseconds? Write them in seconds."


@pytest.mark.parametrize("end", [3, 50, 2_500])
def test_words_behind_a_short_audio_are_not_called_milliseconds(end: float) -> None:
    error = refused((end - 0.5, end, MAIN))
    assert "1 word was read and none is left" in error.what
    assert "milliseconds" not in str(error)


def test_the_caller_s_words_do_not_hide_that_the_agent_s_were_dropped() -> None:
    error = refused((0.1, 0.5, CALLER), (200, 400, MAIN), (0.7, 0.7, MAIN))
    assert "no word has the main speaker's label SPEAKER_MAIN; labels seen: SPEAKER_CALLER" in error.what
    assert "1 ending at or before their start (word-no-duration)" in error.what
    assert "and 2 were dropped" in error.what
    assert "milliseconds" in error.what, "the agent's words alone are asked: the caller's are in seconds"


def test_without_any_loss_the_label_or_the_transcript_is_missing() -> None:
    assert refused().what == "there are no words"
    other = refused((0.1, 0.5, "spk_1"))
    assert other.next_step == "Name the agent's label with the recipe key `words.agent`."
