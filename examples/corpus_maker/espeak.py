"""espeak-ng through its C library: a sentence's waveform and the sample at which each word begins.

The library reports where words and phonemes begin while it synthesises, so the timings are the ones
the sound was made with; nothing is aligned afterwards. Written for espeak-ng 1.51; another version
pronounces a little differently, so its corpus has other bytes and other word times.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_AUDIO_OUTPUT_SYNCHRONOUS: Final = 2
_PHONEME_EVENTS_DONT_EXIT: Final = 0x0001 | 0x8000
_CHARS_UTF8: Final = 1
_POSITION_CHARACTER: Final = 1
_RATE, _PITCH, _RANGE = 1, 3, 4
_EVENT_END, _EVENT_WORD, _EVENT_PHONEME = 0, 1, 7

_MERGED_ONSETS: Final = {"the": "D", "not": "n", "been": "b"}
"""Words that espeak-ng may run into the one before ("of the", "has not"), and the phoneme that begins them."""


class _Id(ctypes.Union):
    _fields_ = [("number", ctypes.c_int), ("name", ctypes.c_char_p), ("phoneme", ctypes.c_char * 8)]


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _Id),
    ]


_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


@dataclass(frozen=True)
class Voice:
    """`name` is an espeak-ng voice with a variant ("en+f3"); pitch 0–100; speed in words a minute."""

    name: str
    pitch: int = 50
    words_per_minute: int = 175


@dataclass(frozen=True)
class Speech:
    """A synthesised sentence: mono int16 samples, and (text, first sample, sample after the last) per word."""

    samples: NDArray[np.int16]
    sample_rate_hz: int
    words: tuple[tuple[str, int, int], ...]
    version: str


class Espeak:
    """One loaded espeak-ng library. The library holds global state, so a process needs only one."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libespeak-ng.so.1")
        except OSError as error:
            raise RuntimeError(
                "libespeak-ng.so.1 is missing; on Debian: apt-get install espeak-ng"
            ) from error
        self.sample_rate_hz: int = self._library.espeak_Initialize(
            _AUDIO_OUTPUT_SYNCHRONOUS, 0, None, _PHONEME_EVENTS_DONT_EXIT
        )
        if self.sample_rate_hz <= 0:
            raise RuntimeError("espeak-ng did not start; is the package espeak-ng-data there?")
        self._library.espeak_Info.restype = ctypes.c_char_p
        self.version: str = self._library.espeak_Info(None).decode().split()[0]
        self._blocks: list[NDArray[np.int16]] = []
        self._events: list[tuple[int, int, int, str]] = []
        self._callback = _CALLBACK(self._receive)  # kept alive: the library holds only a pointer
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples: Any, count: int, events: Any) -> int:
        if samples and count > 0:
            self._blocks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        index = 0
        while events[index].type != _EVENT_END:
            event = events[index]
            phoneme = event.id.phoneme.decode("utf-8", "replace") if event.type == _EVENT_PHONEME else ""
            self._events.append((event.type, event.text_position - 1, event.sample, phoneme))
            index += 1
        return 0

    def say(self, text: str, voice: Voice) -> Speech:
        """Synthesise `text`. Raises ValueError for an unknown voice, or a word whose onset is not reported."""
        if self._library.espeak_SetVoiceByName(voice.name.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice {voice.name!r}")
        self._library.espeak_SetParameter(_RATE, voice.words_per_minute, 0)
        self._library.espeak_SetParameter(_PITCH, voice.pitch, 0)
        self._blocks, self._events = [], []
        spoken = text.encode() + b"\0"
        self._library.espeak_Synth(spoken, len(spoken), 0, _POSITION_CHARACTER, 0, _CHARS_UTF8, None, None)
        self._library.espeak_Synchronize()
        samples = np.concatenate(self._blocks) if self._blocks else np.zeros(0, np.int16)
        return Speech(
            samples, self.sample_rate_hz, tuple(_word_times(text, self._events, len(samples))), self.version
        )


def _word_times(
    text: str, events: list[tuple[int, int, int, str]], samples: int
) -> list[tuple[str, int, int]]:
    """Onset and end of every whitespace-delimited word of `text`, in samples.

    A word ends where the next one begins, or where the pause after it begins, whichever is first.
    """
    words = []
    begin = 0
    for word in text.split():
        begin = text.index(word, begin)
        words.append((word, begin, begin + len(word)))
        begin += len(word)

    onsets: list[int] = []
    for word, first, after in words:
        reported = [s for kind, position, s, _ in events if kind == _EVENT_WORD and first <= position < after]
        if reported:
            onsets.append(reported[0])
            continue
        phoneme = _MERGED_ONSETS.get(word.strip(".,?!").lower())
        merged = [s for _, position, s, p in events if p == phoneme and position < first and s > onsets[-1]]
        if phoneme is None or not merged:
            raise ValueError(f"espeak-ng reports no onset for {word!r} in {text!r}; say it differently")
        onsets.append(merged[0])

    times = []
    pauses = [sample for kind, _, sample, phoneme in events if kind == _EVENT_PHONEME and phoneme[:1] == "_"]
    for index, (word, _, _) in enumerate(words):
        onset = onsets[index]
        following = onsets[index + 1] if index + 1 < len(onsets) else samples
        end = min([following, *(pause for pause in pauses if pause > onset)])
        times.append((word, onset, end))
    return times


def say_alone(text: str, voice: Voice) -> Speech:
    """`say` in a fresh process.

    espeak-ng's noise source runs on from one utterance to the next, so in a shared process a sentence's
    samples would depend on everything that was said before it.
    """
    request = json.dumps({"text": text, "voice": asdict(voice)})
    done = subprocess.run(
        [sys.executable, __file__], input=request.encode(), capture_output=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"espeak-ng could not say {text!r}: {done.stderr.decode().strip()}")
    header, samples = done.stdout.split(b"\n", 1)
    fields = json.loads(header)
    return Speech(
        np.frombuffer(samples, np.int16),
        fields["sample_rate_hz"],
        tuple((word, start, end) for word, start, end in fields["words"]),
        fields["version"],
    )


def _serve() -> None:
    """One request of `say_alone`: JSON on standard input; a line of JSON and the samples on standard output."""
    request = json.load(sys.stdin)
    speech = Espeak().say(request["text"], Voice(**request["voice"]))
    header = {"sample_rate_hz": speech.sample_rate_hz, "words": speech.words, "version": speech.version}
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n" + speech.samples.tobytes())


if __name__ == "__main__":
    _serve()
