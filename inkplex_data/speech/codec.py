"""Codecs: 24 kHz speech to eight codes per 80 ms frame, and back. Mimi is the one that speech models read.

codec = load_codec("kyutai/mimi")          # or a folder, a .safetensors file, "untrained:0"
stream = codec.stream()
codes = [stream.push(samples), stream.finish()]     # uint16 [frames, 8] each

Importing this module is light; torch and transformers load with the first Mimi.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from inkplex_data.errors import ConfigError
from inkplex_data.libraries import require
from inkplex_data.speech.codec_identity import StreamKind
from inkplex_data.speech.codec_source import find_codec, untrained_seed
from inkplex_data.speech.codec_stream import Codec

DEFAULT_CODEC = "kyutai/mimi"


@dataclass(frozen=True)
class CodecRun:
    """How a codec runs, as `load_codec` takes it."""

    device: str = "cpu"
    threads: int = 1
    rows: int = 1
    stream: StreamKind = "whole"


def load_codec(
    spec: str = DEFAULT_CODEC,
    *,
    device: str = "cpu",
    threads: int = 1,
    rows: int = 1,
    stream: StreamKind = "whole",
) -> Codec:
    """Load a codec.

    `spec` is KIND:NAME with a kind of `KINDS`, such as `untrained:0`, or says where weights of Mimi are:
    - a Hugging Face hub id (`kyutai/mimi`, `kyutai/moshiko-pytorch-bf16`), downloaded or taken from the cache;
    - a folder with weights in the transformers format, or in the Moshi format as PersonaPlex ships them;
    - a `.safetensors` file in either format.

    `threads` is the number of torch threads while encoding or decoding; one per worker process is fastest
    over many calls, and makes the codes independent of the machine's core count. `rows` waveforms advance in lockstep
    in `encode_batch`; `stream` is `whole` or `live` (`StreamKind`). Both are part of the identity.

    Raises ConfigError where the spec names nothing that can be had, CheckpointError where the weights
    cannot be read or are not Mimi's, MissingLibraryError without torch or transformers.
    """
    kind, colon, _ = spec.partition(":")
    run = CodecRun(device, threads, rows, stream)
    if colon and kind in KINDS:
        return KINDS[kind](spec, run)
    _require_mimi()
    from inkplex_data.speech.codec_mimi import MimiCodec
    from inkplex_data.speech.codec_weights import read_state

    files = find_codec(spec)
    return MimiCodec(files.id, read_state(files.weights), False, **asdict(run))


def codec_of(
    identity: Mapping[str, Any], spec: str | None = None, *, device: str = "cpu", where: str | None = None
) -> Codec:
    """The codec that made some codes, by the identity that was written down with them at `where`. `spec` says where its
    weights are now; its id by default.

    Raises ConfigError for other weights, and what `load_codec` raises.
    """
    codec = load_codec(spec or str(identity["id"]), device=device)
    if codec.identity.sha256 != identity["sha256"]:
        raise ConfigError(
            f"the codec {codec.identity.id} is not the one that the store was built with, {identity['id']}",
            where=where,
            next_step="Give the weights of the build with --codec.",
        )
    return codec


def _untrained(spec: str, run: CodecRun) -> Codec:
    """Full-size random weights with codebooks fitted to speech, for trying a pipeline offline. Never chosen by
    itself, and marked in the identity."""
    seed = untrained_seed(spec)
    assert seed is not None
    _require_mimi()
    from inkplex_data.speech.codec_mimi import MimiCodec
    from inkplex_data.speech.codec_untrained import untrained_state
    from inkplex_data.torch_settings import torch_threads

    with torch_threads(run.threads):
        state = untrained_state(seed)
    return MimiCodec(f"untrained:{seed}", state, True, **asdict(run))


def _require_mimi() -> None:
    for library in ("torch", "transformers"):
        require(library, extra="codec", needed_for="encoding audio with Mimi")


KINDS: Final[dict[str, Callable[[str, CodecRun], Codec]]] = {"untrained": _untrained}
"""What stands before the colon of a spec → what loads such a spec, to run in such a way. A new codec is a line."""
