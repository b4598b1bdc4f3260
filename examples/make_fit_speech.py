"""Regenerate `inkplex_data/speech/data/fit_speech.flac`: the speech that `untrained:SEED` fits its codebooks to.

    python examples/make_fit_speech.py [OUTPUT.flac]

Four utterances by four espeak-ng voices, 3.04 s each (38 Mimi frames), 24 kHz mono, two of them through
an 8 kHz telephone line, like many recorded calls. Samples are rounded to 10 bits, which keeps the file
under 150 KB. Do not replace the committed file lightly: the fit, and so
the identity of every untrained codec, depends on its bytes, and other espeak-ng versions speak differently.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import soundfile
import soxr

RATE_HZ = 24_000
UTTERANCE_SAMPLES = 38 * 1_920
TELEPHONE_HZ = 8_000
BITS = 10
UTTERANCES = (
    ("en-us", "175", "45", False, "Thanks for calling. Which charge looks wrong on your bill?"),
    ("en-gb+f3", "190", "60", True, "Hello, yes. Eighty five pounds! My usual payment is much lower."),
    ("en-gb-scotland+m3", "165", "30", False, "One moment, please, while I check the roaming fee."),
    ("en-us+f2", "200", "70", True, "Okay, sure. Whenever you are ready, just go ahead and join me."),
)
OUTPUT = Path(__file__).resolve().parents[1] / "inkplex_data" / "speech" / "data" / "fit_speech.flac"


def say(voice: str, words_per_minute: str, pitch: str, telephone: bool, text: str) -> np.ndarray:
    """One utterance at 24 kHz, peak 0.9, cut or padded with silence to `UTTERANCE_SAMPLES`."""
    command = ["espeak-ng", "-v", voice, "-s", words_per_minute, "-p", pitch, "--stdout", text]
    spoken = subprocess.run(command, capture_output=True, check=True).stdout
    samples, rate_hz = soundfile.read(io.BytesIO(spoken))
    samples = soxr.resample(samples, rate_hz, RATE_HZ, "VHQ")[:UTTERANCE_SAMPLES]
    if telephone:
        samples = soxr.resample(
            soxr.resample(samples, RATE_HZ, TELEPHONE_HZ, "VHQ"), TELEPHONE_HZ, RATE_HZ, "VHQ"
        )
    samples = samples * (0.9 / np.abs(samples).max())
    return np.pad(samples, (0, UTTERANCE_SAMPLES - len(samples)))


def main() -> None:
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    speech = np.concatenate([say(*utterance) for utterance in UTTERANCES])
    step = 2.0 ** (1 - BITS)
    soundfile.write(output, np.round(speech / step) * step, RATE_HZ, subtype="PCM_16")
    print(f"{output}: {len(speech) / RATE_HZ:.2f} s, {output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
