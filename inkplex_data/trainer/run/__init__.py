"""A training run: objective, updates, checkpoints, checks, ranks."""
