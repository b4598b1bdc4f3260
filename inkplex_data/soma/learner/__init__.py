"""The learner: traces, network, updates, generation and checkpoints (seeds/001, sections 3 to 9 and 11)."""
