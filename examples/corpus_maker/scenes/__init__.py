"""The scenes of the example corpus, in the order of the manifest."""

from __future__ import annotations

from corpus_maker.scene import Scene
from corpus_maker.scenes.bill import bill_twins
from corpus_maker.scenes.broadband import broadband_fault
from corpus_maker.scenes.roaming import roaming_pass
from corpus_maker.scenes.sim import sim_calls


def all_scenes() -> list[Scene]:
    """Train: two calls over one recording. Validation: a pair of twins and another family. Test: one call."""
    return [*sim_calls(), *bill_twins(), roaming_pass(), broadband_fault()]
