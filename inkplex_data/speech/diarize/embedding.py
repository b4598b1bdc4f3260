"""Voice embeddings of short windows: the GE2E encoder whose weights the Resemblyzer wheel carries.

Only the wheel's weights are used. Its own front end needs packages that current Python environments lack, so the
40-band mel spectrogram (400-sample windows every 160 at 16 kHz) and the network are written out here.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.errors import MissingLibraryError
from inkplex_data.libraries import require

RATE_HZ: Final = 16_000
HOP_SAMPLES: Final = 160
WINDOW_SAMPLES: Final = 400
BANDS: Final = 40
WIDTH: Final = 256
LEVEL_DB: Final = -30.0
"""RMS level to which the samples are brought: that of the encoder's training material."""
_BATCH: Final = 64


def voice_embeddings(
    samples: npt.NDArray[np.float32], starts: npt.NDArray[np.int64], window: int
) -> npt.NDArray[np.float32]:
    """Unit vectors float32 [k, 256] of windows of `window` steps of 10 ms that begin at the steps `starts` [k].

    `samples`: float32 [n] at 16 kHz. A window that reaches beyond the samples is filled with silence.
    Raises MissingLibraryError.
    """
    import torch

    if not len(starts):
        return np.zeros((0, WIDTH), np.float32)
    level = np.sqrt(np.mean(np.square(samples, dtype=np.float64))) + 1e-9
    mel = _mel(torch.from_numpy((samples * (10 ** (LEVEL_DB / 20) / level)).astype(np.float32)))
    short = int(starts.max()) + window - len(mel)
    if short > 0:
        mel = torch.nn.functional.pad(mel, (0, 0, 0, short))
    lstm, linear = _encoder()
    out = []
    with torch.no_grad():
        for first in range(0, len(starts), _BATCH):
            cut = torch.stack(
                [mel[start : start + window] for start in starts[first : first + _BATCH].tolist()]
            )
            _, (hidden, _) = lstm(cut)
            raw = torch.relu(linear(hidden[-1]))
            out.append(raw / raw.norm(dim=1, keepdim=True).clamp_min(1e-9))
    return torch.cat(out).numpy()


def _mel(samples: Any) -> Any:
    """Power mel spectrogram float32 [t, 40] with Slaney's scale and normalisation."""
    import torch

    functional = require("torchaudio.functional", extra="diarize", needed_for="voice embeddings")
    spectrum = torch.stft(
        samples,
        WINDOW_SAMPLES,
        HOP_SAMPLES,
        window=torch.hann_window(WINDOW_SAMPLES),
        pad_mode="constant",
        return_complex=True,
    )
    banks = functional.melscale_fbanks(
        WINDOW_SAMPLES // 2 + 1, 0.0, RATE_HZ / 2, BANDS, RATE_HZ, norm="slaney", mel_scale="slaney"
    )
    return spectrum.abs().square().T @ banks


@cache
def _encoder() -> tuple[Any, Any]:
    import torch

    found = importlib.util.find_spec("resemblyzer")
    if found is None or found.origin is None:
        raise MissingLibraryError("resemblyzer", extra="diarize", needed_for="voice embeddings")
    stored = torch.load(Path(found.origin).parent / "pretrained.pt", map_location="cpu", weights_only=True)
    state = stored["model_state"]
    lstm = torch.nn.LSTM(BANDS, WIDTH, 3, batch_first=True).eval()
    linear = torch.nn.Linear(WIDTH, WIDTH).eval()
    for module, name in ((lstm, "lstm."), (linear, "linear.")):
        module.load_state_dict({k.removeprefix(name): v for k, v in state.items() if k.startswith(name)})
    return lstm, linear
