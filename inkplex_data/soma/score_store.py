"""What the texts of a store cost a model: nats of every word, turn and call, and of every task trace.

Each text is read from one and the same state with no change of weights, so that a score does not depend on its place in the
store. Sums are made from the words up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from inkplex_data.soma.tokens.protocol import ROLE, Side, TargetWeights
from inkplex_data.soma.tokens.soma_tokenizer import TURN, IntArray, SomaTokenizer
from inkplex_data.soma.tokens.store_text import call_turns, recording_kinds, word_text
from inkplex_data.soma.tokens.token_stream import TokenBatch
from inkplex_data.text_scores import SCORES

if TYPE_CHECKING:
    from inkplex_data.soma.learner.learner import Learner
    from inkplex_data.store.reader import Store

BATCH_TOKENS: Final = 512
SIDES: Final[dict[Side, str]] = {"soma": "agent", "user": "caller"}

Costs = npt.NDArray[np.float64]
Text = tuple[Side | None, Sequence[bytes]]
"""A turn: whose it is, and its text in the parts that are summed apart."""


def score_store(
    learner: Learner, store: Store, tokenizer: SomaTokenizer, *, advance: Callable[[], object] = lambda: None
) -> pl.DataFrame:
    """`text_scores.SCORES` of every task trace and call of a store. The learner's state is as it was before.

    `advance` is called after each text. Raises StoreCorruptError for damaged bytes.
    """
    rows: list[dict[str, Any]] = []
    for recording_id in store.owners("recordings")["recording_id"]:
        rows += _recording_rows(learner, store, tokenizer, recording_id)
        advance()
    for call_id in store.call_ids:
        rows += _call_rows(learner, store, tokenizer, call_id)
        advance()
    return pl.DataFrame(rows, schema=SCORES).with_columns(
        pl.when(pl.col("source_bytes") > 0)
        .then(pl.col("nats") / math.log(2) / pl.col("source_bytes"))
        .alias("bits_per_byte")
    )


def costs_of(
    learner: Learner, tokenizer: SomaTokenizer, turns: Sequence[Text]
) -> list[list[tuple[float, int]]]:
    """Nats and tokens of every part of every turn, read from the learner's state, which stays as it is."""
    spans: list[list[int]] = []
    parts: list[IntArray] = []
    for side, texts in turns:
        encoded = [tokenizer.encode(text) for text in texts]
        spans.append([len(ids) for ids in encoded])
        parts += encoded if side is None else [_piece(ROLE[side]), *encoded, _piece(TURN)]
    ids = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    sums = np.concatenate([[0.0], np.cumsum(_nats(learner, tokenizer, ids))])
    found, at = [], 0
    for (side, _), lengths in zip(turns, spans, strict=True):
        at += side is not None
        costs = []
        for length in lengths:
            costs.append((float(sums[at + length] - sums[at]), length))
            at += length
        found.append(costs)
        at += side is not None
    return found


def _nats(learner: Learner, tokenizer: SomaTokenizer, ids: IntArray) -> Costs:
    weights = TargetWeights().of(ids)
    before = learner.state()
    try:
        found = [
            learner.score(
                TokenBatch(
                    ids[at : at + BATCH_TOKENS].astype(np.int64),
                    weights[at : at + BATCH_TOKENS],
                    tokenizer.piece_bytes[ids[at : at + BATCH_TOKENS]].astype(np.int64),
                )
            )
            for at in range(0, len(ids), BATCH_TOKENS)
        ]
    finally:
        learner.restore(before)
    return np.concatenate(found) if found else np.zeros(0)


def _piece(piece: int) -> IntArray:
    return np.array([piece], np.int32)


def _call_rows(
    learner: Learner, store: Store, tokenizer: SomaTokenizer, call_id: str
) -> Iterable[dict[str, Any]]:
    turns = call_turns(store, call_id)
    texts: list[Text] = [(turn.side, [word_text(word) for word in turn.words]) for turn in turns]
    rows, whole = [], []
    for number, (turn, (_, parts), costs) in enumerate(
        zip(turns, texts, costs_of(learner, tokenizer, texts), strict=True)
    ):
        about = {"call_id": call_id, "side": SIDES[turn.side], "turn_ix": number}
        words = [
            _row("word", cost, len(part), **about, **word)
            for word, part, cost in zip(turn.words, parts, costs, strict=True)
        ]
        times = {"start_us": words[0]["start_us"], "end_us": max(word["end_us"] for word in words)}
        text = " ".join(word["text"] or "" for word in turn.words)
        whole.append(_total("turn", words, **about, **times, text=text))
        rows += words
    sides = [
        (None, whole),
        *((side, [turn for turn in whole if turn["side"] == side]) for side in SIDES.values()),
    ]
    calls = [
        _total("call", turns, call_id=call_id, side=side) for side, turns in sides if turns or side is None
    ]
    return [*calls, *whole, *rows]


def _recording_rows(
    learner: Learner, store: Store, tokenizer: SomaTokenizer, recording_id: str
) -> Iterable[dict[str, Any]]:
    turns = recording_kinds(store, recording_id)
    costs = costs_of(learner, tokenizer, [(turn.side, [turn.text]) for _, turn in turns])
    rows = [
        _row(
            "turn",
            cost,
            len(turn.text),
            recording_id=recording_id,
            side=kind,
            turn_ix=number,
            text=turn.text.decode("utf-8", "replace"),
        )
        for number, ((kind, turn), [cost]) in enumerate(zip(turns, costs, strict=True))
    ]
    return [_total("recording", rows, recording_id=recording_id), *rows]


def _row(level: str, cost: tuple[float, int], source_bytes: int, **about: Any) -> dict[str, Any]:
    row = {"level": level, "nats": cost[0], "tokens": cost[1], "source_bytes": source_bytes, **about}
    return {name: row.get(name) for name in SCORES}


def _total(level: str, parts: Sequence[dict[str, Any]], **about: Any) -> dict[str, Any]:
    def total(name: str) -> Any:
        return sum(part[name] for part in parts)

    return _row(level, (float(total("nats")), total("tokens")), total("source_bytes"), **about)
