"""Who is the agent: labels and channels of a transcript mapped to agent and caller by a rule that is written down."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inkplex_data.corpus.transcripts.transcript import Transcript
from inkplex_data.corpus.word_repair import SPEAKER_CALLER, SPEAKER_MAIN, SPEAKER_UNKNOWN


@dataclass(frozen=True)
class SpeakerRule:
    """How the agent is found among a transcript's labels.

    `agent`: a label of the transcript (in any case, where one alone is meant), or the number of a channel; it
    overrides everything. Without it the
    agent is, in this order: the label that the file itself calls the agent (`ParticipantRole`,
    `speaker_role`, a speaker named "Agent"), or the one of channel `agent_channel`, for files with a label a
    channel. Labels that only tell voices apart ("spk_0") are nobody's until `agent` names one.
    `main`: the label under which the agent's words go on; a file that has it already is left alone. None: there is
    no agent, since all speakers are in one stream, and all labels stay.
    `swapped`: take the other side for the agent.
    """

    agent: str | None = None
    agent_channel: int = 0
    main: str | None = SPEAKER_MAIN
    swapped: bool = False


DEFAULT_RULE = SpeakerRule()


def agent_label(transcript: Transcript, rule: SpeakerRule = DEFAULT_RULE) -> str | None:
    """The label of the agent's words in `transcript`, None where the rule finds none."""
    labels = transcript.speakers
    if rule.agent is not None:
        if rule.agent in labels:
            return rule.agent
        alike = [label for label in labels if label.casefold() == rule.agent.casefold()]
        if len(alike) == 1:
            return alike[0]
        return transcript.channels.get(int(rule.agent)) if rule.agent.isdecimal() else None
    if rule.main in labels:
        return rule.main
    called = [label for label in labels if label.casefold() == "agent"]
    named = called[0] if len(called) == 1 else None
    return transcript.agent or named or transcript.channels.get(rule.agent_channel)


def map_speakers(transcript: Transcript, rule: SpeakerRule = DEFAULT_RULE) -> Transcript:
    """The transcript with the agent's label replaced by `rule.main` and the caller's by SPEAKER_CALLER.

    The caller is the one other label. Where there are several others, or where no agent is found, labels
    stay as they are, so that a build refuses the call and names them.
    """
    if rule.main is None:
        return transcript
    agent = agent_label(transcript, rule)
    if agent is None or (agent == rule.main and not rule.swapped):
        return transcript
    others = [label for label in transcript.speakers if label not in (agent, SPEAKER_UNKNOWN)]
    caller = others[0] if len(others) == 1 else None
    if rule.swapped:
        agent, caller = caller, agent
    names = {} if caller is None else {caller: SPEAKER_CALLER}
    if agent is not None:
        names[agent] = rule.main
    if rule.main not in names:
        names[rule.main] = SPEAKER_UNKNOWN
    return replace(
        transcript,
        words=[replace(word, speaker=names.get(word.speaker, word.speaker)) for word in transcript.words],
        channels={index: names.get(label, label) for index, label in transcript.channels.items()},
        agent=rule.main if agent is not None else None,
        clock_offsets_us={names.get(k, k): value for k, value in transcript.clock_offsets_us.items()},
    )
