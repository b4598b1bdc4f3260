"""Training a SentencePiece model with the special ids that the speech model's text stream needs."""

from __future__ import annotations

import io
from collections.abc import Iterable

from inkplex_data.errors import UsageError
from inkplex_data.grid import TEXT_CARD


def train_tokenizer(sentences: Iterable[str], *, pieces: int) -> bytes:
    """A serialized unigram model of at most `pieces` pieces: unk 0, bos 1, eos 2, pad 3, byte fallback.

    Numbers are split into single digits and unknown characters into bytes, as by the tokenizer of the
    released models (seeds/002, "Stage 1 — Helium"). Text is not normalised, which also keeps 240 kB of
    normalisation table out of the file. One thread and no shuffling: the same sentences give the same bytes.

    Raises UsageError when `pieces` has no room beside the special and byte pieces, exceeds the text
    vocabulary, or the sentences are too few.
    """
    import sentencepiece

    if not 4 + 256 < pieces <= TEXT_CARD:
        raise UsageError(f"a tokenizer of {pieces} pieces cannot be trained; it has 261…{TEXT_CARD}")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type="unigram",
            vocab_size=pieces,
            hard_vocab_limit=False,
            unk_id=0,
            bos_id=1,
            eos_id=2,
            pad_id=3,
            byte_fallback=True,
            split_digits=True,
            normalization_rule_name="identity",
            character_coverage=1.0,
            shuffle_input_sentence=False,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise UsageError(
            f"SentencePiece could not train {pieces} pieces: {error}",
            next_step="Give it more sentences, or ask for fewer pieces.",
        ) from error
    return model.getvalue()
