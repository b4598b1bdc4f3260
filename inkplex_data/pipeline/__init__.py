"""A build: its stages, its plan, where units of work run, what is published."""
