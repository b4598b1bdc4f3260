"""Which channel of a call is the agent's: what was said, who spoke first, where the agent's words lie."""
