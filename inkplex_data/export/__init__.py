"""Calls for other people's trainers: the layout of Moshi fine-tuning, and Hugging Face datasets, out and in."""
