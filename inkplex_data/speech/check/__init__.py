"""Does the agent say what its text says: facts, spellings, and how likely a text is on the same sound."""
