"""Audio files and their samples."""

from __future__ import annotations

from inkplex_data.problems.code_table import error, info, repair, table

AUDIO = table(
    "audio",
    {
        "audio-unreadable": error(
            "Neither libsndfile nor FFmpeg can decode the file.",
            "Convert it with a program that plays it, for instance `ffmpeg -i FILE call.flac`; Fisher and Switchboard files with Shorten compression need `sph2pipe -f wav` first.",
        ),
        "audio-headerless": error(
            "The file holds bare samples: nothing in it states their encoding, rate and channels.",
            "Convert it, for instance `ffmpeg -f mulaw -ar 8000 -ac 1 -i FILE call.wav` (`-f alaw`, `-f s16le` for other encodings, `-ar` and `-ac` as recorded).",
        ),
        "audio-rate": error(
            "The sample rate that the file declares is outside 4 kHz to 768 kHz.",
            "Export the call again at its true sample rate.",
        ),
        "audio-mono": error(
            "The file has one channel, but agent and caller need a channel each.",
            "Give the two sides as a stereo file or as two files, or build with `--mono`, which separates the speakers, or with `-p moshi_single`, which leaves them together.",
        ),
        "audio-channels": error(
            "It is not clear which channel is the agent's and which the caller's.",
            'Name them in the manifest, counted from 0: `"channels": {"agent": 0, "caller": 1}`.',
        ),
        "audio-too-short": error(
            "A channel holds less than one frame of 80 ms.",
            "Check the file; replace it or remove the call.",
        ),
        "audio-not-finite": error(
            "The audio has NaN or infinite samples.", "Export the call again, as 16-bit PCM."
        ),
        "audio-out-of-range": error(
            "The audio has samples beyond 8 times full scale, so it is probably scaled as integers.",
            "Divide the samples by 32,768 (or export as 16-bit PCM), so that full scale is 1.0.",
        ),
        "audio-dual-mono": error(
            "Both channels hold the same sound, so neither speaker is heard alone.",
            "Give a file with one speaker per channel, or one channel of this file with `--mono`, which separates the speakers.",
        ),
        "audio-both-silent": error(
            "Both channels are silent.", "Check the file; replace it or remove the call."
        ),
        "audio-changed": error(
            "The file was replaced or grew while the build ran.",
            "Run the build again when the file is complete.",
        ),
        "audio-truncated": repair(
            "The file ends before the length that its header declares; what is there was used.",
            "Copy or download the file again if the rest of the call matters.",
        ),
        "audio-damaged": repair(
            "Samples are missing inside the file: silence that carries no loss stands in their place; where nothing tells how many they are, the call is refused.",
            "Copy or download the file again; `ffmpeg -i FILE -f null -` shows where it is damaged.",
        ),
        "audio-overlap": repair(
            "Time stamps of the file go back, as where a recorder stored a stretch twice; what came a second time was left out.",
            "Listen to the places; export the call again if something is missing there.",
        ),
        "audio-extra-tracks": repair(
            "The file holds several audio tracks; only the first was used.",
            "Extract the tracks that hold agent and caller, and give them as two files.",
        ),
        "audio-length-differs": info(
            "The header declares a length that is not the file's; every decoded sample was used.",
        ),
        "audio-channel-lengths": info(
            "The agent's and the caller's files differ in length; the missing end counts as missing, not as silence.",
            "Check that both files begin at the same moment.",
        ),
        "audio-band-limited": info(
            "A side has telephone bandwidth, up to 4 kHz: resampling to 24 kHz does not make it 24 kHz speech.",
            "Train on it knowingly, or widen its band first (recipe key `audio.bandwidth`).",
        ),
        "audio-bleed": info(
            "One side's voice is heard on the other side's channel, less than 30 dB below its own level.",
            "A little does no harm; where a model must not hear itself, remove the echo before building.",
        ),
        "audio-silent-channel": info(
            "One channel is silent throughout.", "Nothing to do if that speaker said nothing."
        ),
    },
)
