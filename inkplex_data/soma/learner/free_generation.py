"""Tokens that soma makes itself: perceived, never learned (seeds/001, section 9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from inkplex_data.soma.learner.soma_network import SomaNetwork
from inkplex_data.soma.learner.trace_bank import ProjectedBank, TraceBank
from inkplex_data.soma.tokens.soma_tokenizer import DREAM, SOMA, STATE, TURN, UNKNOWN, USER

SILENT: Final = (UNKNOWN, STATE, USER, SOMA, DREAM)
"""What soma never says: the unknown token and the labels that only the program writes."""


def free_tokens(
    network: SomaNetwork, bank: TraceBank, limit: int, *, seed: int, temperature: float
) -> Iterator[int]:
    """At most `limit` tokens of language, one by one, until the learned turn piece ends them; `bank` stays as it is.

    temperature: 0 takes the likeliest token each time.
    """
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        retained = ProjectedBank(bank, network.dictionary)
    for _ in range(limit):
        with torch.no_grad():
            token = _drawn(network(retained.present()[None])[0], temperature, random)
        if token == TURN:
            return
        with torch.no_grad():
            retained.push(token)
        yield token


def _drawn(logits: Tensor, temperature: float, random: torch.Generator) -> int:
    logits = logits.clone()
    logits[list(SILENT)] = -torch.inf
    if temperature == 0:
        return int(logits.argmax())
    return int(torch.multinomial(torch.softmax(logits.double() / temperature, 0), 1, generator=random))
