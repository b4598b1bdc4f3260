"""Words and their times from speech: Whisper inside detected speech, then forced alignment."""
