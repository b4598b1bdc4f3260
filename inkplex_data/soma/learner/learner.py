"""soma: perceives every token, learns from those that come from outside, and speaks (seeds/001, sections 3 to 9)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inkplex_data.checkpoint_sidecar import EMPTY_PROFILE, new_id
from inkplex_data.errors import UsageError
from inkplex_data.soma.learner.error_traces import ErrorTraces, translated_residual
from inkplex_data.soma.learner.free_generation import free_tokens
from inkplex_data.soma.learner.io2 import Io2, stride_of
from inkplex_data.soma.learner.plasticity import RadialCompressor
from inkplex_data.soma.learner.soma_config import BatchReport, SomaConfig, bits_per_byte, merged
from inkplex_data.soma.learner.soma_network import SomaNetwork
from inkplex_data.soma.learner.trace_bands import TraceBands
from inkplex_data.soma.learner.trace_bank import TraceBank
from inkplex_data.soma.tokens.soma_tokenizer import DREAM, TURN, VOCABULARY
from inkplex_data.soma.tokens.token_stream import TokenBatch

_SCORED = 256
"""Tokens that go through the network together when every token is scored."""
_DENSITY_WEIGHT = 0.05
"""Of a new batch in the moving average of bytes a token."""


@dataclass
class Counts:
    """What a model has taken in over its life, and since its last dream. dream_ratio: of the last dream, its tokens by
    the external ones since the dream before it."""

    source_bytes: int = 0
    tokens: int = 0
    updates: int = 0
    external_since_dream: int = 0
    dreams: int = 0
    dream_tokens: int = 0
    dream_ratio: float = 0.0


class Learner:
    """A model with its optimiser, traces and controller. Not for several threads.

    cursors: by corpus, the place behind what was learned of it, as JSON; they are saved with the weights and not otherwise.
    """

    def __init__(self, config: SomaConfig, tokenizer_sha256: str, network: SomaNetwork) -> None:
        self.config, self.tokenizer_sha256, self.network = config, tokenizer_sha256, network
        bands, vocabulary = TraceBands(config.bands, config.base), len(network.token_bias)
        self.bank = TraceBank(vocabulary, bands)
        self.errors = ErrorTraces(bands)
        self.io2 = Io2.fresh(vocabulary, config.bands, config.base)
        self.compressor = RadialCompressor(network.matrices())
        self.optimizer = torch.optim.AdamW(
            [{"params": group} for group in network.groups()],
            lr=config.learning_rate,
            weight_decay=0,
            fused=True,
        )
        self.counts = Counts()
        self.bytes_per_token = 0.0
        self.since_residual = 1
        """Tokens since the last gradient observation."""
        self.cursors: dict[str, dict[str, int]] = {}
        self.description = ""
        self.history: list[dict[str, Any]] = []
        """A line for each save, the newest last."""
        self.profile: dict[str, Any] = dict(EMPTY_PROFILE)
        self.checkpoint_id = new_id()
        self.revision_id: str | None = None
        """Of the last save, and `parent` of the one before it; None before the first."""
        self.parent: str | None = None
        self._is_speaking = False

    @classmethod
    def fresh(cls, config: SomaConfig, tokenizer_sha256: str) -> Learner:
        """A model that has seen nothing."""
        network = SomaNetwork(VOCABULARY, config.bands, config.width, config.depth)
        network.begin(torch.Generator().manual_seed(config.seed))
        return cls(config, tokenizer_sha256, network)

    @property
    def stride(self) -> int:
        """Tokens from one gradient observation to the next in the next batch."""
        return stride_of(self.io2.band, self.config.decimation, self.config.base)

    @property
    def wanted_tokens(self) -> int:
        """Tokens that the next batch should have."""
        return self.config.batch * self.stride

    @property
    def learning_rate(self) -> float:
        """Of the readout, in the next update."""
        return self.config.learning_rate * self.io2.plasticity

    def learn(self, batch: TokenBatch) -> BatchReport:
        """Perceive a batch and learn from what is not masked in it. One of more than `wanted_tokens` is learned in parts,
        an update each, so that its length costs time alone. Raises UsageError while a generation is open."""
        self._refuse_speaking()
        reports = []
        while len(batch.ids) > (wanted := self.wanted_tokens):
            reports.append(self._learn(replace(batch, **_cut(batch, slice(None, wanted)))))
            batch = replace(batch, **_cut(batch, slice(wanted, None)))
        return merged([*reports, self._learn(batch)])

    def _learn(self, batch: TokenBatch) -> BatchReport:
        stride, rate = self.stride, self.learning_rate
        ids = torch.from_numpy(batch.ids)
        weights = torch.from_numpy(batch.weights)
        gaps = self._gaps(len(ids), stride)
        targets, observed_weights = ids[::stride], weights[::stride]
        observed = observed_weights > 0
        power = torch.zeros(self.config.bands, dtype=torch.float64)
        loss = top1 = top5 = math.nan
        if bool(observed.any()):
            logits = self.network(self.bank.presents(self.network.dictionary, ids, stride))
            logs = torch.log_softmax(logits, 1)
            nats = -logs.gather(1, targets[:, None])[:, 0] * observed_weights
            with torch.no_grad():
                residuals = translated_residual(self.network.dictionary, targets, logs.exp())
                top1, top5 = _accuracy(logits[observed], targets[observed])
                loss = float(nats.sum(dtype=torch.float64) / observed_weights.sum())
            self._update(nats.sum() / observed.sum(), rate)
            power = self.errors.observe(residuals, gaps, observed)
        else:
            self.errors.pass_by(int(gaps.sum()))
        self.bank.advance(ids)
        return self._told(batch, stride=stride, rate=rate, loss=loss, power=power, top1=top1, top5=top5)

    def perceive(self, ids: npt.ArrayLike) -> None:
        """Take tokens in without learning from them: state, protocol, what soma said itself. int [n]."""
        self._refuse_speaking()
        self._perceive(ids)

    @torch.no_grad()
    def score(self, batch: TokenBatch) -> npt.NDArray[np.float64]:
        """Nats of every token, masked or not, and none skipped: float64 [n]. Weights stay; the bank takes the tokens in."""
        self._refuse_speaking()
        parts = [torch.zeros(0, dtype=torch.float64)]
        for ids in torch.split(torch.from_numpy(batch.ids), _SCORED) if len(batch.ids) else ():
            logs = torch.log_softmax(self.network(self.bank.presents(self.network.dictionary, ids)), 1)
            parts.append(-logs.gather(1, ids[:, None])[:, 0].double())
            self.bank.advance(ids)
        return torch.cat(parts).numpy()

    def state(self) -> Any:
        """What `score` and `perceive` change, to `restore` it: scores from one state, one after another."""
        return self.bank.traces.clone(), self.errors.traces.clone()

    def restore(self, state: Any) -> None:
        """Put the traces back to what they were."""
        self.bank.traces, self.errors.traces = (traces.clone() for traces in state)

    def generate(self, limit: int, *, seed: int = 0, temperature: float = 1.0) -> Iterator[int]:
        """Say something after what was perceived: ids of language, at most `limit`, until soma yields the floor.

        However it ends, by its turn piece, by the limit or by `close()` between two tokens, the bank then takes in what was
        said and a turn piece, in one block. No weight changes. Raises UsageError while another one is open.
        """
        self._refuse_speaking()
        self._is_speaking = True
        said: list[int] = []
        try:
            for token in free_tokens(self.network, self.bank, limit, seed=seed, temperature=temperature):
                said.append(token)
                yield token
        finally:
            self._is_speaking = False
            self._perceive([*said, TURN])

    def dream(self, limit: int, *, seed: int = 0, temperature: float = 1.0) -> Iterator[int]:
        """Say something of its own accord, after a single dream piece; otherwise as `generate`. `counts` tells how much."""
        self.perceive([DREAM])
        dreamed = 0
        try:
            for token in self.generate(limit, seed=seed, temperature=temperature):
                dreamed += 1
                yield token
        finally:
            counts = self.counts
            counts.dreams += 1
            counts.dream_tokens += dreamed
            counts.dream_ratio = dreamed / counts.external_since_dream if counts.external_since_dream else 0.0
            counts.external_since_dream = 0

    def _update(self, loss: Tensor, rate: float) -> None:
        for group, share in zip(self.optimizer.param_groups, self.io2.group_rates(), strict=True):
            group["lr"] = rate * share
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradclip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.compressor.after_update()
        self.counts.updates += 1

    def _gaps(self, tokens: int, stride: int) -> Tensor:
        """Tokens from each residual of a batch back to the one before it, in the last batch for the first."""
        gaps = torch.full((-(-tokens // stride),), stride, dtype=torch.int64)
        if tokens:
            gaps[0] = self.since_residual
            self.since_residual = tokens - stride * (len(gaps) - 1)
        return gaps

    def _perceive(self, ids: npt.ArrayLike) -> None:
        tokens = torch.as_tensor(np.asarray(ids, dtype=np.int64))
        self.bank.advance(tokens)
        self.errors.pass_by(len(tokens))

    def _refuse_speaking(self) -> None:
        if self._is_speaking:
            raise UsageError(
                "soma is speaking",
                next_step="Take the generation to its end, or close it, before anything else.",
            )

    def _told(
        self,
        batch: TokenBatch,
        *,
        stride: int,
        rate: float,
        loss: float,
        power: Tensor,
        top1: float,
        top5: float,
    ) -> BatchReport:
        """Count the batch, tell the controller, and report."""
        nats, source_bytes = 0.0, 0
        if not math.isnan(loss):
            nats = loss * float(batch.weights.sum(dtype=np.float64))
            source_bytes = int(batch.source_bytes[batch.weights > 0].sum())
            self.io2.observe(loss, power, bits_per_byte(nats, source_bytes))
        all_bytes, tokens = int(batch.source_bytes.sum()), len(batch.ids)
        if tokens:
            share = _DENSITY_WEIGHT if self.bytes_per_token else 1.0
            self.bytes_per_token += share * (all_bytes / tokens - self.bytes_per_token)
        self.counts.source_bytes += all_bytes
        self.counts.tokens += tokens
        self.counts.external_since_dream += tokens
        return BatchReport(
            nats=nats,
            source_bytes=source_bytes,
            bits_per_byte=bits_per_byte(nats, source_bytes),
            top1=top1,
            top5=top5,
            stride=stride,
            compression=self.compressor.compression,
            learning_rate=rate,
            tokens=tokens,
            bytes_per_token=self.bytes_per_token,
        )


def _cut(batch: TokenBatch, part: slice) -> dict[str, Any]:
    return {"ids": batch.ids[part], "weights": batch.weights[part], "source_bytes": batch.source_bytes[part]}


def _accuracy(logits: Tensor, targets: Tensor) -> tuple[float, float]:
    """Shares of targets that are the likeliest token, and among the five likeliest."""
    hits = logits.topk(5, dim=1).indices == targets[:, None]
    return float(hits[:, 0].double().mean()), float(hits.any(1).double().mean())
