"""Builds, stores and exports."""

from __future__ import annotations

from inkplex_data.problems.code_table import error, info, table

EXPORT = table(
    "export",
    {
        "export-too-long": error(
            "The call is too long for a WAV file, which holds at most 4 GiB.",
            "Cut the call into shorter ones before exporting it.",
        ),
    },
)

STORE = table(
    "store",
    {
        "audio-in-two-families": error(
            "The same audio appears in two families, as it is, or coded otherwise and with different splits.",
            "Give both calls the same `family`, or remove one.",
        ),
        "family-contradicts": error(
            "The call has its source, conversation or a reference in common with a call of another split.",
            "Give both the same `split`, or none; a family that is published stays in its split.",
        ),
    },
)

BUILD = table(
    "build",
    {
        "augmented": info(
            "The call was changed on purpose, as the recipe's `augment` and `audio` ask; its sidecar says how.",
        ),
        "augmented-words": info(
            "Words of the agent were cut at a constructed barge-in, or words or pieces withheld from the model, as the recipe asks.",
        ),
        "playback-cut": info(
            "The playback device played less of the agent's speech than was generated: what was not heard is gone from the agent's sound and words, and carries no loss.",
        ),
        "playback-unknown": info(
            "Nothing tells how much of the agent's speech was heard before it was cancelled: nothing behind the earliest possible cut carries loss.",
            "Give the extent that a playback device observed as `played` and `playback_ack` in the sidecar's history.",
        ),
        "augment-noise-unusable": error(
            "The noise file drawn from `augment.noise.folder` for this call cannot be decoded, or holds no sound.",
            "Remove the file from the folder and build again; finished calls are kept.",
        ),
        "family-joined": info(
            "The family has something in common with another one: a source, a conversation, a reference, or a recording "
            "that is coded otherwise, resampled or levelled. Both are one family, in one split.",
            "Nothing to do; to say so yourself, give both calls the same `family`.",
        ),
        "family-frozen": info(
            "The corpus puts the family in a different split from the store's; it stays where the store has it.",
            "Nothing to do; to move a family, build a new store.",
        ),
        "recording-id-twice": error(
            "Two different recordings have the same id.", "Give each recording its own id in its header."
        ),
        "unexpected": error(
            "An unexpected fault stopped this call; the others went on.",
            "Read the message; if it is not about your data, report it with the log file.",
        ),
    },
)
