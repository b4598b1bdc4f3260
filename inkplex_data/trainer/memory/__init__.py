"""The memory writer and its readers, and how they attach to the speech model."""
