"""The loss that a stored sidecar leaves to its call, under the settings that its store was built with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inkplex_data.clock import seconds_to_us
from inkplex_data.corpus.sidecars.loss_mask import frame_mask
from inkplex_data.corpus.sidecars.sidecar_models import Sidecar
from inkplex_data.store.reader import Store


def stored_mask(store: Store, sidecar: Sidecar, frames: int) -> NDArray[np.uint8]:
    """uint8 [frames], as `frame_mask`. A store that was begun without a limit of uncertainty masks no word for it."""
    limit_s = store.setting("words", "uncertainty_limit_s")
    ahead_s = [store.setting("text", "delay_s") or 0.0]
    ahead_s += [
        transform.settings["delay_s"]
        for transform in (sidecar.audio.transforms if sidecar.audio is not None else ())
        if transform.name == "text-delay"
    ]
    return frame_mask(
        sidecar,
        frames,
        uncertainty_limit_us=None if limit_s is None else seconds_to_us(limit_s),
        text_ahead_us=sum(map(seconds_to_us, ahead_s)),
    )
