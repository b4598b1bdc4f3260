"""One audio file: its header, what it claims, its decoder, and how it is written."""
