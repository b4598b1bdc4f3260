"""What serving engines write of a model's states, made into states of recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from inkplex_data.errors import UsageError
from inkplex_data.memory.engines.vllm_dumps import Dump, open_dumps


def open_engine(name: str) -> Callable[[Path, Sequence[int]], list[Dump]]:
    """What opens the files of an engine. Raises UsageError for one whose files are not the rows of a memory."""
    if name.lower() == "vllm":
        return open_dumps
    if name.lower() == "sglang":
        raise UsageError(
            "SGLang taps a block before its short convolution, which is not the block's completed output",
            where="--from",
            next_step="Serve the model with vLLM and its hidden-state connector, or capture with `inkplex-data capture`.",
        )
    raise UsageError(f"there is no engine {name!r}", where="--from", next_step="Known: vllm.")


def engine_layers(text: str) -> list[int]:
    """Layer ids from text: numbers with commas between them. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 6 for part in parts):
        raise UsageError(f"layers are numbers with commas between them (got {text!r})", where="--layers")
    return [int(part) for part in parts]
