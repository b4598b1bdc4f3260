"""The agent's text stream and the prefix before it."""

from __future__ import annotations

from inkplex_data.problems.code_table import error, info, repair, table

INTERLEAVE = table(
    "interleave",
    {
        "text-other-speaker": info(
            "A word is not the main speaker's; only the agent speaks in the text stream.",
            "Nothing to do, unless the speaker labels are wrong.",
        ),
        "text-no-duration": repair(
            "A word ends where it starts, or before; it is not in the text stream.",
            "Correct the word's times.",
        ),
        "text-before-delay": repair(
            "A word is over before the text stream begins, because the text runs ahead of the audio.",
            "Use a smaller `text.delay_s` if the opening words matter.",
        ),
        "text-no-pieces": repair("The tokenizer finds no piece in a word.", "Correct the word's text."),
        "text-reserved-id": repair(
            "A piece has the id of padding or end-of-padding (3 or 0); it was not placed.",
            "Use a tokenizer with byte fallback, which has no unknown pieces.",
        ),
        "text-replaced": repair(
            "The next word began before all pieces of a word had a frame; the rest was not placed.",
            "`text.overflow: shift` lets the next word wait instead. Check the times if many words are hit.",
        ),
        "text-past-end": repair(
            "The recording ended before all pieces of a word had a frame; the rest was not placed.",
            "Cut the recording later, or not at all.",
        ),
        "text-no-input": repair(
            "Pieces lie in the opening frames that a negative delay leaves without text; they were not placed.",
            "Check words that begin before the recording.",
        ),
        "text-all-pad": error(
            "No word of the agent is in the text stream.",
            "Without a transcript: make one with `inkplex-data align`, or build with `--words whisper`. With one: name the agent's label with `words.agent`, check the words' times. If this is meant: `--words none`.",
        ),
    },
)

PREFIX = table(
    "prefix",
    {
        "prefix-too-long": error(
            "The voice and role prefix fills the model's context, so no dialogue would fit.",
            "Shorten the role text or the voice sample; nothing is trimmed by itself.",
        ),
        "prefix-no-voice": info(
            "There is no other recording of the voice in the same split; the prefix has no voice sample.",
            "Add a recording of the voice, or name a sample under `prefix.voices` in the recipe.",
        ),
    },
)
