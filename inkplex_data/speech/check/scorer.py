"""Whisper as a judge of texts: what it hears, and how likely it finds a text on the same sound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inkplex_data.libraries import require
from inkplex_data.speech.align.whisper_weights import NEEDED_FOR, PACKAGED, load_whisper

BATCH: Final = 16


class WhisperScorer:
    """Whisper as a judge: what it hears, and how likely it finds given texts, in float32 [n] of up to 30 s."""

    def __init__(self, model: str = PACKAGED, *, device: str = "cpu") -> None:
        """Raises CheckpointError where the model cannot be had, MissingLibraryError where a package is absent."""
        self._whisper = require("whisper", extra="align", needed_for=NEEDED_FOR)
        self._model = load_whisper(model, device=device)
        self._device = device
        self._tokens = self._whisper.tokenizer.get_tokenizer(
            self._model.is_multilingual, language="en", task="transcribe"
        )

    def features(self, samples: npt.NDArray[np.float32]) -> Any:
        """The encoder's output, which `heard` and `scores` take."""
        import torch

        audio = self._whisper.pad_or_trim(torch.from_numpy(samples))
        mel = self._whisper.log_mel_spectrogram(audio, self._model.dims.n_mels)
        with torch.no_grad():
            return self._model.embed_audio(mel[None].to(self._device))

    def heard(self, features: Any) -> str:
        """The most likely text, greedily."""
        options = self._whisper.DecodingOptions(language="en", without_timestamps=True, fp16=False)
        return str(self._whisper.decode(self._model, features, options)[0].text)

    def fits(self, text: str) -> bool:
        """Whether the decoder's context holds the text, and room for an alternative in it."""
        return len(self._row(text)) <= int(self._model.dims.n_text_ctx) - 32

    def scores(self, features: Any, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Log-probability, nats, of each text: float64 [k].

        What a text begins with in common with the first one is not scored again, so variants of one text are cheap.
        """
        rows = [self._row(text) for text in texts]
        if not rows:
            return np.zeros(0)
        begin = len(self._tokens.sot_sequence_including_notimestamps)
        head = np.zeros(len(rows[0]) + 1)
        head[begin + 1 :] = np.cumsum(self._token_scores(features, rows[:1], begin)[0])
        out = np.full(len(rows), head[len(rows[0])])
        shared = [_shared(rows[0], row) for row in rows]
        order = sorted(range(1, len(rows)), key=lambda index: shared[index])
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            start = max(shared[batch[0]], begin)
            scored = self._token_scores(features, [rows[index] for index in batch], start)
            for index, own in zip(batch, scored, strict=True):
                out[index] = head[start] + own.sum()
        return out

    def _row(self, text: str) -> list[int]:
        start = list(self._tokens.sot_sequence_including_notimestamps)
        return [*start, *self._tokens.encode(" " + text.strip()), self._tokens.eot]

    def _token_scores(
        self, features: Any, rows: Sequence[Sequence[int]], start: int
    ) -> list[npt.NDArray[np.float64]]:
        """Log-probability of each row's tokens from `start` on, float64 [tokens − start] a row."""
        import torch

        decoder = self._model.decoder
        longest = max(map(len, rows))
        padded = [[*row, *[self._tokens.eot] * (longest - len(row))] for row in rows]
        tokens = torch.tensor(padded, device=self._device)
        with torch.no_grad():
            cache = self._cross(features, len(rows))
            # The decoder's own forward, with logits for the wanted places alone: they are most of its work.
            hidden = decoder.token_embedding(tokens[:, :-1]) + decoder.positional_embedding[: longest - 1]
            for block in decoder.blocks:
                hidden = block(hidden, features, mask=decoder.mask, kv_cache=cache)
            hidden = decoder.ln(hidden[:, start - 1 :])
            logits = (hidden @ decoder.token_embedding.weight.T).float()
            chosen = logits.gather(2, tokens[:, start:, None])[..., 0] - logits.logsumexp(-1)
        return [
            np.asarray(own[: len(row) - start].double().cpu()) for own, row in zip(chosen, rows, strict=True)
        ]

    def _cross(self, features: Any, rows: int) -> dict[Any, Any]:
        """Keys and values of cross-attention, computed once for all rows, in Whisper's own form of a cache."""
        cache: dict[Any, Any] = {}
        for block in self._model.decoder.blocks:
            for layer in (block.cross_attn.key, block.cross_attn.value):
                cache[layer] = layer(features).expand(rows, -1, -1)
        return cache


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two rows begin with in common."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
