"""Readers of agent traces, one module a format. Each sets `FORMAT`."""
