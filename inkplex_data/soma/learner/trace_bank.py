"""What soma has seen, by token identity: an exact trace of every token of the dictionary in every band (seeds/001, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from inkplex_data.soma.learner.trace_bands import TraceBands, bandpass


class TraceBank:
    """Traces of identity. Nothing in them is learned, so a changed dictionary reads the whole past anew.

    traces: float64 [vocabulary, bands], on the CPU.
    """

    def __init__(self, vocabulary: int, bands: TraceBands) -> None:
        self.bands = bands
        self.traces = torch.zeros(vocabulary, bands.count, dtype=torch.float64)

    def tick(self, token: int) -> None:
        """One token by the recurrence itself, which `advance` and `presents` are closed forms of."""
        self.traces *= self.bands.decay
        self.traces[token] += self.bands.alpha

    def advance(self, ids: Tensor) -> None:
        """Take in a block of tokens: int64 [n]."""
        self.traces *= self.bands.kept(len(ids))
        self.traces.index_add_(0, ids, self.bands.taken(len(ids)))

    def project(self, dictionary: Tensor) -> Tensor:
        """The traces through the dictionary as it is now: [bands, width], of the dictionary's dtype."""
        return self.traces.T.to(dictionary.dtype) @ dictionary

    def presents(self, dictionary: Tensor, ids: Tensor, stride: int = 1) -> Tensor:
        """What the network sees before the tokens 0, stride, 2 * stride … of a block: [observed, bands * width].

        The traces stay as they are. dictionary: [vocabulary, width]; gradients reach it through the tokens of the block
        and through all those that the traces retain.
        """
        observed = -(-len(ids) // stride)
        between = ids[: (observed - 1) * stride].view(observed - 1, stride)
        weights = self.bands.taken(stride).to(dictionary.dtype)
        embedded = torch.nn.functional.embedding(between, dictionary)
        inputs = torch.einsum("osw,sb->obw", embedded, weights)
        gaps = torch.full((observed - 1,), stride, dtype=torch.int64)
        return present(self.bands.run(self.project(dictionary), inputs, gaps))


class ProjectedBank:
    """The bank through a dictionary that stands still, for tokens that come one by one: generation.

    traces: [bands, width]. The bank itself takes the tokens in afterwards, in one block.
    """

    def __init__(self, bank: TraceBank, dictionary: Tensor) -> None:
        self._dictionary = dictionary
        self._decay = bank.bands.decay.to(dictionary.dtype)[:, None]
        self._alpha = bank.bands.alpha.to(dictionary.dtype)[:, None]
        self.traces = bank.project(dictionary)

    def push(self, token: int) -> None:
        self.traces = self._decay * self.traces + self._alpha * self._dictionary[token]

    def present(self) -> Tensor:
        """[bands * width]."""
        return present(self.traces)


def present(traces: Tensor) -> Tensor:
    """What the network sees of projected traces: [..., bands, width] bandpassed and flattened, band by band."""
    return bandpass(traces).flatten(-2)
