"""The causal memory that a recording of the reasoning model gives to a call: pure functions of arrays."""
