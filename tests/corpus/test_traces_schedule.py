"""Times of a trace: never before the message was there, never backwards, and what is recorded stays."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from inkplex_data.corpus.recordings.vocabulary import ByteVocabulary
from inkplex_data.corpus.traces.arrival_schedule import TraceSchedule, time_requests
from inkplex_data.corpus.traces.dialogue import Dialogue, Message, Part, ToolCall
from inkplex_data.corpus.traces.dialogue_requests import InklingEncoder

SECOND = 1_000_000
NEVER = st.just(False)
ENCODER = InklingEncoder(ByteVocabulary())


@st.composite
def dialogues(
    draw: st.DrawFn, timed: st.SearchStrategy[bool], begun: st.SearchStrategy[bool] = NEVER
) -> Dialogue:
    """Messages in any order of roles; each has an end and a beginning or not."""
    at_us = draw(st.sampled_from([0, 3 * SECOND, 1_700_000_000 * SECOND]))
    messages = []
    for index in range(draw(st.integers(1, 8))):
        role: Any = draw(st.sampled_from(["system", "user", "assistant", "assistant", "tool", "other"]))
        at_us += draw(st.sampled_from([0, 1, SECOND, 40 * SECOND]))
        messages.append(
            Message(
                role,
                f"/{index}",
                (Part("a few words"),) if draw(st.booleans()) else (),
                thinking="hm" if role == "assistant" and draw(st.booleans()) else "",
                calls=(ToolCall("f", "{}"),) if role == "assistant" and draw(st.booleans()) else (),
                starts_us=at_us - draw(st.sampled_from([0, SECOND])) if draw(begun) else None,
                at_us=at_us if draw(timed) else None,
            )
        )
    return Dialogue(tuple(messages), "")


@settings(max_examples=200, deadline=None)
@given(dialogues(timed=st.booleans(), begun=st.booleans()), st.sampled_from([0.0, 0.3, 30.0]))
def test_arrivals_never_fall_and_recorded_times_bound_the_others(
    dialogue: Dialogue, prefill_s: float
) -> None:
    timed = time_requests(dialogue, ENCODER.requests(dialogue), TraceSchedule(prefill_s=prefill_s))
    starts_at_us = timed.starts_at_us or 0
    known = {
        index: message.at_us - starts_at_us
        for index, message in enumerate(dialogue.messages)
        if message.at_us is not None
    }
    before_us = -(2**62)
    for one in timed.requests:
        arrivals = [max(at_us, one.ready_at_us) for at_us in one.prompt_at_us] + list(one.generated_at_us)
        assert sorted([before_us, *arrivals]) == [before_us, *arrivals]
        before_us = arrivals[-1]
        tokens = [*one.request.prompt, *one.request.generated]
        for token, at_us in zip(tokens, arrivals, strict=True):
            opens_answer = token.message == one.request.message
            if token.message in known and not opens_answer:
                assert at_us >= known[token.message]
            later = [us for index, us in known.items() if index > token.message]
            if opens_answer and later:
                assert at_us <= min(later)
        if one.request.message in known:
            end_us, answer = known[one.request.message], dialogue.messages[one.request.message]
            spread = one.generated_at_us if answer.starts_us is None else one.generated_at_us[-1:]
            assert set(spread) == {end_us} and one.generated_at_us[0] <= end_us
    assert timed.end_us == (before_us if timed.requests else 0)


@settings(max_examples=100, deadline=None)
@given(dialogues(timed=st.just(True)), st.floats(0.1, 100))
def test_a_schedule_changes_nothing_that_was_recorded(dialogue: Dialogue, rate: float) -> None:
    requests = list(ENCODER.requests(dialogue))
    plain = time_requests(dialogue, requests, TraceSchedule())
    other = time_requests(dialogue, requests, TraceSchedule(reply_tokens_per_s=rate, prefill_s=rate))
    assert plain == other
    assert plain.recorded


@settings(max_examples=100, deadline=None)
@given(dialogues(timed=st.just(False)))
def test_one_untimed_message_makes_the_times_constructed(dialogue: Dialogue) -> None:
    assert not time_requests(dialogue, ENCODER.requests(dialogue), TraceSchedule()).recorded


def test_the_user_hears_the_reply_first() -> None:
    schedule = TraceSchedule(
        prefill_s=0, prefill_tokens_per_s=1e6, reply_words_per_s=1, user_words_per_s=1, user_pause_s=2
    )
    messages = (
        Message("assistant", "/0", (Part("one two three"),)),
        Message("user", "/1", (Part("yes please"),)),
        Message("assistant", "/2", (Part("ok"),)),
    )
    dialogue = Dialogue(messages, "")
    first, second = time_requests(dialogue, ENCODER.requests(dialogue), schedule).requests
    # Heard for three seconds from its first token on, a pause of two, two words.
    assert second.prompt_at_us[0] == first.generated_at_us[0] + 7 * SECOND
