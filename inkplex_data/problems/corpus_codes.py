"""What a corpus says about its calls, and the agent traces that recordings are made from."""

from __future__ import annotations

from inkplex_data.problems.code_table import error, info, repair, table

CORPUS = table(
    "corpus",
    {
        "duplicate-id": error("Two calls of the corpus have the same id.", "Give every call its own `id`."),
        "path-outside-corpus": error(
            "A path leads outside the corpus folder.",
            "Keep files inside the corpus, or start the build from a folder above them.",
        ),
        "file-missing": error(
            "A file that the corpus names does not exist.", "Correct the path or add the file."
        ),
        "corpus-line-invalid": error(
            "A line of the manifest or inventory does not describe a call.",
            "Correct the line; `inkplex-data validate FILE` lists all faults in the file.",
        ),
        "call-unnamable": error(
            "The call's file has a name that cannot be an id: it holds a control character, or is not UTF-8.",
            "Rename the file.",
        ),
        "split-conflict": error(
            "Calls of one family name different splits.",
            "Give every call of the family the same `split`, or none.",
        ),
        "sidecar-invalid": error(
            "The call's sidecar is not a valid sidecar.",
            "Correct the sidecar; `inkplex-data validate FILE` lists all its faults.",
        ),
        "clip-outside": error(
            "A part of a call ends after its audio.",
            "Correct the part's end; it is in seconds of the audio file.",
        ),
        "clip-words-untimed": repair(
            "The call's transcript has no word times, so nothing tells which of its words a part of the call has; the part has none.",
            "Run `inkplex-data align` on the corpus first.",
        ),
        "sidecar-contradicts": error(
            "The manifest and the sidecar say different things about the call.",
            "Correct one of the two, or leave the field out of one.",
        ),
        "sidecar-audio-differs": error(
            "The sidecar was made for other audio: the file's name, sha256, sample rate or number of samples is another.",
            "Make the sidecar anew for this audio, or correct what it says of it under `audio`.",
        ),
        "sidecar-file-differs": error(
            "A file that the sidecar names has not the sha256 that the sidecar gives.",
            "Bring back the file that was meant, or correct the sidecar.",
        ),
        "sidecar-file-missing": info(
            "The sidecar names files that are not in the corpus; nothing of them was compared.",
            "Nothing to do, unless a path is misspelled: it is relative to the sidecar.",
        ),
        "sidecar-other-clip": info(
            "The sidecar's `clip_id` is neither the call's id nor the name of its audio.",
            "Check that it is this call's sidecar, and correct `identity.clip_id`.",
        ),
        "sidecar-model-differs": error(
            "The sidecar's `reasoning_model` is not the one whose states the call reads.",
            "Correct the sidecar, or name the recording that belongs to the call.",
        ),
        "duration-invalid": info(
            "The stated duration is not a positive number of seconds; the decoded audio decides.",
        ),
        "fields-ignored": info(
            "The inventory has fields that mean nothing here; they were not used.",
            "Nothing to do, unless one is a misspelling of a field of the manifest; then correct it.",
        ),
        "words-other-name": info(
            "The call has no words, but a file beside it may hold them under a name that words do not have.",
            "Name the file as the audio but for the suffix (`CALL.json` beside `CALL.wav`), or give it as `words` in a manifest.",
        ),
        "folders-skipped": info(
            "Folders of the corpus were not looked into: they lead outside it, or cannot be listed.",
            "Build with `--root` for a folder above both, or correct the permissions; a folder of its own can be built by itself.",
        ),
        "files-ignored": info(
            "The folder holds files that do not belong to any call.",
            "Nothing to do; to build from a JSONL file, name the file itself.",
        ),
    },
)

TRACES = table(
    "traces",
    {
        "trace-message": error(
            "A dialogue of a trace holds something that is not a message.",
            "Correct the entry named in the message, or leave the dialogue out.",
        ),
        "trace-time": error(
            "A message has an invalid time, or one before the time of an earlier message.",
            "Correct the time, or remove all times of the dialogue; a declared schedule then stands in for them.",
        ),
        "trace-field-unknown": info(
            "A trace holds a field that its reader does not understand; nothing of it is in the recordings.",
        ),
        "trace-role-unknown": info(
            "A message of a trace has a role that its reader does not understand; its text is kept under that name, as of kind other.",
        ),
        "trace-template": error(
            "The tokenizer's chat template refuses the dialogue.",
            "Correct the messages, or give tokenizer.json alone to use Inkling's own framing.",
        ),
    },
)
