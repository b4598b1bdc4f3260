"""Whether the agent's text has the agent's sound beside it: on the right channel, and before that channel ends."""

from __future__ import annotations

from collections.abc import Sequence

from inkplex_data.audio.call_scan import SIDES, AudioScan
from inkplex_data.clock import samples_to_us
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.plural import counted
from inkplex_data.problems import ProblemLog
from inkplex_data.speech.agent.place import channels_of_levels
from inkplex_data.speech.agent.word_sides import fit_of_words


def is_text_doubtful(
    words: Sequence[TimedWord], audio: AudioScan, *, main_speaker: str, log: ProblemLog
) -> bool:
    """Whether the call's text is to carry no loss, because it is not clear that the agent's channel says it.

    Words behind the end of the agent's own audio are noted too; `loss_mask` knows where that is. Raises CallRefused:
    words-other-side where the agent's channel surely does not say them; the repairs where the log is strict.
    """
    own = [word for word in words if word.speaker == main_speaker]
    if not own:
        return False
    if audio.silent["agent"]:
        log.add(
            "words-other-side",
            f"the agent's channel is silent throughout, but {counted(len(own), 'word')} of the transcript "
            f"{'is' if len(own) == 1 else 'are'} the agent's",
        )
    fit = fit_of_words(
        channels_of_levels([audio.levels_db[side] for side in SIDES]), words, main_speaker=main_speaker
    )
    doubtful = fit is not None and fit.is_doubtful
    if fit is not None and doubtful:
        log.add(
            "words-other-side" if fit.is_other_side else "words-side-doubtful",
            f"over {fit.words_us / 1e6:.1f} s of words, speech on their own channels fits them at {fit.own:+.2f}, "
            f"speech on the other ones at {fit.other:+.2f} (1 is speech within words only, 0 is chance)",
        )
    _note_words_past_end(own, audio, log)
    return doubtful


def _note_words_past_end(own: Sequence[TimedWord], audio: AudioScan, log: ProblemLog) -> None:
    end_us = samples_to_us(audio.agent_samples)
    late = [word for word in own if word.start_us >= end_us]
    if late:
        log.add(
            "words-past-agent",
            f"the agent's own audio ends at {end_us / 1e6:.3f} s, and {counted(len(late), 'word')} "
            f"{'begins' if len(late) == 1 else 'begin'} after that, the first at {late[0].start_us / 1e6:.3f} s",
        )
