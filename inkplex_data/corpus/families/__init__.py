"""Which calls belong together, and which split each group goes into."""
