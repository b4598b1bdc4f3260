"""What a side goes through before the codec: an extension of its band where it has a telephone's, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import soundfile

import inkplex_data as ink
from inkplex_data.audio import band_extension as band
from inkplex_data.audio.call_audio import resolve_channels
from inkplex_data.audio.resample import resample
from inkplex_data.config.recipe import load_recipe
from inkplex_data.errors import ConfigError, UsageError
from inkplex_data.pipeline import tools
from inkplex_data.pipeline.calls.call_streams import CallStreams
from inkplex_data.pipeline.calls.scan_call import Scan
from inkplex_data.pipeline.run import build_store
from inkplex_data.problems import ProblemLog
from tests.pipeline.conftest import tree


class Louder:
    """Stands for a model: what it did can be told from the samples."""

    identity = "louder/1"

    def extend(self, chunks: Iterable[np.ndarray], *, band_hz: int) -> Iterator[np.ndarray]:
        assert 3_000 < band_hz < 5_000
        return (2 * chunk for chunk in chunks)


class Longer(Louder):
    def extend(self, chunks: Iterable[np.ndarray], *, band_hz: int) -> Iterator[np.ndarray]:
        yield from chunks
        yield np.zeros(1, np.float32)


@pytest.fixture
def streams(tmp_path: Path) -> CallStreams:
    """The agent at full band, the caller through a telephone."""
    noise = 0.1 * np.random.default_rng(0).standard_normal((2, 48_000)).astype(np.float32)
    noise[1] = resample(resample(noise[1], 24_000, 8_000), 8_000)
    soundfile.write(tmp_path / "a.wav", noise.T, 24_000, subtype="FLOAT")
    audio = resolve_channels(tmp_path / "a.wav")
    found = audio.scan(ProblemLog(""))
    scan = Scan(
        "a",
        found.samples,
        found.samples,
        found.samples,
        "",
        "",
        "",
        0,
        0,
        0,
        found.band_hz["agent"],
        found.band_hz["caller"],
    )
    return CallStreams(audio, scan, load_recipe(None))


def test_resampling_is_the_default(streams: CallStreams) -> None:
    for side, opened in zip(("agent", "caller"), streams.open(), strict=True):
        plain = np.concatenate(list(streams.audio.stream(side)))  # type: ignore[arg-type]
        np.testing.assert_array_equal(np.concatenate(list(opened)), plain)
    assert streams.transforms() == []


def test_an_installed_extension(streams: CallStreams, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint(name.lower(), f"{__name__}:{name}", band.ENTRY_POINTS) for name in ("Louder", "Longer")
    ]
    monkeypatch.setattr(band, "entry_points", lambda group: points)
    tools._bandwidth.cache_clear()
    chosen = CallStreams(streams.audio, streams.scan, load_recipe(None, {"audio.bandwidth": "louder"}))
    plain, widened = ([np.concatenate(list(side)) for side in each.open()] for each in (streams, chosen))
    np.testing.assert_array_equal(widened[0], plain[0])
    np.testing.assert_array_equal(widened[1], 2 * plain[1])
    (made,) = chosen.transforms()
    assert made.name == "bandwidth-extension"
    assert (made.settings["channel"], made.settings["model"]) == ("caller", "louder/1")
    longer = CallStreams(streams.audio, streams.scan, load_recipe(None, {"audio.bandwidth": "longer"}))
    with pytest.raises(UsageError, match="returned 48,001 of 48,000 samples"):
        list(longer.open()[1])
    tools._bandwidth.cache_clear()
    with pytest.raises(ConfigError, match="one of resample, longer, louder"):
        tools.bandwidth("none")


SOURCE = """
import numpy as np

def double(samples):
    assert samples.dtype == np.float32 and samples.ndim == 1
    return 2 * samples

def cut(samples):
    return samples[1:]

number = 3
"""


def test_any_function_from_samples_to_samples(
    streams: CallStreams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file or of a module; its source is part of its identity, and a changed one is loaded anew."""
    source = tmp_path / "my_wider.py"
    source.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    plain = np.concatenate(list(streams.open()[1]))
    identities = set()
    for name in (f"{source}:double", "my_wider:double"):
        chosen = CallStreams(streams.audio, streams.scan, load_recipe(None, {"audio.bandwidth": name}))
        np.testing.assert_array_equal(np.concatenate(list(chosen.open()[1])), 2 * plain)
        (made,) = chosen.transforms()
        identities.add(made.settings["model"])
    assert all("my_wider" in name and str(tmp_path) not in name and ":double@" in name for name in identities)
    source.write_text(SOURCE.replace("2 * samples", "30 * samples"))
    for name in (f"{source}:double", "my_wider:double"):
        chosen = CallStreams(streams.audio, streams.scan, load_recipe(None, {"audio.bandwidth": name}))
        np.testing.assert_array_equal(np.concatenate(list(chosen.open()[1])), 30 * plain)
    shorter = CallStreams(
        streams.audio, streams.scan, load_recipe(None, {"audio.bandwidth": f"{source}:cut"})
    )
    with pytest.raises(UsageError, match=r"made shape \[47999\] of float32 \[48000\]"):
        list(shorter.open()[1])
    for name, fault in (
        (f"{source}:none", "cannot be imported"),
        (f"{source}:number", "is not a function"),
        ("no_such_module:f", "there is no module or file 'no_such_module'"),
    ):
        with pytest.raises(ConfigError, match=fault):
            tools.bandwidth(name)


@pytest.mark.slow
def test_workers_widen_alike(tmp_path: Path) -> None:
    source = tmp_path / "wider.py"
    source.write_text(SOURCE)
    folder = tmp_path / "corpus"
    folder.mkdir()
    noise = 0.1 * np.random.default_rng(0).standard_normal((2, 24_000)).astype(np.float32)
    for name in ("a", "b"):
        narrow = [resample(resample(side, 24_000, 8_000), 8_000) for side in noise * (1 + (name == "b"))]
        soundfile.write(folder / f"{name}.wav", np.stack(narrow, axis=1), 24_000, subtype="FLOAT")
    settings = {"codec.id": "untrained:0", "words.source": "none", "prefix": None}
    stores = {}
    for workers, name in ((1, f"{source}:double"), (2, f"{source}:double"), (1, "resample")):
        stores[workers, name] = tmp_path / f"{workers}-{name[:2].strip('/')}"
        recipe = load_recipe(None, {**settings, "audio.bandwidth": name})
        assert build_store(folder, stores[workers, name], recipe=recipe, workers=workers).exit_code == 0
    alone, together, plain = map(tree, stores.values())
    assert alone == together
    codes = [ink.open_store(store).call("a").codes for store in stores.values()]
    assert not np.array_equal(codes[0], codes[2]) and plain
