"""Forced alignment: where each word of a known text is spoken. Two aligners of one kind.

`PocketAligner` runs anywhere, with the acoustic model that pocketsphinx ships; `CtcAligner` uses a character
CTC model from a folder or hub id. Times are int64 microseconds from the first sample.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from inkplex_data.clock import US_PER_S
from inkplex_data.errors import CheckpointError
from inkplex_data.libraries import require
from inkplex_data.speech.align.letters import phones
from inkplex_data.speech.spoken_form import spoken

RATE_HZ: Final = 16_000
Span = tuple[int, int]

BEAM: Final = 1e-100
WORD_BEAM: Final = 1e-80
"""Wide enough that hesitant speech is not pruned away: the decoder's own 1e-48 lost 25 s of speech as a whole."""
FRAME_US: Final = 10_000


class ForcedAligner(Protocol):
    """`name` goes into the words' method."""

    name: str

    def align(self, samples: npt.NDArray[np.float32], words: Sequence[str]) -> list[Span | None] | None:
        """Start and end, µs, of each of `words` in float32 [n] at 16 kHz.

        A word without a sound of its own, such as a dash, gets None; the whole is None where no path fits.
        """
        ...


def load_aligner(spec: str = "pocketsphinx", *, device: str = "cpu") -> ForcedAligner:
    """`pocketsphinx`, or a folder or hub id of a `transformers` CTC model. Raises CheckpointError."""
    return PocketAligner() if spec == "pocketsphinx" else CtcAligner(spec, device=device)


class PocketAligner:
    """The acoustic model `en-us` of the pocketsphinx wheel; words that its dictionary lacks are spelled out."""

    name = "pocketsphinx"

    def __init__(self) -> None:
        self._module = require("pocketsphinx", extra="align", needed_for="forced alignment")
        self._decoder: Any = None

    def align(self, samples: npt.NDArray[np.float32], words: Sequence[str]) -> list[Span | None] | None:
        units = [spoken(word) for word in words]
        flat = [unit for parts in units for unit in parts]
        if not flat or not len(samples):
            return None
        found = self._units(samples, flat)
        return None if found is None else _joined(units, found)

    def _units(self, samples: npt.NDArray[np.float32], units: list[str]) -> list[Span] | None:
        if self._decoder is None:
            # Whole-utterance normalisation: the result is a function of the samples, not of what came before.
            # Without a lattice, because its best path gives words other times than the search found.
            self._decoder = self._module.Decoder(
                lm=None,
                loglevel="FATAL",
                beam=BEAM,
                pbeam=BEAM,
                wbeam=WORD_BEAM,
                bestpath=False,
                cmn="batch",
                logfn=os.devnull,
            )
        decoder = self._decoder
        for unit in dict.fromkeys(units):
            if decoder.lookup_word(unit) is None:
                decoder.add_word(unit, " ".join(phones(unit)), True)
        pcm = np.clip(np.rint(samples * 32767), -32768, 32767).astype("<i2").tobytes()
        try:
            # Forgets the noise that it learned from earlier audio.
            decoder.start_stream()
            decoder.set_align_text(" ".join(units))
            decoder.start_utt()
            decoder.process_raw(pcm, full_utt=True)
            decoder.end_utt()
        except RuntimeError:
            self._decoder = None
            return None
        found = [
            (part.start_frame * FRAME_US, (part.end_frame + 1) * FRAME_US)
            for part in decoder.seg() or ()
            if not part.word.startswith(("<", "[", "("))
        ]
        return found if len(found) == len(units) else None


class CtcAligner:
    """torchaudio's `forced_align` over the emissions of a character CTC model (wav2vec 2.0 and its kin)."""

    def __init__(self, spec: str, *, device: str = "cpu") -> None:
        transformers = require("transformers", extra="align", needed_for="a CTC model")
        self.name = f"ctc:{Path(spec).name}"
        try:
            self._model = transformers.AutoModelForCTC.from_pretrained(spec).to(device).eval()
            tokenizer = transformers.AutoTokenizer.from_pretrained(spec)
            self._vocabulary: dict[str, int] = tokenizer.get_vocab()
            self._blank = int(tokenizer.pad_token_id)
        except Exception as error:
            raise CheckpointError(
                f"the CTC model {spec!r} cannot be loaded: {type(error).__name__}: {' '.join(str(error).split())[:300]}",
                next_step="Name a local folder, or use `pocketsphinx`, which needs no download.",
            ) from error
        self._device = device

    def align(self, samples: npt.NDArray[np.float32], words: Sequence[str]) -> list[Span | None] | None:
        import torch

        functional = require("torchaudio.functional", extra="align", needed_for="forced alignment")
        characters = [self._ids("".join(spoken(word))) for word in words]
        flat = [token for ids in characters for token in ids]
        if not flat or not len(samples):
            return None
        level = np.sqrt(np.mean(np.square(samples, dtype=np.float64))) + 1e-7
        given = torch.from_numpy(((samples - samples.mean()) / level).astype(np.float32))[None]
        with torch.no_grad():
            emissions = self._model(given.to(self._device)).logits.float().log_softmax(-1).cpu()
        targets = torch.tensor([flat], dtype=torch.int32)
        repeats = sum(a == b for a, b in itertools.pairwise(flat))
        if emissions.shape[1] < len(flat) + repeats:
            return None
        path, scores = functional.forced_align(emissions, targets, blank=self._blank)
        spans = functional.merge_tokens(path[0], scores[0], blank=self._blank)
        frame_us = len(samples) * US_PER_S / RATE_HZ / emissions.shape[1]
        edges = [(round(span.start * frame_us), round(span.end * frame_us)) for span in spans]
        return _joined(characters, edges)

    def _ids(self, text: str) -> list[int]:
        """Ids of the characters that the model knows, in either case."""
        found = []
        for character in text:
            token = self._vocabulary.get(character, self._vocabulary.get(character.upper()))
            if token is not None:
                found.append(token)
        return found


def _joined(groups: Sequence[Sequence[object]], spans: Sequence[Span]) -> list[Span | None]:
    """One span for each group of consecutive `spans`, None for an empty group."""
    out: list[Span | None] = []
    place = 0
    for group in groups:
        part = spans[place : place + len(group)]
        place += len(group)
        out.append((part[0][0], part[-1][1]) if part else None)
    return out
