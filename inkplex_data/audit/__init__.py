"""Proofs about a store by a second route: arrivals, tokens, sidecars."""
