"""The PersonaPlex language model: 17 streams in, agent text and 16 codebooks out.

Own code for the released architecture, with the released parameter names (seeds/000, "PersonaPlex native LM
audit"): 475 tensors, 8,371,408,896 parameters at the default configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.grid import CODEBOOKS, NO_INPUT
from inkplex_data.trainer.model.delays import RELEASED_DELAYS, Delays
from inkplex_data.trainer.model.depth import DepthTransformer
from inkplex_data.trainer.model.layers import CodeEmbedding, Linear, RMSNorm
from inkplex_data.trainer.model.temporal import BlockHook, TemporalTransformer


@dataclass(frozen=True)
class PersonaPlexConfig:
    """Sizes of a PersonaPlex model; the released one by default (seeds/000, sections 2 to 5).

    context: frames that temporal attention reaches back, the current one included. n_q: audio streams read,
    agent's then caller's. dep_q: audio streams predicted, the first of those read. Raises ConfigError, with
    every fault, for sizes that do not fit together.
    """

    dim: int = 4096
    heads: int = 32
    layers: int = 32
    context: int = 3000
    text_card: int = 32_000
    audio_card: int = 2_048
    depth_dim: int = 1024
    depth_heads: int = 16
    depth_layers: int = 6
    n_q: int = 2 * CODEBOOKS
    dep_q: int = 2 * CODEBOOKS
    delays: tuple[int, ...] = RELEASED_DELAYS
    ffn_hidden_temporal: int = 11_264
    ffn_hidden_depth: int = 2_816

    def __post_init__(self) -> None:
        object.__setattr__(self, "delays", tuple(self.delays))
        sizes = {name: value for name, value in vars(self).items() if name != "delays"}
        faults = [f"{name} must be at least 1, got {value}" for name, value in sizes.items() if value < 1]
        if not faults:
            for width, heads in (("dim", "heads"), ("depth_dim", "depth_heads")):
                if sizes[width] % sizes[heads] or (sizes[width] // sizes[heads]) % 2:
                    faults.append(
                        f"{width} {sizes[width]} does not split into {sizes[heads]} even-width heads"
                    )
        if self.dep_q > self.n_q:
            faults.append(
                f"dep_q {self.dep_q} exceeds n_q {self.n_q}: only streams that are read are predicted"
            )
        if len(self.delays) != self.n_q + 1:
            faults.append(
                f"delays needs {self.n_q + 1} entries, text and {self.n_q} codebooks, got {len(self.delays)}"
            )
        if any(delay < 0 for delay in self.delays):
            faults.append(f"delays must be 0 or more, got {list(self.delays)}")
        if faults:
            raise ConfigError("the PersonaPlex configuration does not fit together", faults=faults)

    @property
    def streams(self) -> int:
        """Streams read: text and `n_q` codebooks."""
        return self.n_q + 1


@dataclass(frozen=True)
class LMOutput:
    """Logits by the frame that they predict: no further shift is due.

    logits: [B, dep_q, T, audio_card]; mask: bool [B, dep_q, T]; text_logits: [B, 1, T, text_card];
    text_mask: bool [B, 1, T]. A mask is False where the target is no-input, and in the last d frames of a
    stream with delay d, where no step predicts and the logits are NaN.
    """

    logits: Tensor
    mask: Tensor
    text_logits: Tensor
    text_mask: Tensor


class PersonaPlexLM(nn.Module):
    """Temporal transformer over frames, depth transformer over the codebooks of a frame.

    Frozen weights (`freeze`) take no gradient of their own, but gradients pass through them: nothing here
    runs under `no_grad`.
    """

    def __init__(self, config: PersonaPlexConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or PersonaPlexConfig()
        self.delays = Delays(config.delays)
        rows, dim, depth_dim = config.audio_card + 1, config.dim, config.depth_dim
        self.emb = nn.ModuleList(CodeEmbedding(rows, dim) for _ in range(config.n_q))
        self.text_emb = CodeEmbedding(config.text_card + 1, dim)
        self.text_linear = Linear(dim, config.text_card)
        self.transformer = TemporalTransformer(
            dim, config.heads, config.layers, config.context, config.ffn_hidden_temporal
        )
        self.out_norm = RMSNorm(dim)
        self.depformer_in = nn.ModuleList(Linear(dim, depth_dim) for _ in range(config.dep_q))
        # The last codebook is never an input inside its own frame, so it has no table.
        self.depformer_emb = nn.ModuleList(CodeEmbedding(rows, depth_dim) for _ in range(config.dep_q - 1))
        self.depformer_text_emb = CodeEmbedding(config.text_card + 1, depth_dim)
        self.depformer = DepthTransformer(
            depth_dim, config.depth_heads, config.depth_layers, config.dep_q, config.ffn_hidden_depth
        )
        self.linears = nn.ModuleList(Linear(depth_dim, config.audio_card) for _ in range(config.dep_q))

    @classmethod
    def seeded(cls, config: PersonaPlexConfig, seed: int) -> PersonaPlexLM:
        """A model with random weights that depend on `seed` alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(config)

    @property
    def device(self) -> torch.device:
        return self.text_emb.weight.device

    def freeze(self) -> PersonaPlexLM:
        """Stop training every parameter and return the model; gradients still pass through it."""
        return self.requires_grad_(False)

    def initial_ids(self) -> Tensor:
        """The id of each stream before its first frame, int64 [streams]: text_card, then audio_card."""
        audio = [self.config.audio_card] * self.config.n_q
        return torch.tensor([self.config.text_card, *audio], device=self.device)

    def embed(self, sequence: Tensor) -> Tensor:
        """Sum of the 17 embeddings of delayed ids [B, streams, S]: [B, S, dim]. Audio first, text last, as
        the released sum rounds."""
        total = self.emb[0](sequence[:, 1])
        for stream in range(1, self.config.n_q):
            total = total + self.emb[stream](sequence[:, stream + 1])
        return total + self.text_emb(sequence[:, 0])

    def read_out(self, native: Tensor) -> tuple[Tensor, Tensor]:
        """Last block's output [B, S, dim] to (normed hidden [B, S, dim], text logits [B, 1, S, text_card])."""
        hidden = self.out_norm(native)
        return hidden, self.text_linear(hidden).unsqueeze(1)

    def depth_logits(self, hidden: Tensor, targets: Tensor, *, recompute: bool = False) -> Tensor:
        """Audio logits of whole frames, each codebook given the right ones before it.

        hidden: [B, T, dim]; targets: delayed ids [B, streams, T] that these steps predict.
        Returns [B, dep_q, T, audio_card]. recompute: run the blocks again in backward instead of keeping
        their activations.
        """
        B, T, _ = hidden.shape
        inputs = torch.stack(
            [self.depth_input(q, hidden, targets[:, q]) for q in range(self.config.dep_q)], dim=2
        ).flatten(0, 1)
        if recompute and torch.is_grad_enabled():
            for block in self.depformer.layers:
                inputs = checkpoint(block, inputs, use_reentrant=False)
            out = inputs
        else:
            out = self.depformer(inputs)
        return torch.stack([head(out[:, q]).view(B, T, -1) for q, head in enumerate(self.linears)], dim=1)

    def depth_input(self, position: int, hidden: Tensor, previous: Tensor) -> Tensor:
        """Input of depth position q: its projection of hidden [B, T, dim] plus the embedding of the id
        before it, int64 [B, T] (the frame's text at q0, codebook q − 1 later). Returns [B, T, depth_dim]."""
        table = self.depformer_text_emb if position == 0 else self.depformer_emb[position - 1]
        return self.depformer_in[position](hidden) + table(previous)

    def forward_train(
        self,
        codes: Tensor,
        after_block: Mapping[int, BlockHook] | None = None,
        *,
        recompute: bool = False,
    ) -> LMOutput:
        """Full-sequence, teacher-forced forward over aligned streams.

        codes: integers [B, streams, T]: text, agent codebooks, caller codebooks; −1 is no input.
        after_block: functions that replace a temporal block's output, by zero-based block.
        recompute: trade time for memory, block by block. Raises UsageError for ids outside the tables.
        """
        codes = codes.to(self.device, torch.long)
        self._check(codes)
        sequence = self.delays.sequence(codes, self.initial_ids())
        native = self.transformer(
            self.embed(sequence[..., :-1]), after_block=after_block, recompute=recompute
        )
        hidden, text_steps = self.read_out(native)
        audio_steps = self.depth_logits(hidden, sequence[..., 1:], recompute=recompute)
        text_logits, text_mask = self.delays.align(text_steps, first_stream=0)
        logits, mask = self.delays.align(audio_steps, first_stream=1)
        given = codes != NO_INPUT
        return LMOutput(
            logits=logits,
            mask=mask & given[:, 1 : 1 + self.config.dep_q],
            text_logits=text_logits,
            text_mask=text_mask & given[:, :1],
        )

    def forward(
        self,
        codes: Tensor,
        after_block: Mapping[int, BlockHook] | None = None,
        *,
        recompute: bool = False,
    ) -> LMOutput:
        """The same as `forward_train`, with the module's hooks around it."""
        return self.forward_train(codes, after_block, recompute=recompute)

    def _check(self, codes: Tensor) -> None:
        if codes.dim() != 3 or codes.shape[1] != self.config.streams:
            raise UsageError(f"codes must be [B, {self.config.streams}, T], got {list(codes.shape)}")
        if codes.is_meta or codes.numel() == 0:
            return
        cards = self.initial_ids()
        low, high = codes.amin(dim=(0, 2)), codes.amax(dim=(0, 2))
        bad = torch.nonzero((low < NO_INPUT) | (high > cards)).flatten().tolist()
        if bad:
            k = bad[0]
            raise UsageError(
                f"ids must be −1 … {int(cards[k])}, got {int(low[k])} … {int(high[k])}",
                where=f"stream {k}",
                next_step="Check the codes: −2 marks one that is not generated yet, which must never reach the model.",
            )
