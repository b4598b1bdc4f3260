"""One pass of a model over a corpus: what is read is learned once, and saved with the place that was reached."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from inkplex_data.soma.app.corpora import Corpus
from inkplex_data.soma.app.look_inside import look_inside
from inkplex_data.soma.app.running_figures import Figures, RunningFigures
from inkplex_data.soma.learner.soma_checkpoint import save_learner
from inkplex_data.soma.tokens.soma_tokenizer import IncrementalDecoder, SomaTokenizer
from inkplex_data.soma.tokens.token_stream import Cursor, TokenStream

if TYPE_CHECKING:
    from inkplex_data.soma.learner.learner import Learner

Tell = Callable[[str, dict[str, Any]], None]
"""Takes the name of an event (begun, figures, look, dream, saved) and what it says, as JSON values."""


@dataclass(frozen=True)
class TrainOptions:
    """save_every_s: seconds from one save to the next. tell_every_s: at least so long between two figures.
    look_every_s: and between two looks inside. dream_every: batches from one dream to the next, 0 for none. dream_tokens: most tokens of a dream."""

    save_every_s: float = 60.0
    tell_every_s: float = 1.0
    look_every_s: float = 5.0
    dream_every: int = 0
    dream_tokens: int = 64


@dataclass(frozen=True)
class PassSummary:
    """Of what this run read: `is_done` where that was the rest of the corpus."""

    figures: Figures
    cursor: Cursor
    is_done: bool


def train_pass(
    learner: Learner,
    path: Path,
    corpus: Corpus,
    tokenizer: SomaTokenizer,
    options: TrainOptions,
    *,
    tell: Tell,
    is_stopped: Callable[[], bool] = lambda: False,
) -> PassSummary:
    """Go on in a corpus to its end, or until `is_stopped` says so between two batches; then save to `path`.

    The place is in the checkpoint, so that after a kill at any moment the next run learns what was not learned yet.
    Raises as reading, learning and saving do; what was saved stands.
    """
    where = str(path)
    saved = learner.cursors.get(corpus.key)
    stream = TokenStream(
        corpus.documents, tokenizer, None if saved is None else Cursor.from_json(saved, where=where)
    )
    tell("begun", {"model": where, "corpus": corpus.key, "cursor": stream.cursor.to_json()})
    whole, recent = RunningFigures(), RunningFigures()
    saved_s = looked_s = time.monotonic()
    batches, is_done = 0, False

    def save() -> None:
        learner.cursors[corpus.key] = stream.cursor.to_json()
        tell("saved", {"revision": save_learner(learner, path), "cursor": stream.cursor.to_json()})

    while not is_stopped():
        batch = stream.take(learner.wanted_tokens)
        if batch is None:
            is_done = True
            break
        report = learner.learn(batch)
        batches += 1
        for figures in (whole, recent):
            figures.add(report, int(batch.source_bytes.sum()))
        if recent.seconds >= options.tell_every_s:
            tell("figures", _figures(recent.figures(), stream.cursor))
            recent = RunningFigures()
        if time.monotonic() - looked_s >= options.look_every_s:
            tell("look", look_inside(learner, tokenizer))
            looked_s = time.monotonic()
        if options.dream_every and batches % options.dream_every == 0:
            tell("dream", _dream(learner, tokenizer, options.dream_tokens, seed=batches))
        if time.monotonic() - saved_s >= options.save_every_s:
            save()
            saved_s = time.monotonic()
    if recent.tokens:
        tell("figures", _figures(recent.figures(), stream.cursor))
    save()
    return PassSummary(whole.figures(), stream.cursor, is_done)


@contextmanager
def stop_between_batches() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM within the block end the work at the next batch, and at once when they come again.

    Elsewhere than on the main thread signals are left alone.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in _STOPPING}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


def _figures(figures: Figures, cursor: Cursor) -> dict[str, Any]:
    return {**figures.to_json(), "read_bytes": cursor.source_bytes, "read_tokens": cursor.tokens}


def _dream(learner: Learner, tokenizer: SomaTokenizer, tokens: int, *, seed: int) -> dict[str, Any]:
    text = "".join(IncrementalDecoder(tokenizer).text(learner.dream(tokens, seed=seed)))
    return {"text": text, "ratio": learner.counts.dream_ratio}
