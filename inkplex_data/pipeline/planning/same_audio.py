"""Audio that stands in the corpus twice: the same samples, or one recording coded otherwise. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from inkplex_data.audio.fingerprint import Entries, Fingerprint

INDEXED: Final = 64
"""Hashes of each call that are looked up, the smallest ones. A copy through Opus at 12 kbit/s has a quarter of them."""
FEWEST_SHARED: Final = 2
MOST_HOLDERS: Final = 64
"""A hash that more calls hold is of an announcement or of music, and tells none of them from another."""
SHORTEST_TIMES: Final = 3
"""Of a shorter sound, of some seconds, the tones tell too little: one synthetic voice says "it is Monday" and "it is
Sunday" in nearly the same ones. Equal samples are found whatever their length."""
FEWEST_HASHES: Final = 40
"""Fewer say too little: two or three seconds of speech, or tones for any time."""
TOLD_HASHES: Final = 8
"""A section with fewer says nothing."""
SECTION_HASHES: Final = 50
SECTION_TIMES: Final = 2
"""A section has about so many hashes, and at least so many units of time."""
SHARE: Final = 0.06
"""What every section of two recordings must share. Copies come to 0.24 as a whole and more, other sound to 0.00."""

LEVEL_DB: Final = 0.6
PADDING_DB: Final = 3.0
"""By how much levels may differ in the mean: codecs change them by up to 0.4 dB, and what an encoder puts before and
behind the sound by more, the shorter the call is (PADDING_DB over its units of time). Other sounds of the same tones
differ by 1.1 dB in 40 s and 3 dB in 10 s, other voices by 7."""


def audio_in_two_families(
    calls: Iterable[tuple[str, str, str]],
    published: Iterable[tuple[str, str, str]] = (),
    *,
    exchanged: Mapping[str, str] | None = None,
) -> dict[str, tuple[str, str, str]]:
    """Calls whose audio an earlier call of another family already has, as it is or with its channels exchanged.

    `calls` and `published` are (call id, audio sha256, family); published ones count as earlier. `exchanged`: the
    sha256 that the audio of each of `calls` would have with its channels exchanged.
    Returns, per refused call id, the (call id, family) that holds the audio and the call's own family.
    The first in corpus order stays: with one of the two gone, no audio is in two splits.
    """
    owners: dict[str, tuple[str, str]] = {}
    for call_id, audio_sha256, family in published:
        owners.setdefault(audio_sha256, (call_id, family))
    refused: dict[str, tuple[str, str, str]] = {}
    for call_id, audio_sha256, family in calls:
        turned = (exchanged or {}).get(audio_sha256, audio_sha256)
        owner_id, owner_family = owners.get(turned) or owners.setdefault(audio_sha256, (call_id, family))
        if owner_family != family:
            refused[call_id] = (owner_id, owner_family, family)
    return refused


def recordings_in_two_families(
    calls: Iterable[tuple[str, bytes | None, str]], published: Iterable[tuple[str, bytes | None, str]] = ()
) -> dict[str, tuple[str, str, str]]:
    """As `audio_in_two_families`, by fingerprints: however the recording was coded, resampled or levelled.

    These calls need not be refused; see `families.joined.join_families`.

    Near-linear in the number of calls: only those are compared that share hashes which few hold.
    """
    known = list(published)
    first = len(known)
    known += calls
    prints = [Fingerprint.of(fingerprint) for _, fingerprint, _ in known]
    refused: dict[str, tuple[str, str, str]] = {}
    for earlier, later in _candidates([own.hashes for own in prints]):
        (owner_id, _, owner_family), (call_id, _, family) = known[earlier], known[later]
        is_settled = later < first or call_id in refused or owner_id in refused or owner_family == family
        if not is_settled and is_same_recording(prints[earlier], prints[later]):
            refused[call_id] = (owner_id, owner_family, family)
    return refused


def is_same_recording(first: Fingerprint, second: Fingerprint) -> bool:
    """Whether two fingerprints are of one recording.

    They have to agree all along, so that a shared announcement or shared music does not make two calls one.
    """
    one, other = first.hashes, second.hashes
    if min(len(one), len(other)) < FEWEST_HASHES:
        return False
    ends = one["time"].max(), other["time"].max()
    if min(ends) + 1 < SHORTEST_TIMES:
        return False
    units = int(max(ends)) + 1
    apart = first.levels.astype(np.int64) - second.levels
    apart_db = float(np.abs(apart - np.median(apart)).mean()) / 4
    return apart_db <= LEVEL_DB + PADDING_DB / units and _agree_all_along(one, other, units)


def _agree_all_along(one: Entries, other: Entries, units: int) -> bool:
    # Below the smaller of both ends each has every hash of its call.
    end = min(one["hash"][-1], other["hash"][-1])
    one, other = one[one["hash"] <= end], other[other["hash"] <= end]
    if not (len(one) and len(other)):
        return False
    shared = np.intersect1d(one["hash"], other["hash"], return_indices=True)[1]
    count = max(min(max(len(one), len(other)) // SECTION_HASHES, units // SECTION_TIMES), 1)
    edges = np.linspace(0, units, count + 1)
    held = np.maximum(*(np.histogram(side["time"], edges)[0] for side in (one, other)))
    common = np.histogram(one["time"][shared], edges)[0]
    # One hash in common is no chance, but of many a copy has more.
    told, agree = held >= TOLD_HASHES, common >= np.maximum(SHARE * held, np.minimum(held // TOLD_HASHES, 2))
    return bool(told.any() and agree[told].all())


def _candidates(hashes: list[Entries]) -> Iterator[tuple[int, int]]:
    """Pairs (earlier, later) that share enough hashes to be compared, the later ones in order."""
    values = np.concatenate([np.zeros(0, np.uint32), *(own["hash"][:INDEXED] for own in hashes)])
    owners = np.repeat(np.arange(len(hashes)), [min(len(own), INDEXED) for own in hashes])
    # Stable, so that holders of one hash stay in the calls' order.
    order = np.argsort(values, kind="stable")
    values, owners = values[order], owners[order]
    starts = np.flatnonzero(np.diff(values, prepend=values[:1] + np.uint32(1)))
    sizes = np.diff(starts, append=len(values))
    pairs = [np.zeros(0, np.int64)]
    for size in np.unique(sizes[(sizes > 1) & (sizes <= MOST_HOLDERS)]):
        held = owners[starts[sizes == size][:, None] + np.arange(size)]
        first, second = np.triu_indices(size, 1)
        pairs.append((held[:, second] * len(hashes) + held[:, first]).ravel())
    found, shared = np.unique(np.concatenate(pairs), return_counts=True)
    for pair in found[shared >= FEWEST_SHARED]:
        later, earlier = divmod(int(pair), len(hashes))
        yield earlier, later
