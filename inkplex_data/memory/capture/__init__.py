"""Hidden rows of a recording: by the model, or from the files of a serving engine."""
