"""Recordings of a reasoning model at work: by a proxy in front of its engine, or token by token from a loop of one's own."""
