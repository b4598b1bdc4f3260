"""The thin trainer: a frozen speech model, one memory writer and its readers, and how they are trained and scored.

The names below load PyTorch when they are asked for; `import inkplex_data.trainer` alone does not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from inkplex_data.trainer.memory.writer_and_readers import MemoryReader, MemoryWriter
    from inkplex_data.trainer.model.personaplex import PersonaPlexConfig, PersonaPlexLM
    from inkplex_data.trainer.run.objective import voice_and_text_loss

__all__ = ["MemoryReader", "MemoryWriter", "PersonaPlexConfig", "PersonaPlexLM", "voice_and_text_loss"]

_MODULES: Final = {
    "MemoryReader": "memory.writer_and_readers",
    "MemoryWriter": "memory.writer_and_readers",
    "PersonaPlexConfig": "model.personaplex",
    "PersonaPlexLM": "model.personaplex",
    "voice_and_text_loss": "run.objective",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
