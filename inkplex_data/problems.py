"""What happened to a call that its owner should know: every repair, loss and refusal has a code here.

Severities: `info` (noted, nothing changed), `repair` (something was dropped or changed, and counted;
`--strict` makes it an error), `error` (the call is refused and the others go on).
The table below is the only list of codes; docs/reference/problems.md is generated from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from inkplex_data.errors import CallRefused

Severity = Literal["info", "repair", "error"]


@dataclass(frozen=True)
class Code:
    """One kind of problem: the stage that finds it, how bad it is, what it means, what to do."""

    stage: str
    severity: Severity
    meaning: str
    remedy: str


CODES: dict[str, Code] = {
    # corpus
    "duplicate-id": Code(
        "corpus", "error", "Two calls of the corpus have the same id.", "Give every call its own `id`."
    ),
    "path-outside-corpus": Code(
        "corpus",
        "error",
        "A path leaves the corpus folder.",
        "Keep files inside the corpus, or start the build from a folder above them.",
    ),
    "file-missing": Code(
        "corpus", "error", "A file that the corpus names does not exist.", "Correct the path or add the file."
    ),
    "corpus-line-invalid": Code(
        "corpus",
        "error",
        "A line of the manifest or inventory does not describe a call.",
        "Correct the line; `inkplex-data validate FILE` lists every fault of the file.",
    ),
    "split-conflict": Code(
        "corpus",
        "error",
        "Calls of one family name different splits.",
        "Give every call of the family the same `split`, or none.",
    ),
    "sidecar-invalid": Code(
        "corpus",
        "error",
        "The call's sidecar cannot be read as one.",
        "`inkplex-data validate FILE` lists every fault of the sidecar.",
    ),
    "sidecar-contradicts": Code(
        "corpus",
        "error",
        "The manifest and the sidecar say different things about the call.",
        "Correct one of the two, or leave the field out of one.",
    ),
    "duration-invalid": Code(
        "corpus",
        "info",
        "The stated duration is no positive number of seconds; the decoded audio decides.",
        "Nothing to do.",
    ),
    "fields-ignored": Code(
        "corpus",
        "info",
        "The inventory has fields that this layout does not define; they were not used.",
        "To use `role`, `voice`, `split` and the like, give each line an `id`: it is then a manifest.",
    ),
    "files-ignored": Code(
        "corpus",
        "info",
        "The folder holds files that belong to no call.",
        "Nothing to do; name a JSONL file itself to build from it.",
    ),
    # recordings
    "recording-header": Code(
        "recording",
        "error",
        "The first line is not a recording header.",
        "Begin the file with {schema: inkplex/recording@1, recording: ID, model: …, tokenizer: …} as one JSON line.",
    ),
    "recording-line": Code(
        "recording",
        "error",
        "A line is not one model request.",
        "Compare the line with schemas/recording.schema.json.",
    ),
    "recording-cut": Code(
        "recording",
        "error",
        "The last line of the recording is cut off.",
        "Copy the recording again, or remove its last line.",
    ),
    "recording-token": Code(
        "recording",
        "error",
        "A token is not of the documented form.",
        "Compare the token with schemas/recording.schema.json.",
    ),
    "recording-kind": Code(
        "recording",
        "error",
        "A token has a kind that does not exist.",
        "Use setup, user, thinking, tool_call, reply, tool_result or other.",
    ),
    "recording-bytes": Code(
        "recording",
        "error",
        "The bytes of a token cannot be decoded.",
        "Give `text` as text, or `bytes_b64` as standard base64, not both.",
    ),
    "recording-time": Code(
        "recording",
        "error",
        "A token has no arrival time, or more than one.",
        "Give each token one `at`, and one `ready_at` where delivery was later, in seconds.",
    ),
    "recording-call-twice": Code(
        "recording",
        "error",
        "Two lines of the recording describe the same model request.",
        "Give every request its own `call` number.",
    ),
    "recording-states": Code(
        "recording",
        "error",
        "The states that a request names are not there.",
        "Correct `states`, or leave it out to capture them.",
    ),
    "recording-states-invalid": Code(
        "recording",
        "error",
        "States are not one finite row triple for each computed token.",
        "Export them again: one tensor [tokens, 3, width] of bfloat16 or float32 for each request.",
    ),
    "recording-states-mixed": Code(
        "recording",
        "error",
        "Some requests of the recording bring states and others do not.",
        "Give `states` for every request that computed tokens, or for none.",
    ),
    "recording-media-absent": Code(
        "recording",
        "error",
        "States of audio and image tokens need the media, which a recording does not carry.",
        "Import states of the engine that saw the media instead (`inkplex-data import states`).",
    ),
    "recording-token-id": Code(
        "recording",
        "error",
        "A token has an id that the model's vocabulary does not have.",
        "Capture with the model that the recording came from, or import its states.",
    ),
    # words
    "words-unreadable": Code(
        "words",
        "error",
        "The transcript cannot be read.",
        "Correct the file, or align the call again with `inkplex-data align --redo`.",
    ),
    "words-unknown-format": Code(
        "words",
        "error",
        "The transcript is of no format that is known here.",
        "See docs for the formats; `import words` converts them.",
    ),
    "words-no-word-times": Code(
        "words",
        "error",
        "The transcript has segments, but no word has a time.",
        "Time its words with `inkplex-data align`.",
    ),
    "words-speakers-only": Code(
        "words",
        "error",
        "The file says who speaks when, and has no words.",
        "Give it to `inkplex-data diarize`, and the words in a file of their own.",
    ),
    "words-clock-offset": Code(
        "words",
        "info",
        "The two sides were recorded on clocks that began at different times; words are on the shared one.",
        "Where each side is a file of its own, check that both files begin at the same moment.",
    ),
    "words-clock-unsteady": Code(
        "words",
        "info",
        "The distance between a side's own clock and the shared one changes within the call.",
        "Check the words of that side against its audio.",
    ),
    "words-not-utf8": Code(
        "words",
        "repair",
        "Bytes of the transcript are not UTF-8; each was replaced by U+FFFD.",
        "Save the file as UTF-8.",
    ),
    "words-out-of-order": Code(
        "words",
        "info",
        "Words are not sorted by start; they were sorted, equal starts in file order.",
        "Nothing to do.",
    ),
    "word-malformed": Code(
        "words",
        "repair",
        "An entry of the transcript is not a word; it was dropped.",
        "Correct the entry.",
    ),
    "word-empty": Code(
        "words",
        "repair",
        "A word has no text but white space; it was dropped.",
        "Remove the entry.",
    ),
    "word-text-replaced": Code(
        "words",
        "repair",
        "A word holds half a surrogate pair; it was replaced by U+FFFD.",
        "Correct the word's text.",
    ),
    "word-punctuation-attached": Code(
        "words",
        "repair",
        "Punctuation without times was attached to the word before it.",
        "Nothing to do, unless the file should time it.",
    ),
    "word-untimed": Code(
        "words",
        "repair",
        "A word has no usable times; it was dropped.",
        "Time the word, for instance with `inkplex-data align --redo`.",
    ),
    "word-times-interpolated": Code(
        "words",
        "repair",
        "A word without times was put into the short gap between its neighbours.",
        "Time the word if its onset matters.",
    ),
    "word-start-missing": Code(
        "words",
        "repair",
        "A word has an end but no start; the start was set from its neighbour.",
        "Time the word.",
    ),
    "word-end-missing": Code(
        "words",
        "repair",
        "A word has a start but no end; the end was set from its neighbour.",
        "Time the word.",
    ),
    "word-time-text": Code(
        "words",
        "repair",
        "A time is text that spells a number; the number was used.",
        "Write times as JSON numbers of seconds.",
    ),
    "word-no-duration": Code(
        "words",
        "repair",
        "A word ends where it starts, or before; it was dropped.",
        "Correct the word's times.",
    ),
    "word-outside-audio": Code(
        "words",
        "repair",
        "A word lies wholly before or after the audio; it was dropped.",
        "Check that transcript and audio belong together and that times are in seconds.",
    ),
    "word-clipped": Code(
        "words",
        "repair",
        "A word reaches beyond the audio; it was clipped to it.",
        "Check that transcript and audio belong together.",
    ),
    "word-end-rounded": Code(
        "words",
        "info",
        "A word ends within the last frame, after the last sample; its end was set to the audio's end.",
        "Nothing to do.",
    ),
    # text stream
    "text-other-speaker": Code(
        "interleave",
        "info",
        "A word is not the main speaker's; only the agent speaks in the text stream.",
        "Nothing to do, unless the speaker labels are wrong.",
    ),
    "text-no-duration": Code(
        "interleave",
        "repair",
        "A word ends where it starts, or before; it is not in the text stream.",
        "Correct the word's times.",
    ),
    "text-before-delay": Code(
        "interleave",
        "repair",
        "A word is over before the text stream begins, because the text runs ahead of the audio.",
        "Use a smaller `text.delay_s` if the opening words matter.",
    ),
    "text-no-pieces": Code(
        "interleave",
        "repair",
        "The tokenizer finds no piece in a word.",
        "Correct the word's text.",
    ),
    "text-reserved-id": Code(
        "interleave",
        "repair",
        "A piece has the id of padding or end-of-padding (3 or 0); it was not placed.",
        "Use a tokenizer with byte fallback, which has no unknown pieces.",
    ),
    "text-replaced": Code(
        "interleave",
        "repair",
        "The next word began before all pieces of a word had a frame; the rest was not placed.",
        "`text.overflow: shift` lets the next word wait instead. Check the times if many words are hit.",
    ),
    "text-past-end": Code(
        "interleave",
        "repair",
        "The recording ended before all pieces of a word had a frame; the rest was not placed.",
        "Cut the recording later, or not at all.",
    ),
    "text-no-input": Code(
        "interleave",
        "repair",
        "Pieces lie in the opening frames that a negative delay leaves without text; they were not placed.",
        "Check words that begin before the recording.",
    ),
    "text-all-pad": Code(
        "interleave",
        "error",
        "No word of the agent is in the text stream.",
        "Without a transcript: make one with `inkplex-data align`, or build with `--words whisper`. With one: name the agent's label with `words.agent`, check the words' times. If this is meant: `--words none`.",
    ),
    # prefix
    "prefix-too-long": Code(
        "prefix",
        "error",
        "The voice and role prefix fills the model's context, so no dialogue would fit.",
        "Shorten the role text or the voice sample; nothing is trimmed by itself.",
    ),
    "prefix-no-voice": Code(
        "prefix",
        "info",
        "There is no other recording of the voice in the same split; the prefix has no voice sample.",
        "Add a recording of the voice, or name a sample under `prefix.voices` in the recipe.",
    ),
    # memory
    "recording-duplicate-token": Code(
        "memory",
        "error",
        "Two tokens of a recording claim the same call and position.",
        "List every computed token once, under the request that computed it.",
    ),
    "recording-prefix-unknown": Code(
        "memory",
        "error",
        "A cached prefix names a request that the recording does not have.",
        "Add the request, or correct `cached.call`.",
    ),
    "recording-prefix-cycle": Code(
        "memory",
        "error",
        "Cached prefixes form a circle, so nobody computed their tokens.",
        "Correct `cached.call`: a prefix comes from an earlier request.",
    ),
    "recording-prefix-too-long": Code(
        "memory",
        "error",
        "A cached prefix is longer than the request that it comes from.",
        "Correct `cached.tokens`.",
    ),
    "recording-prefix-order": Code(
        "memory",
        "error",
        "A request comes before the owner of its cached prefix.",
        "Put requests in the order in which they ran, and check the times of both.",
    ),
    "recording-arrival-order": Code(
        "memory",
        "error",
        "An arrival falls within a request: a token arrives before the one that precedes it.",
        "Check `at` and `ready_at`: positions of one request arrive in order.",
    ),
    "recording-twin-differs": Code(
        "memory",
        "error",
        "Counterfactual twins differ before the moment at which `branch_of` says that they fork.",
        "Correct `branch_of.at`, or record the twin again from the same past.",
    ),
    # audio
    "audio-unreadable": Code(
        "audio",
        "error",
        "Neither libsndfile nor FFmpeg decodes the file.",
        "Convert it with a program that plays it, for instance `ffmpeg -i FILE call.flac`; Fisher and "
        "Switchboard files with Shorten compression need `sph2pipe -f wav` first.",
    ),
    "audio-headerless": Code(
        "audio",
        "error",
        "The file holds bare samples: nothing in it tells encoding, rate and channels.",
        "Convert it, for instance `ffmpeg -f mulaw -ar 8000 -ac 1 -i FILE call.wav` (`-f alaw`, `-f s16le` for "
        "other encodings, `-ar` and `-ac` as recorded).",
    ),
    "audio-rate": Code(
        "audio",
        "error",
        "The sample rate that the file declares is not one of sound (4 kHz to 768 kHz).",
        "Export the call again at its true sample rate.",
    ),
    "audio-mono": Code(
        "audio",
        "error",
        "The file has one channel where agent and caller are expected on a channel each.",
        "Give the two sides as a stereo file or as two files, or start with `--mono`, which separates the speakers.",
    ),
    "audio-channels": Code(
        "audio",
        "error",
        "It is not clear which channel is the agent's and which the caller's.",
        'Name them in the manifest, counted from 0: `"channels": {"agent": 0, "caller": 1}`.',
    ),
    "audio-too-short": Code(
        "audio",
        "error",
        "A channel holds less than one frame of 80 ms.",
        "Check whether the recording failed; remove the call or replace the file.",
    ),
    "audio-not-finite": Code(
        "audio", "error", "The audio has NaN or infinite samples.", "Export the call again, as 16-bit PCM."
    ),
    "audio-out-of-range": Code(
        "audio",
        "error",
        "The audio has samples beyond 8 times full scale, so it is probably scaled as integers.",
        "Divide the samples by 32,768 (or export as 16-bit PCM), so that full scale is 1.0.",
    ),
    "audio-dual-mono": Code(
        "audio",
        "error",
        "Both channels hold the same recording, so nobody's voice is on its own.",
        "Give a recording with one speaker a channel, or one channel of this file with `--mono`, which "
        "separates the speakers.",
    ),
    "audio-both-silent": Code(
        "audio", "error", "Both channels are silent.", "Check whether the recording failed; remove the call."
    ),
    "audio-damaged": Code(
        "audio",
        "error",
        "Samples are missing inside the file, so everything later would be out of place.",
        "Copy or download the file again; `ffmpeg -i FILE -f null -` shows where it is damaged.",
    ),
    "audio-changed": Code(
        "audio",
        "error",
        "The file was replaced or grew while the build ran.",
        "Run the build again when the file is complete.",
    ),
    "audio-truncated": Code(
        "audio",
        "repair",
        "The file ends before the length that its header declares; what is there was used.",
        "Copy or download the file again if the rest of the call matters.",
    ),
    "audio-extra-tracks": Code(
        "audio",
        "repair",
        "The file holds several audio tracks; only the first was used.",
        "Extract the tracks that hold agent and caller, and give them as two files.",
    ),
    "audio-length-differs": Code(
        "audio",
        "info",
        "The header declares another length than the file has; every decoded sample was used.",
        "Nothing to do.",
    ),
    "audio-channel-lengths": Code(
        "audio",
        "info",
        "Agent's and caller's file differ in length; the missing end counts as missing, not as silence.",
        "Check that both files begin at the same moment.",
    ),
    "audio-band-limited": Code(
        "audio",
        "info",
        "A side has the band of a telephone, up to 4 kHz: resampled to 24 kHz it is still not 24 kHz speech.",
        "Train on it knowingly, or widen its band first (recipe key `audio.bandwidth`).",
    ),
    "audio-bleed": Code(
        "audio",
        "info",
        "One side's voice is heard on the other side's channel, louder than 30 dB below its own.",
        "Nothing to do for a little; remove the echo before building where a model must not hear itself.",
    ),
    "audio-silent-channel": Code(
        "audio", "info", "One channel is silent throughout.", "Nothing to do if that speaker said nothing."
    ),
    # which channel is the agent's
    "agent-guessed": Code(
        "channels",
        "info",
        "Which channel is the agent's was guessed from the call, as `audio.agent: auto` asks.",
        "Nothing to do; `inkplex-data channels` lists the guesses, and `channels` in the manifest overrides them.",
    ),
    "agent-undecided": Code(
        "channels",
        "error",
        "The call does not tell clearly enough which channel is the agent's.",
        "Name the `channels` in the manifest, or build with `--agent left` or `--agent right`.",
    ),
    # alignment, diarization and speech checks
    "words-not-found": Code(
        "align",
        "error",
        "No word was heard in the agent's channel.",
        "Check that the agent's channel is the right one (`channels`), listen to it, or try a larger Whisper model.",
    ),
    "words-not-aligned": Code(
        "align",
        "repair",
        "A stretch of known text does not fit its sound, or is not said there; its words have no times.",
        "Check the text and the times of the stretch, or let `inkplex-data align` transcribe the call without it.",
    ),
    "words-text-differs": Code(
        "align",
        "error",
        "The text beside a recording is not what is said in it.",
        "Remove the text, or name the right one; without it `inkplex-data align` transcribes the call.",
    ),
    "words-name-taken": Code(
        "align",
        "error",
        "A text without word times has the name under which its words would be written.",
        "Write to a folder of its own (`-o DIR`), or rename the text.",
    ),
    "words-agent-unknown": Code(
        "align",
        "error",
        "Captions or plain text name their speakers, and nothing says which of them is the agent.",
        "Name the agent's label: `inkplex-data align --agent-label LABEL`, recipe key `words.agent`.",
    ),
    "words-side-contradicts": Code(
        "align",
        "error",
        "Captions of the agent are spoken on the caller's side, or the other way round.",
        "Give the call's `channels`, or name another label as the agent.",
    ),
    "words-side-assumed": Code(
        "align",
        "info",
        "Captions or plain text do not say who is the agent; it was told by who speaks in their time, or as the only speaker.",
        "Nothing to do if it is right; else name the agent's label.",
    ),
    "words-side-unclear": Code(
        "align",
        "repair",
        "A caption does not say whose it is, and both sides speak in its time, or neither; its words were left out.",
        "Name the speakers in the captions.",
    ),
    "word-filtered": Code(
        "align",
        "info",
        "The transcriber's words were repeated, invented in silence or outside speech; they were left out.",
        "Nothing to do, unless they were really said.",
    ),
    "speakers-not-found": Code(
        "diarize",
        "error",
        "Nobody speaks in the recording, so there is no main speaker.",
        "Listen to the file; remove it if it holds no speech.",
    ),
    "speaker-label-unknown": Code(
        "diarize",
        "error",
        "The speaker who is to become the agent is not among those of the recording.",
        "Name one of the labels that the message lists, or most, first or random (`audio.main_speaker`, `--main`).",
    ),
    "streams-constructed": Code(
        "diarize",
        "info",
        "Agent and caller were separated from one channel; where both speak, the mixture is in the main stream.",
        "Nothing to do; prefer two-channel recordings for learning overlap.",
    ),
    "speech-word-error": Code(
        "check-speech",
        "repair",
        "The agent's audio says something else than its text in more words than is allowed.",
        "Synthesise the call again, or correct its text.",
    ),
    "speech-fact-lost": Code(
        "check-speech",
        "repair",
        "A name, number, amount, date or negation of the text is not what the audio says.",
        "Listen at the time that is given; synthesise the sentence again, or correct the text.",
    ),
    "speech-masked": Code(
        "check-speech",
        "info",
        "The call failed the recipe's `check_speech`, so its text and agent audio carry no loss.",
        "Correct what its other problems name, or choose another `check_speech.on_failure`.",
    ),
    # traces
    "trace-message": Code(
        "traces",
        "error",
        "A dialogue of a trace holds something that is no message.",
        "Correct the entry that is named, or leave the dialogue out.",
    ),
    "trace-time": Code(
        "traces",
        "error",
        "A message has a time that is none, or that lies before the time of an earlier message.",
        "Correct the time, or remove the times of the dialogue; a declared schedule then stands in for them.",
    ),
    "trace-template": Code(
        "traces",
        "error",
        "The tokenizer's chat template refuses the dialogue.",
        "Correct the messages, or give tokenizer.json alone, for Inkling's own framing.",
    ),
    # export
    "export-too-long": Code(
        "export",
        "error",
        "The call is too long for a WAV file, which ends at 4 GiB.",
        "Cut the call into shorter ones before exporting it.",
    ),
    # store
    "audio-in-two-families": Code(
        "store",
        "error",
        "The same audio appears in two families, so it could land in two splits.",
        "Give both calls the same `family`, or remove one.",
    ),
    # build
    "augmented": Code(
        "build",
        "info",
        "The call was changed on purpose, as the recipe's `augment` and `audio` ask; its sidecar says how.",
        "Nothing to do.",
    ),
    "augmented-words": Code(
        "build",
        "info",
        "Words of the agent were cut at a constructed barge-in, or withheld from the text stream, as the recipe asks.",
        "Nothing to do.",
    ),
    "augment-noise-unusable": Code(
        "build",
        "error",
        "The recording drawn from `augment.noise.folder` for this call cannot be decoded, or holds no sound.",
        "Take the file out of the folder and run again; the calls that are done stay.",
    ),
    "family-frozen": Code(
        "build",
        "info",
        "The corpus asks for another split than the one in which the store has the family; it stays there.",
        "Nothing to do; to move a family, build a new store.",
    ),
    "recording-id-twice": Code(
        "build",
        "error",
        "Two different recordings have the same id.",
        "Give each recording its own id in its header.",
    ),
    "unexpected": Code(
        "build",
        "error",
        "An unforeseen fault stopped this call; the others went on.",
        "Read the message; if it is not about your data, report it with the log file.",
    ),
}


@dataclass(frozen=True)
class Problem:
    """One row of `problems.parquet`."""

    call_id: str
    stage: str
    code: str
    severity: Severity
    item: str
    message: str


def without_root(problem: Problem, root: Path) -> Problem:
    """`problem` on one line, with paths inside `root` relative to it: a store tells nothing of its machine."""
    item, message = problem.item, " ".join(problem.message.split())
    for spelling in sorted({str(root), str(root.absolute()), str(root.resolve())}, key=len, reverse=True):
        if spelling not in (".", os.sep):
            item, message = (
                text.replace(f"{spelling}{os.sep}", "").replace(spelling, "the corpus folder")
                for text in (item, message)
            )
    return replace(problem, item=item, message=message)


@dataclass
class ProblemLog:
    """Collects the problems of one call. `strict` turns every repair into a refusal (`--strict`)."""

    call_id: str
    strict: bool = False
    problems: list[Problem] = field(default_factory=list)

    def add(self, code: str, message: str, *, item: str = "") -> None:
        """Note one problem. `item` says which word, channel or token; `message` gives the value got.

        Raises CallRefused when the code's severity is `error`, or `repair` under `strict`.
        """
        kind = CODES[code]
        if kind.severity == "error" or (self.strict and kind.severity == "repair"):
            raise CallRefused(code, message, where=item or None, next_step=kind.remedy)
        self.problems.append(Problem(self.call_id, kind.stage, code, kind.severity, item, message))

    def refuse(self, error: CallRefused) -> Problem:
        """Turn a refusal into the problem row that reports it, and keep it."""
        kind = CODES[error.code]
        problem = Problem(self.call_id, kind.stage, error.code, "error", error.where or "", str(error))
        self.problems.append(problem)
        return problem

    def count(self, *codes: str) -> int:
        return sum(problem.code in codes for problem in self.problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def extend(self, problems: Iterable[Problem]) -> None:
        self.problems.extend(problems)
