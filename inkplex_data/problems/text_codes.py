"""The agent's text stream and the prefix before it."""

from __future__ import annotations

from inkplex_data.problems.code_table import error, info, repair, table

INTERLEAVE = table(
    "interleave",
    {
        "text-other-speaker": info(
            "A word is not the main speaker's; only the agent's words go into the text stream.",
            "Nothing to do, unless the speaker labels are wrong.",
        ),
        "text-no-duration": repair(
            "A word ends at or before its start; it is not in the text stream.",
            "Correct the word's times.",
        ),
        "text-before-delay": repair(
            "A word is over before the text stream begins, because the text runs ahead of the audio.",
            "Use a smaller `text.delay_s` if the opening words matter.",
        ),
        "text-no-pieces": repair("The tokenizer makes no pieces of a word.", "Correct the word's text."),
        "text-byte-pieces": info(
            "The tokenizer spells more than a third of the agent's text byte by byte: it was made for another language, and such text takes many frames.",
            "Name a tokenizer that knows the language under `text.tokenizer`.",
        ),
        "text-reserved-id": repair(
            "A piece has the id of padding or end-of-padding (3 or 0); it was not placed.",
            "Use a tokenizer with byte fallback, which has no unknown pieces.",
        ),
        "text-replaced": repair(
            "The next word began before all pieces of a word had a frame; the rest was not placed.",
            "Use `text.overflow: shift`, which lets the next word wait, and check the times if many words are affected.",
        ),
        "text-past-end": repair(
            "The audio ended before all pieces of a word had a frame; the rest was not placed.",
            "Cut the call later, or not at all.",
        ),
        "text-no-input": repair(
            "Pieces lie in the opening frames that a negative delay leaves without text; they were not placed.",
            "Check the words that begin before the audio.",
        ),
        "text-all-pad": error(
            "No word of the agent is in the text stream.",
            "Without a transcript, make one with `inkplex-data align`, or build with `--words whisper`. With one, name the agent's label with `words.agent`, and check the words' times. If no text is intended, build with `--words none`.",
        ),
    },
)

PREFIX = table(
    "prefix",
    {
        "prefix-too-long": error(
            "The voice and role prefix fills the model's context, so no dialogue would fit.",
            "Shorten the role text or the voice sample; nothing is trimmed automatically.",
        ),
        "prefix-no-voice": info(
            "Neither a call of the same split nor the sidecar's prompt gives the prefix a sample of the call's voice, so it has none.",
            "Add a call with this voice or the file that the sidecar names, or name a sample under `prefix.voices` in the recipe.",
        ),
    },
)

SURPRISE = table(
    "surprise",
    {
        "surprise-outlier": repair(
            "The call's text costs a model far more, or far fewer, bits per byte than that of other calls.",
            "Read the words that the message names: they may be of another language, out of order, or one phrase said again and again.",
        ),
        "surprise-unknown": info(
            "The recipe's `surprise.scores` do not have the call, so nothing is known against it.",
            "Score a store with this call by `inkplex-data soma score`, and build again.",
        ),
    },
)
