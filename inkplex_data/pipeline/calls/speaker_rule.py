"""Which label of a call's transcript is the agent's, as a recipe says."""

from __future__ import annotations

from inkplex_data.config.recipe import Recipe
from inkplex_data.corpus.entry import CallEntry
from inkplex_data.corpus.transcripts import SpeakerRule


def speaker_rule(entry: CallEntry, recipe: Recipe) -> SpeakerRule:
    """A channel's label goes with the channel."""
    channel = 0
    if entry.channels is not None:
        # In a transcript the labels are those of the call as it was before its sides were exchanged.
        channel = entry.channels.caller if entry.swapped else entry.channels.agent
    return SpeakerRule(
        agent=recipe.words.agent,
        agent_channel=channel,
        main=recipe.text.main_speaker,
        swapped=entry.swapped,
    )
