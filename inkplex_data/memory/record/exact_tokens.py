"""Tokens as an engine names them, with the kinds of the messages that they render.

An engine may sample a text in other tokens than its tokenizer makes of it, and render a message otherwise than the template
at hand. States are of the engine's tokens; what kind they are, the messages tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Final

from inkplex_data.corpus.traces.dialogue_requests import Spelled

MOST_COMPARED: Final = 4_000_000
"""Pairs of tokens that are compared where two spellings differ; beyond, kinds go on from the last token that agrees."""


def exact_tokens(
    rendered: Sequence[Spelled], ids: Sequence[int], spelled: Callable[[int], tuple[bytes, bool] | None]
) -> list[Spelled] | None:
    """The tokens `ids`, each as `rendered` has it, or of the kind and message of the one before it there.

    None where `spelled` does not know the bytes of one, or nothing is rendered.
    """
    if not rendered:
        return None
    found = []
    for token, (index, is_same) in zip(ids, _places([one.id for one in rendered], ids), strict=True):
        if is_same:
            found.append(rendered[index])
        elif (own := spelled(token)) is not None:
            text, special = own
            found.append(replace(rendered[index], id=token, spelled=text, special=special, media=None))
        else:
            return None
    return found


def _places(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, bool]]:
    """For each of `other` its index in `one`, and whether it is the same there or follows what is."""
    limit = min(len(one), len(other))
    head = next((at for at in range(limit) if one[at] != other[at]), limit)
    tail = next((at for at in range(limit - head) if one[-1 - at] != other[-1 - at]), limit - head)
    places = [(at, True) for at in range(head)]
    middle, others = one[head : len(one) - tail], other[head : len(other) - tail]
    reached = 0
    blocks: Sequence[tuple[int, int, int]] = ()
    if len(middle) * len(others) <= MOST_COMPARED:
        blocks = SequenceMatcher(None, middle, others, autojunk=False).get_matching_blocks()
    for start, at, size in [*blocks, (len(middle), len(others), 0)]:
        last = max(len(places) and places[-1][0], 0)
        places += [(last, False)] * (at - reached)
        places += [(head + start + step, True) for step in range(size)]
        reached = at + size
    return places + [(len(one) - tail + step, True) for step in range(tail)]
