"""The supervised objective: weighted text and voice cross-entropies, each divided once per update.

L = Σ w_text CE_text / Σ w_text + Σ w_voice CE_voice / Σ w_voice, sums over the whole optimizer update
(seeds/000, "Current sequence memory", section 10). `voice_and_text_loss` gives the sums of one batch; sums
add up over calls, accumulation steps and ranks, and only their totals are divided.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.grid import (
    CODEBOOKS,
    TAG_EPAD,
    TAG_FIRST,
    TAG_LATER,
    TAG_PAD,
    TAG_PREFIX,
)
from inkplex_data.store.frame_streams import mask_bits
from inkplex_data.trainer.model.delays import RELEASED_DELAYS
from inkplex_data.trainer.model.layers import at_least_float32

PARTS = (
    "text/first_piece",
    "text/later_piece",
    "text/pad",
    "text/epad",
    "agent/semantic",
    "agent/acoustic",
    "caller/semantic",
    "caller/acoustic",
)
FIRST_PIECE, LATER_PIECE, TEXT_PAD, TEXT_EPAD, AGENT_SEMANTIC = range(5)
NO_PART = -1


@dataclass(frozen=True)
class ObjectiveWeights:
    """Weight of each kind of target. Zero takes its places out, as `caller=False` does for the caller's voice.

    Weights matter within text and within voice; text and voice then count the same. Raises ConfigError for a
    weight that is negative or no number.
    """

    first_piece: float = 1.0
    later_piece: float = 1.0
    pad: float = 0.3
    epad: float = 0.3
    semantic: float = 1.0
    acoustic: float = 0.02
    caller: bool = True

    def __post_init__(self) -> None:
        faults = [
            f"{name} must be 0 or more, got {value!r}"
            for name, value in vars(self).items()
            if isinstance(value, str) or not 0 <= value < float("inf")
        ]
        if faults:
            raise ConfigError("wrong objective weights", faults=faults)

    def by_part(self) -> list[float]:
        """Weights in the order of PARTS."""
        caller = float(self.caller)
        return [
            self.first_piece,
            self.later_piece,
            self.pad,
            self.epad,
            self.semantic,
            self.acoustic,
            caller * self.semantic,
            caller * self.acoustic,
        ]


PRESETS: Mapping[str, ObjectiveWeights] = {
    # The PersonaPlex weights: pieces 1, other text 0.3, semantic 1, acoustic 0.02 (seeds/000, section 10).
    "stage1": ObjectiveWeights(),
    # Moshi: semantic 100, acoustic 1, padding halved (seeds/002, "The loss, worked out on real numbers" and
    # "Stage 2"; arXiv:2410.00037, section 4.4). The fine-tuning recipe counts EPAD as padding too.
    "moshi": ObjectiveWeights(pad=0.5, epad=0.5, semantic=100.0, acoustic=1.0),
}


def objective_weights(preset: str = "stage1", **changes: float | bool) -> ObjectiveWeights:
    """A preset with some weights changed. Raises ConfigError for a name that does not exist."""
    if preset not in PRESETS:
        raise ConfigError(
            f"there is no objective preset {preset!r}", next_step=f"Use one of {', '.join(PRESETS)}."
        )
    known = {item.name for item in dataclasses.fields(ObjectiveWeights)}
    if unknown := sorted(set(changes) - known):
        raise ConfigError(
            "unknown objective weights",
            faults=unknown,
            next_step=f"Use the weights {', '.join(sorted(known))}.",
        )
    return dataclasses.replace(PRESETS[preset], **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class LossSums:
    """Sums over some calls; add them up over an update, then divide.

    Numerators are scalars of the loss's dtype and carry the gradient; denominators are float64 scalars.
    part_sums float64 [8] and part_counts int64 [8] are unweighted, in the order of PARTS, without gradient.
    """

    text_numerator: Tensor
    text_denominator: Tensor
    voice_numerator: Tensor
    voice_denominator: Tensor
    part_sums: Tensor
    part_counts: Tensor

    def __add__(self, other: LossSums) -> LossSums:
        mine, theirs = vars(self), vars(other)
        return LossSums(**{name: mine[name] + theirs[name] for name in mine})

    def detach(self) -> LossSums:
        """The same sums without gradients."""
        return LossSums(**{name: value.detach() for name, value in vars(self).items()})

    def loss(self, text_total: Tensor | None = None, voice_total: Tensor | None = None) -> Tensor:
        """Scalar loss: numerators over the update's totals, or over these sums' own denominators.

        A total of zero means that nothing of that kind carries weight, and adds zero.
        """
        text = self.text_denominator if text_total is None else text_total
        voice = self.voice_denominator if voice_total is None else voice_total
        return _divide(self.text_numerator, text) + _divide(self.voice_numerator, voice)

    @property
    def text(self) -> Tensor:
        """Weighted mean of the text loss, nats."""
        return _divide(self.text_numerator, self.text_denominator)

    @property
    def voice(self) -> Tensor:
        """Weighted mean of the voice loss, nats."""
        return _divide(self.voice_numerator, self.voice_denominator)

    def parts(self) -> dict[str, float]:
        """Mean nats of every part that has a target with weight."""
        sums, counts = self.part_sums.tolist(), self.part_counts.tolist()
        return {name: s / n for name, s, n in zip(PARTS, sums, counts, strict=True) if n}


def _divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    return numerator / denominator.clamp(min=torch.finfo(torch.float64).tiny).to(numerator.device)


def target_parts(
    codes: Tensor,
    roles: Tensor,
    frames: Tensor,
    *,
    dep_q: int,
    mask: Tensor | None = None,
    delays: Sequence[int] = RELEASED_DELAYS,
    weights: ObjectiveWeights = PRESETS["stage1"],
) -> Tensor:
    """Which part each target belongs to: int64 [B, 1 + dep_q, T], an index into PARTS, −1 without weight.

    Arguments as in `voice_and_text_loss`. Without weight are: prefix frames, frames from `frames` on, the
    last d live frames of a stream with delay d, modalities that `mask` excludes, targets of −1, and parts
    whose weight is zero. No logits are needed, so totals can be known before the first forward.
    """
    B, _, T = codes.shape
    device = codes.device
    delays = _stream_delays(delays, dep_q)
    time = torch.arange(T, device=device)
    ends = frames.to(device).view(B, 1, 1) - torch.tensor(delays, device=device).view(1, -1, 1)
    live = (time < ends) & (roles.to(device) != TAG_PREFIX).unsqueeze(1)
    parts = torch.full((B, 1 + dep_q, T), NO_PART, device=device)
    by_tag = torch.full((256,), NO_PART, device=device)  # a tag is a uint8; padding may hold anything
    by_tag[TAG_FIRST], by_tag[TAG_LATER] = FIRST_PIECE, LATER_PIECE
    by_tag[TAG_PAD], by_tag[TAG_EPAD] = TEXT_PAD, TEXT_EPAD
    parts[:, 0] = by_tag[roles.to(device, torch.long)]
    stream = torch.arange(dep_q, device=device)
    kind = AGENT_SEMANTIC + 2 * (stream // CODEBOOKS) + (stream % CODEBOOKS > 0).long()
    parts[:, 1:] = kind.view(1, -1, 1)
    if mask is not None:
        bits = mask_bits("codes")[: 1 + dep_q]
        live &= (
            mask.to(device, torch.long).unsqueeze(1) & torch.tensor(bits, device=device).view(1, -1, 1)
        ) > 0
    live &= codes[:, : 1 + dep_q] >= 0
    weighed = torch.tensor([weight > 0 for weight in weights.by_part()], device=device)
    live &= weighed[parts.clamp(min=0)] & (parts != NO_PART)
    return torch.where(live, parts, NO_PART)


def denominators(parts: Tensor, weights: ObjectiveWeights) -> tuple[Tensor, Tensor]:
    """(text, voice) sums of weights, float64 scalars, of the targets that `target_parts` names."""
    table = torch.tensor([*weights.by_part(), 0.0], dtype=torch.float64, device=parts.device)
    by_target = table[parts]
    return by_target[:, 0].sum(), by_target[:, 1:].sum()


def voice_and_text_loss(
    text_logits: Tensor,
    audio_logits: Tensor,
    codes: Tensor,
    roles: Tensor,
    frames: Tensor,
    *,
    mask: Tensor | None = None,
    delays: Sequence[int] = RELEASED_DELAYS,
    weights: ObjectiveWeights | str = "stage1",
) -> LossSums:
    """Numerators, denominators and parts of a batch of calls.

    text_logits: [B, 1, T, C] and audio_logits: [B, dep_q, T, K], already aligned with the targets, as
    `forward_train` gives them. codes: integers [B, 17, T], the targets; −1 weighs nothing. roles: [B, T],
    tags of the text frames (`grid.TAG_*`). frames: [B], live frames of each call, prefix included; later ones are padding.
    mask: [B, T] bits of modalities that may carry loss (1 text, 2 agent, 4 caller), all by default.
    delays: of text and every codebook, or of the codebooks alone. weights: ObjectiveWeights or a preset.

    Places without weight are selected out, never multiplied by zero: their logits may be NaN. Computed in
    float32, or float64 where logits are.
    """
    if isinstance(weights, str):
        weights = objective_weights(weights)
    codes = codes.to(text_logits.device, torch.long)
    dep_q = audio_logits.shape[1]
    parts = target_parts(codes, roles, frames, dep_q=dep_q, mask=mask, delays=delays, weights=weights)
    text_total, voice_total = denominators(parts, weights)
    text, text_sums, text_counts = _weighted_sum(text_logits, codes[:, :1], parts[:, :1], weights)
    voice, voice_sums, voice_counts = _weighted_sum(
        audio_logits, codes[:, 1 : 1 + dep_q], parts[:, 1:], weights
    )
    return LossSums(
        text_numerator=text,
        text_denominator=text_total,
        voice_numerator=voice,
        voice_denominator=voice_total,
        part_sums=text_sums + voice_sums,
        part_counts=text_counts + voice_counts,
    )


def _weighted_sum(
    logits: Tensor, targets: Tensor, parts: Tensor, weights: ObjectiveWeights
) -> tuple[Tensor, Tensor, Tensor]:
    """logits [B, k, T, C], targets and parts [B, k, T] to (weighted sum, part sums [8], part counts [8])."""
    chosen = parts != NO_PART
    part = parts[chosen]
    rows = logits[chosen]
    losses = F.cross_entropy(rows.to(at_least_float32(rows.dtype)), targets[chosen], reduction="none")
    table = torch.tensor(weights.by_part(), dtype=losses.dtype, device=losses.device)
    sums = torch.zeros(len(PARTS), dtype=torch.float64, device=losses.device)
    sums.index_add_(0, part, losses.detach().double())
    return (losses * table[part]).sum(), sums, torch.bincount(part, minlength=len(PARTS))


def _stream_delays(delays: Sequence[int], dep_q: int) -> list[int]:
    """Delays of text and the predicted codebooks, from a list with or without the text's."""
    if len(delays) == dep_q:
        return [0, *delays]
    if len(delays) > dep_q:
        return list(delays[: dep_q + 1])
    raise UsageError(f"{dep_q} predicted codebooks need {dep_q} delays or more, got {len(delays)}")
