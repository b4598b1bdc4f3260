"""Task recordings of the reasoning model: their lines, and what their requests say about each other."""

from __future__ import annotations

from inkplex_data.problems.code_table import error, table

RECORDING = table(
    "recording",
    {
        "recording-header": error(
            "The first line is not a recording header.",
            "Begin the file with {schema: inkplex/recording@1, recording: ID, model: …, tokenizer: …} as one JSON line.",
        ),
        "recording-line": error(
            "A line does not describe one model request.",
            "Compare the line with schemas/recording.schema.json.",
        ),
        "recording-cut": error(
            "The last line of the recording is cut off.", "Copy the recording again, or remove its last line."
        ),
        "recording-token": error(
            "A token does not have the documented form.",
            "Compare the token with schemas/recording.schema.json.",
        ),
        "recording-kind": error(
            "A token has a kind that does not exist.",
            "Use setup, user, thinking, tool_call, reply, tool_result or other.",
        ),
        "recording-bytes": error(
            "The bytes of a token cannot be decoded.",
            "Give `text` as text, or `bytes_b64` as standard base64, not both.",
        ),
        "recording-time": error(
            "A token has no arrival time, or more than one.",
            "Give each token one `at`, and one `ready_at` where delivery was later, in seconds.",
        ),
        "recording-call-twice": error(
            "Two lines of the recording describe the same model request.",
            "Give every request its own `call` number.",
        ),
        "recording-states": error(
            "The states that a request names do not exist.",
            "Correct `states`, or leave it out to capture them.",
        ),
        "recording-states-absent": error(
            "No file of an engine's dump holds the context of a request.",
            "Have the engine write its tokens (`include_output_tokens`), or let it read the whole context once more as a "
            "prompt; check that recording and dump are of one tokenizer.",
        ),
        "recording-states-invalid": error(
            "The states are not three finite rows for each computed token.",
            "Export them again: one tensor [tokens, 3, width] of floats for each request.",
        ),
        "recording-states-zero": error(
            "Rows of the states are zero throughout, which no model computes; parts of an array were probably never written.",
            "Export the states again, and check that every chunk of the array they came from was written.",
        ),
        "recording-states-repeated": error(
            "Different tokens have the same states in every bit, which no model computes; a part was probably written twice.",
            "Export the states again, each token's own.",
        ),
        "recording-states-unidentified": error(
            "States do not say which model computed them, from which input.",
            "Name it in each file's metadata and in the recording's header, or give `--accept-unidentified-states`, which "
            "marks them for ever.",
        ),
        "recording-states-streams": error(
            "The states are other streams of the model than those that a memory is made of.",
            "Export the completed outputs of blocks 28 and 34 and the output of the final norm, not raw taps.",
        ),
        "recording-states-differ": error(
            "States are of another model, runtime, tokenizer or input than what they would be joined with.",
            "Use states of this model for exactly these tokens, or build them into a store of their own.",
        ),
        "recording-states-mixed": error(
            "Some requests of the recording name states and others do not.",
            "Give `states` for every request that computed tokens, or for none.",
        ),
        "recording-media": error(
            "What an audio token stands for is not described as it should be.",
            "Give each run of audio tokens one span in `audio`: token, path, start_s, end_s, and channel where there are several.",
        ),
        "recording-media-absent": error(
            "States of audio and image tokens need the media, which the recording does not carry.",
            "Name the audio in the request's `audio`, or import the states from the engine that saw the media "
            "(`inkplex-data import states`).",
        ),
        "recording-token-id": error(
            "A token has an id that is not in the model's vocabulary.",
            "Capture with the model that the recording came from, or import its states.",
        ),
    },
)

MEMORY = table(
    "memory",
    {
        "recording-duplicate-token": error(
            "Two tokens of a recording claim the same request and position.",
            "List every computed token once, under the request that computed it.",
        ),
        "recording-prefix-unknown": error(
            "A cached prefix names a request that the recording does not have.",
            "Add the request, or correct `cached.call`.",
        ),
        "recording-prefix-cycle": error(
            "Cached prefixes form a cycle, so no request computed their tokens.",
            "Correct `cached.call`: a prefix comes from an earlier request.",
        ),
        "recording-prefix-too-long": error(
            "A cached prefix is longer than the request that it comes from.", "Correct `cached.tokens`."
        ),
        "recording-prefix-order": error(
            "A request comes before the owner of its cached prefix.",
            "Put requests in the order in which they ran, and check the times of both.",
        ),
        "recording-arrival-order": error(
            "Arrivals go backwards within a request: a token arrives before the one that precedes it.",
            "Check `at` and `ready_at`: positions of one request arrive in order.",
        ),
        "recording-twin-differs": error(
            "Counterfactual twins differ before the moment at which `branch_of` says they fork.",
            "Correct `branch_of.at`, or record the twin again from the same past.",
        ),
    },
)
