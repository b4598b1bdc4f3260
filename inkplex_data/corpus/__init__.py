"""What people bring: manifests, transcripts, sidecars and task recordings, read without trust.

`read.read_corpus` lists the calls of a corpus, `transcripts.read_transcript` and `words.repair_words`
give a call's words, `recording.read_recording` streams a task recording, `sidecar` and `crop` hold what
is known about a call besides its audio, and `validate.validate_path` names every fault of a file.
"""
