"""Audio that stands in the corpus twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def audio_in_two_families(
    calls: Iterable[tuple[str, str, str]], published: Iterable[tuple[str, str, str]] = ()
) -> dict[str, tuple[str, str, str]]:
    """Calls whose audio an earlier call of another family already has.

    `calls` and `published` are (call id, audio sha256, family); published ones count as earlier.
    Returns, per refused call id, the (call id, family) that holds the audio and the call's own family.
    The first in corpus order stays: with one of the two gone, no audio is in two splits.
    """
    owners: dict[str, tuple[str, str]] = {}
    for call_id, audio_sha256, family in published:
        owners.setdefault(audio_sha256, (call_id, family))
    refused: dict[str, tuple[str, str, str]] = {}
    for call_id, audio_sha256, family in calls:
        owner_id, owner_family = owners.setdefault(audio_sha256, (call_id, family))
        if owner_family != family:
            refused[call_id] = (owner_id, owner_family, family)
    return refused
