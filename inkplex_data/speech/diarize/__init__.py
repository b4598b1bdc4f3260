"""Who speaks when on one channel, and two streams made from it."""
