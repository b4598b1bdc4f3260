"""whisper-timestamped: `{"text", "segments": [{…, "words": [{"text", "start", "end", "confidence"}]}], "language"}`."""

from __future__ import annotations

from inkplex_data.corpus.transcripts.segments import nested_words, words_of_segments
from inkplex_data.corpus.transcripts.transcript import Content, Transcript, TranscriptFormat, label_speakers

NAME = "whisper-timestamped"


def _detect(content: Content) -> bool:
    return any(isinstance(word.get("text"), str) for word in nested_words(content.json))


def _parse(content: Content) -> Transcript:
    words = words_of_segments(content.json["segments"], text="text", confidence="confidence")
    return Transcript(label_speakers(words), NAME, content.path)


FORMAT = TranscriptFormat(NAME, "whisper-timestamped JSON", (".json", ".words.json"), _detect, _parse)
