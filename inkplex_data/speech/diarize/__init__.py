"""Who speaks when in a one-channel recording, and two streams made from it."""
