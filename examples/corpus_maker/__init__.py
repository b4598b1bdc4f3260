"""Makes the example corpus: scenes are played by espeak-ng and a scripted reasoning model, then written out."""
