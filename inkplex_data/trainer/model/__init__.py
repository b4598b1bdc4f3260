"""PersonaPlex and Moshi language models, and their streaming generation."""
