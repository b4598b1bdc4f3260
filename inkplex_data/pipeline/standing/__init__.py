"""What is published already: whether it still fits the corpus, what a build makes anew of it, what it keeps."""
