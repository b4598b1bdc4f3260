"""What an utterance asserts, what evidence carries, and which of it stood when it was said. Pure."""
