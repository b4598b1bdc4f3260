"""Transcripts and their words."""

from __future__ import annotations

from inkplex_data.problems.code_table import error, info, repair, table

WORDS = table(
    "words",
    {
        "words-unreadable": error(
            "The transcript cannot be read.",
            "Correct the file, or align the call again with `inkplex-data align --redo`.",
        ),
        "words-unknown-format": error(
            "The transcript is in no known format.",
            "Convert it to one of the formats listed in docs/how-to/exchange.md.",
        ),
        "words-no-word-times": error(
            "The transcript has segments, but no word has a time.",
            "Time its words with `inkplex-data align`.",
        ),
        "words-speakers-only": error(
            "The file says who speaks when, but has no words.",
            "Give it to `inkplex-data diarize`, and give the words in a separate file.",
        ),
        "words-clock-offset": info(
            "The two sides were recorded on clocks that began at different times; words are on the clock that they share.",
            "If each side is a file of its own, check that both files begin at the same moment.",
        ),
        "words-clock-unsteady": info(
            "The offset between a side's own clock and the shared one changes within the call.",
            "Check the words of that side against its audio.",
        ),
        "words-transcript-differs": info(
            "The sidecar's `transcript` is not what its words of the main speaker spell.",
            "Correct the one that is wrong; the text stream is made of the words.",
        ),
        "words-mismatch": info(
            "The sidecar says that text and audio differ; text and agent audio carry no loss where it says so.",
            "Correct the text, and say `mismatch: none`.",
        ),
        "words-mismatch-unknown": info(
            "The sidecar has words and does not say whether they match the audio.",
            "Compare them, for instance with `check_speech`, and say `mismatch: none` or `known`.",
        ),
        "words-uncertain": info(
            "The times of words may be off by more than `words.uncertainty_limit_s`; text around them carries no loss.",
            "Align the words again, or allow more in the recipe.",
        ),
        "words-not-utf8": repair(
            "Bytes of the transcript are not UTF-8; each was replaced with U+FFFD.", "Save the file as UTF-8."
        ),
        "words-out-of-order": info(
            "Words were not in order of start; they were sorted, with equal starts kept in file order.",
        ),
        "words-other-side": error(
            "The agent's words are not said on the agent's channel: it is silent, or they lie in speech of the caller's.",
            "Exchange the call's `channels` in the manifest (`--agent right` does so for all calls that name none), or correct the labels of its words.",
        ),
        "words-side-doubtful": repair(
            "The words lie in speech of the other side rather than of their own, so the text carries no loss.",
            "Check which channel is the agent's, the labels of the words, and whether their times fit the audio.",
        ),
        "words-past-agent": repair(
            "Words of the agent begin after the end of the agent's own audio; text and agent audio carry no loss there.",
            "Check that the transcript and the agent's file belong together, and that the file is complete.",
        ),
        "word-malformed": repair(
            "An entry of the transcript is not a word; it was dropped.", "Correct the entry."
        ),
        "word-empty": repair(
            "A word's text is nothing but white space; it was dropped.", "Remove the entry."
        ),
        "word-text-replaced": repair(
            "A word holds half a surrogate pair, which was replaced with U+FFFD.", "Correct the word's text."
        ),
        "word-punctuation-attached": repair(
            "Punctuation without times was attached to the word before it.",
            "Nothing to do, unless the mark should have times of its own.",
        ),
        "word-untimed": repair(
            "A word has no usable times; it was dropped.",
            "Time the word, for instance with `inkplex-data align --redo`.",
        ),
        "word-times-interpolated": repair(
            "A word without times was put into the short gap between its neighbours.",
            "Time the word if its onset matters.",
        ),
        "word-start-missing": repair(
            "A word has an end but no start; the start was set from its neighbour.", "Time the word."
        ),
        "word-end-missing": repair(
            "A word has a start but no end; the end was set from its neighbour.", "Time the word."
        ),
        "word-time-text": repair(
            "A time is text that spells a number; the number was used.",
            "Write times as JSON numbers of seconds.",
        ),
        "word-no-duration": repair(
            "A word ends at or before its start; it was dropped.", "Correct the word's times."
        ),
        "word-outside-audio": repair(
            "A word lies wholly before or after the audio; it was dropped.",
            "Check that transcript and audio belong together and that times are in seconds.",
        ),
        "word-clipped": repair(
            "A word reaches beyond the audio; it was clipped to it.",
            "Check that transcript and audio belong together.",
        ),
        "word-end-rounded": info(
            "A word ends within the last frame, after the last sample; its end was set to the audio's end.",
        ),
    },
)
