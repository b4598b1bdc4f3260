"""Train a small speech model itself on a store, with or without memory: calls in, losses out, in a minute on a CPU.

    inkplex-data build CALLS -o STORE -p moshi_single      any speech as one stream, no task recordings
    inkplex-data build CALLS -o STORE -p moshi_mono        or: one-channel audio divided into two
    python examples/train_voice.py STORE --allow-untrained-codec

`inkplex-data train -p finetune_lora` and `-p finetune_full` do this with checkpoints, checks and released weights. This
script does it in few lines, with the same loader and loss; it can serve as the start of a training loop of your own. It prints the loss of every pass, and exits with 1 unless the last is below the first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

import inkplex_data as ink
from inkplex_data.errors import InkplexError, UsageError
from inkplex_data.loader import Batch, make_loader
from inkplex_data.torch_settings import torch_threads
from inkplex_data.trainer import PersonaPlexConfig, PersonaPlexLM, voice_and_text_loss
from inkplex_data.trainer.run.objective import LossSums, objective_weights

WINDOW_FRAMES = 125


def loss_sums(lm: PersonaPlexLM, batch: Batch) -> LossSums:
    """Sums of the teacher-forced loss over one window, with the weights of Moshi's own training."""
    codes = batch.codes[None]
    out = lm.forward_train(batch.inputs[None])  # without the text that the recipe hides from the model
    return voice_and_text_loss(
        out.text_logits,
        out.logits,
        codes,
        batch.roles[None],
        torch.tensor([batch.frames]),
        mask=batch.mask[None],
        delays=lm.config.delays,
        weights=objective_weights("moshi"),
    )


def train_voice(
    path: Path, *, passes: int, seed: int = 0, allow_untrained_codec: bool = False
) -> list[float]:
    """Mean loss of each pass, nats. Raises UsageError for a store of an untrained codec that was not allowed."""
    store = ink.open_store(path)
    if store.description["codec"]["untrained"] and not allow_untrained_codec:
        raise UsageError(
            "its codes come from an untrained codec and mean nothing",
            where=str(path),
            next_step="build with trained Mimi weights, or give --allow-untrained-codec to try the machinery",
        )
    sizes = {"dim": 64, "heads": 4, "layers": 4, "context": 3000, "depth_dim": 32, "depth_heads": 2}
    sizes |= {"depth_layers": 1, "ffn_hidden_temporal": 128, "ffn_hidden_depth": 64}
    config = PersonaPlexConfig(**sizes, text_card=int(store.description["tokenizer"]["pieces"]))
    lm = PersonaPlexLM.seeded(config, seed).train()
    optimizer = torch.optim.AdamW(lm.parameters(), lr=3e-3)
    losses = []
    loader = make_loader(store, "train", seed=seed, memory="none", window_frames=WINDOW_FRAMES)
    for epoch in range(passes):  # each iteration of the loader is the next epoch
        found = []
        for batch in loader:
            loss = loss_sums(lm, batch).loss()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
            optimizer.step()
            found.append(loss.item())
        losses.append(sum(found) / len(found))
        print(f"pass {epoch + 1}: {len(found)} windows, loss {losses[-1]:.3f}", flush=True)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--allow-untrained-codec", action="store_true")
    options = parser.parse_args()
    try:
        with torch_threads(1):
            losses = train_voice(
                options.store, passes=options.passes, allow_untrained_codec=options.allow_untrained_codec
            )
    except InkplexError as error:
        sys.exit(f"error: {error}")
    sys.exit(0 if losses[-1] < losses[0] else 1)


if __name__ == "__main__":
    main()
