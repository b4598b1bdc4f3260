"""The Zarr arrays of a shard: frames and states, written, read and laid out."""
