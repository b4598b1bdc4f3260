"""Who speaks when, which side is whose, what is said: channels, alignment, diarization, speech checks."""

from __future__ import annotations

from inkplex_data.problems.code_table import error, info, repair, table

CHANNELS = table(
    "channels",
    {
        "agent-guessed": info(
            "Which channel is the agent's was guessed from the call, as `audio.agent: auto` asks.",
            "Nothing to do; `inkplex-data channels` lists the guesses, and `channels` in the manifest overrides them.",
        ),
        "agent-undecided": error(
            "The call does not show clearly enough which channel is the agent's.",
            "Name the `channels` in the manifest, or build with `--agent left` or `--agent right`.",
        ),
    },
)

ALIGN = table(
    "align",
    {
        "words-not-found": error(
            "No word was heard in the agent's channel.",
            "Check that the agent's channel is the right one (`channels`), listen to it, or try a larger Whisper model.",
        ),
        "words-not-aligned": repair(
            "A stretch of known text does not match its audio, or is not said there; its words have no times.",
            "Check the text and the times of the stretch, or let `inkplex-data align` transcribe the call without it.",
        ),
        "words-text-differs": error(
            "The text beside the audio is not what is said in it.",
            "Remove the text, or name the right one; without it `inkplex-data align` transcribes the call.",
        ),
        "words-name-taken": error(
            "A text without word times already has the name under which its words would be written.",
            "Write to another folder (`-o DIR`), or rename the text.",
        ),
        "words-agent-unknown": error(
            "Captions or plain text name their speakers, but nothing says which of them is the agent.",
            "Name the agent's label with `inkplex-data align --agent-label LABEL` or the recipe key `words.agent`.",
        ),
        "words-side-contradicts": error(
            "Captions of the agent are spoken on the caller's side, or the other way round.",
            "Give the call's `channels`, or name another label as the agent.",
        ),
        "words-side-assumed": info(
            "Captions or plain text do not say who the agent is; this was inferred from who speaks at that time, or from there being only one speaker.",
            "Nothing to do if it is right; otherwise name the agent's label.",
        ),
        "words-side-unclear": repair(
            "A caption does not say whose it is, and both sides speak at that time, or neither does; its words were left out.",
            "Name the speakers in the captions.",
        ),
        "word-filtered": info(
            "Words of the transcriber were repeated, invented in silence, or outside speech; they were left out.",
            "Nothing to do, unless they were really said.",
        ),
    },
)

DIARIZE = table(
    "diarize",
    {
        "speakers-not-found": error(
            "Nobody speaks in the audio, so there is no main speaker.",
            "Listen to the file; remove it if it holds no speech.",
        ),
        "speaker-label-unknown": error(
            "The speaker who is to become the agent is not among those in the audio.",
            "Name one of the labels listed in the message, or most, first or random (`audio.main_speaker`, `--main`).",
        ),
        "streams-constructed": info(
            "Agent and caller were separated from one channel; where both speak, the mixture is in the main stream.",
            "Nothing to do; prefer two-channel audio for learning overlap.",
        ),
    },
)

CHECK_SPEECH = table(
    "check-speech",
    {
        "speech-word-error": repair(
            "The agent's audio differs from its text in more words than is allowed.",
            "Synthesise the call again, or correct its text.",
        ),
        "speech-fact-lost": repair(
            "A name, number, amount, date or negation of the text is not what the audio says.",
            "Listen at the time given; synthesise the sentence again, or correct the text.",
        ),
        "speech-masked": info(
            "The call failed the recipe's `check_speech`, so its text and agent audio carry no loss.",
            "Correct what its other problems name, or choose another `check_speech.on_failure`.",
        ),
    },
)
