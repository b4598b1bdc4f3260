"""The Mimi codec around `transformers.MimiModel`: canonical streaming chunks, flat memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from transformers import MimiConfig, MimiModel
from transformers.initialization import no_init_weights

from inkplex_data.errors import CheckpointError, ConfigError, UsageError
from inkplex_data.grid import CODEBOOKS
from inkplex_data.speech.codec_decode import decode_windows
from inkplex_data.speech.codec_identity import CHUNK_SAMPLES, CodecIdentity, StreamKind
from inkplex_data.speech.codec_rows import MimiRows, encode_pair_rows, encode_rows
from inkplex_data.speech.codec_stream import Codec, CodecStream, Codes, Samples, checked_codes
from inkplex_data.speech.codec_weights import State, common_name, quantizers, state_sha256
from inkplex_data.torch_settings import exact_convolutions, torch_threads


def build_model(state: State, *, where: str) -> MimiModel:
    """A `MimiModel` with exactly the tensors of `state` (common names); they are shared, not copied.

    Raises CheckpointError, naming tensors, where the state does not fit.
    """
    count = quantizers(state)
    if not CODEBOOKS <= count <= 1_024:
        raise CheckpointError(
            f"{count} codebooks; a Mimi codec has at least {CODEBOOKS}",
            where=where,
            next_step="Check that the file is Mimi's (tokenizer-*.safetensors), not the language model's.",
        )
    # Every weight is replaced below, so initialising them would be two seconds for nothing.
    with no_init_weights():
        model = MimiModel(MimiConfig(num_quantizers=count))
    expected = {common_name(name): name for name in model.state_dict()}
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    faults = [f"{name}: missing" for name in expected if name not in state]
    faults += [f"{name}: not a tensor of Mimi" for name in state if name not in expected]
    faults += [
        f"{name}: shape {tuple(tensor.shape)}, Mimi has {shapes[expected[name]]}"
        for name, tensor in state.items()
        if name in expected and tuple(tensor.shape) != shapes[expected[name]]
    ]
    if faults:
        more = f"\n  - and {len(faults) - 8} more" if len(faults) > 8 else ""
        raise CheckpointError(
            "\n  - ".join(["these weights are not Mimi's", *faults[:8]]) + more,
            where=where,
            next_step="Use the weights of kyutai/mimi, or the tokenizer-*.safetensors of Moshi or PersonaPlex.",
        )
    model.load_state_dict(
        {expected[name]: tensor for name, tensor in state.items()}, strict=True, assign=True
    )
    return model.eval().requires_grad_(False)


class MimiCodec(Codec):
    """One loaded Mimi. Encoding streams in chunks of 25 frames; the first eight codebooks are used.

    `model` is the `transformers.MimiModel`, `identity` what a store records. With `rows` above 1 the model always sees
    that many channels of 25 frames, silence where there are fewer or one has ended, so that a waveform's codes
    are the same whatever is encoded beside it. Raises ConfigError for a device that is not there.
    """

    def __init__(
        self,
        codec_id: str,
        state: State,
        untrained: bool,
        *,
        device: str = "cpu",
        threads: int = 1,
        rows: int = 1,
        stream: StreamKind = "whole",
    ) -> None:
        if threads < 1 or rows < 1:
            raise UsageError(f"a codec needs at least one thread and one row, got {min(threads, rows)}")
        self.model = build_model(state, where=codec_id)
        self.threads = threads
        try:
            self.device = torch.device(device)
            self.model.to(self.device)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(
                f"the device {device!r} is not usable: {str(error).splitlines()[0]}",
                where="--device",
                next_step="Use --device cpu, or install a torch build for this accelerator.",
            ) from error
        self.identity = CodecIdentity(
            codec_id, state_sha256(state), untrained, device=self.device.type, batch_rows=rows, stream=stream
        )

    def __repr__(self) -> str:
        return f"MimiCodec({self.identity.id!r}, sha256={self.identity.sha256[:12]}…)"

    def stream(self) -> MimiStream:
        """A new encoder stream; the codec's state starts afresh with each."""
        return MimiStream(self)

    def encode_batch(self, waveforms: Sequence[Iterable[npt.ArrayLike]]) -> list[Codes]:
        if self.identity.batch_rows == 1:
            return super().encode_batch(waveforms)
        return encode_rows(self.rows(), waveforms)

    def encode_pair(self, pairs: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]]) -> Codes:
        if self.identity.batch_rows == 1:
            return super().encode_pair(pairs)
        return encode_pair_rows(self.rows(), pairs)

    def rows(self) -> MimiRows:
        """Channels in lockstep, at their beginning."""
        said = self.identity
        return MimiRows(
            self.model, said.batch_rows, live=said.stream == "live", device=self.device, threads=self.threads
        )

    def decode(self, codes: npt.ArrayLike) -> Samples:
        """Waveform float32 [frames × 1,920] of codes [8, frames]; memory does not grow with the length.

        Fewer than eight codebooks (at least the semantic one) give a coarser waveform.
        Raises UsageError for another shape or for ids outside 0–2047.
        """
        array = checked_codes(codes)
        with torch.inference_mode(), torch_threads(self.threads), exact_convolutions(self.device):
            tensor = torch.from_numpy(array.astype(np.int64)).to(self.device)
            return decode_windows(self.model, tensor)


class MimiStream(CodecStream):
    """Holds ten seconds of attention besides its samples."""

    def __init__(self, codec: MimiCodec) -> None:
        super().__init__()
        self._rows = codec.rows()

    def finish(self) -> Codes:
        codes = super().finish()
        self._rows.forget()
        return codes

    def encode_chunk(self, samples: Samples, codes: Codes) -> None:
        rows = self._rows
        if rows.count == 1:
            codes[:] = rows.step(samples[None])[0]
            return
        beside = np.zeros((rows.count, CHUNK_SAMPLES), np.float32)
        beside[0, : len(samples)] = samples
        codes[:] = rows.step(beside)[0, : len(codes)]
