"""Whisper as a judge of texts: what it hears, and how likely it finds a text on the same sound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.libraries import require
from inkplex_data.speech.align.weights import NEEDED_FOR, PACKAGED, load_whisper

BATCH: Final = 16


class WhisperScorer:
    """Whisper as a judge: what it hears, and how likely it finds given texts, in float32 [n] of up to 30 s."""

    def __init__(self, model: str = PACKAGED) -> None:
        """Raises CheckpointError where the model cannot be had, MissingLibraryError where a package is absent."""
        self._whisper = require("whisper", extra="align", needed_for=NEEDED_FOR)
        self._model = load_whisper(model)
        self._tokens = self._whisper.tokenizer.get_tokenizer(
            self._model.is_multilingual, language="en", task="transcribe"
        )

    def features(self, samples: npt.NDArray[np.float32]) -> Any:
        """The encoder's output, which `heard` and `scores` take."""
        import torch

        audio = self._whisper.pad_or_trim(torch.from_numpy(samples))
        mel = self._whisper.log_mel_spectrogram(audio, self._model.dims.n_mels)
        with torch.no_grad():
            return self._model.embed_audio(mel[None])

    def heard(self, features: Any) -> str:
        """The most likely text, greedily."""
        options = self._whisper.DecodingOptions(language="en", without_timestamps=True, fp16=False)
        return str(self._whisper.decode(self._model, features, options)[0].text)

    def fits(self, text: str) -> bool:
        """Whether the decoder's context holds the text, and room for an alternative in it."""
        return len(self._row(text)) <= int(self._model.dims.n_text_ctx) - 32

    def scores(self, features: Any, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Log-probability, nats, of each text: float64 [k]."""
        parts = [
            self._scores(features, texts[first : first + BATCH]) for first in range(0, len(texts), BATCH)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def _row(self, text: str) -> list[int]:
        start = list(self._tokens.sot_sequence_including_notimestamps)
        return [*start, *self._tokens.encode(" " + text.strip()), self._tokens.eot]

    def _scores(self, features: Any, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        import torch

        rows = [self._row(text) for text in texts]
        longest = max(map(len, rows))
        tokens = torch.tensor([row + [self._tokens.eot] * (longest - len(row)) for row in rows])
        with torch.no_grad():
            cache = self._cross(features, len(rows))
            logits = self._model.decoder(tokens[:, :-1], features, kv_cache=cache).float()
            chosen = logits.log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0].double()
        kept = torch.arange(longest - 1)[None] < torch.tensor([[len(row) - 1] for row in rows])
        kept[:, : len(self._tokens.sot_sequence_including_notimestamps) - 1] = False
        return np.asarray(torch.where(kept, chosen, 0.0).sum(dim=1))

    def _cross(self, features: Any, rows: int) -> dict[Any, Any]:
        """Keys and values of cross-attention, computed once for all rows, in Whisper's own form of a cache.

        Its first entry tells the decoder how many tokens came before: none.
        """
        import torch

        cache: dict[Any, Any] = {None: torch.empty(1, 0)}
        for block in self._model.decoder.blocks:
            for layer in (block.cross_attn.key, block.cross_attn.value):
                cache[layer] = layer(features).expand(rows, -1, -1)
        return cache
