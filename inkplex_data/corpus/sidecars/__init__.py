"""What is known about a call besides its audio: models, reading, cropping."""
