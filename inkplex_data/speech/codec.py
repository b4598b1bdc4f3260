"""Mimi: 24 kHz speech to eight codes per 80 ms frame, and back.

codec = load_codec("kyutai/mimi")          # or a folder, a .safetensors file, "untrained:0"
stream = codec.stream()
codes = [stream.push(samples), stream.finish()]     # uint16 [frames, 8] each

Importing this module is light; torch and transformers load with the first codec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inkplex_data.libraries import require
from inkplex_data.speech.codec_source import find_codec, untrained_seed

if TYPE_CHECKING:
    from inkplex_data.speech.codec_mimi import MimiCodec

DEFAULT_CODEC = "kyutai/mimi"


def load_codec(spec: str = DEFAULT_CODEC, *, device: str = "cpu", threads: int = 1) -> MimiCodec:
    """Load a Mimi codec.

    `spec` is one of:
    - a Hugging Face hub id (`kyutai/mimi`, `kyutai/moshiko-pytorch-bf16`), downloaded or taken from the cache;
    - a folder with weights in the transformers format, or in the Moshi format as PersonaPlex ships them;
    - a `.safetensors` file in either format;
    - `untrained:SEED`: full-size random weights with codebooks fitted to speech, for trying a pipeline
      offline. Never chosen by itself, and marked in the identity.

    `threads` is the number of torch threads while encoding or decoding; one per worker process is fastest
    over many calls, and makes the codes independent of the machine's core count.

    Raises ConfigError where the spec names nothing that can be had, CheckpointError where the weights
    cannot be read or are not Mimi's, MissingLibraryError without torch or transformers.
    """
    needed_for = "encoding audio with Mimi"
    require("torch", extra="codec", needed_for=needed_for)
    require("transformers", extra="codec", needed_for=needed_for)
    from inkplex_data.speech.codec_mimi import MimiCodec
    from inkplex_data.speech.codec_untrained import untrained_state
    from inkplex_data.speech.codec_weights import read_state
    from inkplex_data.torch_settings import torch_threads

    seed = untrained_seed(spec)
    if seed is not None:
        with torch_threads(threads):
            state = untrained_state(seed)
        return MimiCodec(f"untrained:{seed}", state, True, device=device, threads=threads)
    files = find_codec(spec)
    return MimiCodec(files.id, read_state(files.weights), False, device=device, threads=threads)
