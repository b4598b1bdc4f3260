"""The diagnostics of a model as JSON values, tokens spelled out."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from inkplex_data.soma.learner.soma_diagnostics import diagnose

if TYPE_CHECKING:
    from inkplex_data.soma.learner.learner import Learner
    from inkplex_data.soma.tokens.soma_tokenizer import SomaTokenizer


def look_inside(learner: Learner, tokenizer: SomaTokenizer) -> dict[str, Any]:
    """The fields of `soma_diagnostics.Diagnostics`, with the spelling in place of each token's id."""
    body = asdict(diagnose(learner))
    for name in ("active", "likely"):
        body[name] = [[tokenizer.piece(token), *more] for token, *more in body[name]]
    return body
