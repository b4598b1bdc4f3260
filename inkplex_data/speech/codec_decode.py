"""Codes to waveform in windows, so that an hour decodes in the memory of ten seconds.

Mimi's decoder is causal, but transformers streams only its transformer. The upsampler and the
convolutions see a bounded past, so each window is given that much of it again and its output is cut off.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from transformers import MimiModel

WINDOW_FRAMES: Final = 125
POSITION_SAMPLES: Final = 960
"""Samples of one position of the decoder transformer, which runs at 25 Hz: two positions a frame."""

PAST_POSITIONS: Final = 12
"""Positions before a window that its samples depend on, rounded up: six through the first convolution
(kernel 7), one through each transposed convolution and two through each residual block, the later ones at
8, 48, 240 and 960 times the rate: under nine together."""


def decode_windows(
    model: MimiModel, codes: torch.Tensor, *, window_frames: int = WINDOW_FRAMES
) -> npt.NDArray[np.float32]:
    """Samples [frames × 1,920] of codes int64 [codebooks, frames], equal to `model.decode` of the whole up to
    float rounding. To be called under `torch.inference_mode()`."""
    decoder = model.decoder
    pieces: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)]
    past: torch.Tensor | None = None
    cache = None
    for start in range(0, codes.shape[1], window_frames):
        # The upsampler's kernel spans this frame and the one before.
        first = max(start - 1, 0)
        latents = model.quantizer.decode(codes[None, :, first : start + window_frames])
        positions = decoder.upsample(latents)[..., 2 * (start - first) :]
        output = decoder.decoder_transformer(positions.transpose(1, 2), cache=cache, use_cache=True)
        cache = output.cache
        positions = output.last_hidden_state.transpose(1, 2)
        count = positions.shape[-1] * POSITION_SAMPLES
        if past is not None:
            positions = torch.cat([past, positions], dim=-1)
        past = positions[..., -PAST_POSITIONS:]
        pieces.append(decoder.decoder_seanet(positions)[0, 0, -count:].float().cpu().numpy())
    return np.concatenate(pieces)
