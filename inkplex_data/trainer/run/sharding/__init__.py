"""A run whose model is divided among its processes, and its checkpoints."""
