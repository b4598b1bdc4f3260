"""Does the agent say what it could know, when it could know it? Claims, branches of one past, and their verdicts."""
