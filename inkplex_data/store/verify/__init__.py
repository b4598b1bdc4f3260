"""Every digest and checksum of a store, and whether its parts belong together."""

from __future__ import annotations

from inkplex_data.store.verify.whole_store import verify_store

__all__ = ["verify_store"]
