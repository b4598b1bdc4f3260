"""Bytes to tokens and back, the protocol between speakers, and corpora as streams of tokens."""
