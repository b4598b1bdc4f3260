"""A part of the text stream withheld from the model, so that it does not come to rely on it (seeds/002, stage 2). Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inkplex_data.audio.augment_plan import AugmentPlan
from inkplex_data.corpus.word_repair import TimedWord
from inkplex_data.grid import NO_INPUT, TAG_FIRST, TAG_LATER, TAG_PAD
from inkplex_data.speech.interleave_types import BOS, EOS, TextStream


@dataclass(frozen=True)
class Withheld:
    """The stream as it is stored, and how many words or pieces are withheld from it.

    `hidden` bool [frames]: frames whose text stays as a target and is no input; elsewhere what is withheld is gone
    from the stream and carries no loss.
    """

    text: TextStream
    hidden: npt.NDArray[np.bool_]
    count: int
    told: str = "0 are withheld"


def withhold(
    text: TextStream, words: Sequence[TimedWord], plan: AugmentPlan, speaker: str | None
) -> Withheld:
    """Withhold the words or pieces of `speaker` that the plan's seed draws.

    The EPAD before them stays, since the agent's voice begins. A BOS or EOS goes with its word, not with a piece.
    """
    hidden = np.zeros(len(text.ids), np.bool_)
    onsets = np.flatnonzero(text.word_frames >= 0)
    onsets = onsets[np.argsort(text.word_frames[onsets], kind="stable")]
    if not plan.text_mask or not len(onsets):
        return Withheld(text, hidden, 0)
    own = np.flatnonzero(np.isin(text.roles, (TAG_FIRST, TAG_LATER)))
    own = own[own >= text.word_frames[onsets[0]]]
    owner = onsets[np.searchsorted(text.word_frames[onsets], own, side="right") - 1]
    random = np.random.Generator(np.random.PCG64(plan.text_seed))
    is_by = np.array([word.is_by(speaker) for word in words], bool)
    is_piece = ~np.isin(text.ids[own], (BOS, EOS)) | (text.roles[own] == TAG_LATER)
    if plan.text_mask_unit == "word":
        drawn = (random.random(len(words)) < plan.text_mask) & is_by & (text.word_frames >= 0)
        chosen, count = drawn[owner], int(drawn.sum())
    else:
        chosen = (random.random(len(own)) < plan.text_mask) & is_by[owner] & is_piece
        count = int(chosen.sum())
    told = f"{count} {'' if plan.text_mask_unit == 'word' else 'pieces '}are withheld"
    if plan.text_mask_loss == "keep":
        hidden[own[chosen]] = True
        return Withheld(text, hidden, count, f"{told} as input, not as target")
    ids, roles = text.ids.copy(), text.roles.copy()
    ids[own[chosen]], roles[own[chosen]] = NO_INPUT, TAG_PAD
    lost = np.bincount(owner[chosen & is_piece], minlength=len(words))
    placed = np.maximum(text.word_placed - lost, 0).astype(text.word_placed.dtype)
    frames = np.full_like(text.word_frames, -1)
    frames[owner[~chosen][::-1]] = own[~chosen][::-1]  # reversed: a word's earliest frame is written last
    frames[placed == 0] = -1
    left = dataclasses.replace(text, ids=ids, roles=roles, word_frames=frames, word_placed=placed)
    return Withheld(left, hidden, count, told)
