"""inkplex-data: recorded two-speaker calls, and a reasoning model's recorded work, as training data.

import inkplex_data as ink
store = ink.open_store("out/demo")
call = store.call("bill-85-credit")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inkplex_data.store.reader import Call, Store, open_store

__version__ = "0.1.0"
__all__ = ["Call", "Store", "__version__", "open_store"]


def __getattr__(name: str) -> Any:
    # The store brings Polars and Zarr; `import inkplex_data` alone stays instant.
    if name in {"Call", "Store", "open_store"}:
        from inkplex_data.store import reader

        return getattr(reader, name)
    raise AttributeError(f"module 'inkplex_data' has no attribute {name!r}")
