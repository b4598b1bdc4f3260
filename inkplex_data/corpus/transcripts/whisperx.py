"""WhisperX: `{"segments": [{…, "words": [{"word", "start", "end", "score", "speaker"}]}], "word_segments": […]}`.

Words that its alphabet cannot spell have no times, and speakers are missing where diarization found none.
"""

from __future__ import annotations

from inkplex_data.corpus.transcripts.segments import listed_words, nested_words, words_of_segments
from inkplex_data.corpus.transcripts.transcript import Content, Transcript, TranscriptFormat, label_speakers

NAME = "whisperx"


def _detect(content: Content) -> bool:
    document = content.json
    if not isinstance(document, dict):
        return False
    return "word_segments" in document or any(
        "word" in word and ("score" in word or "speaker" in word) for word in nested_words(document)
    )


def _parse(content: Content) -> Transcript:
    document = content.json
    if any(True for _ in nested_words(document)):
        words = words_of_segments(document["segments"], text="word", confidence="score")
    else:
        flat = document.get("word_segments", [])
        words = listed_words(content, "word_segments", flat, confidence="score")
    return Transcript(label_speakers(words), NAME, content.path)


FORMAT = TranscriptFormat(NAME, "WhisperX JSON", (".json",), _detect, _parse, priority=1)
