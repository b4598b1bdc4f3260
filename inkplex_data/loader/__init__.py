"""From a store to a training step: samples in a reproducible order, read ahead, on the device.

`make_loader` is the way in; docs/architecture.md shows the parts.
"""

from inkplex_data.loader.batch import Batch, Targets
from inkplex_data.loader.loader import Group, Loader
from inkplex_data.loader.options import make_loader
from inkplex_data.loader.report import LoaderReport

__all__ = ["Batch", "Group", "Loader", "LoaderReport", "Targets", "make_loader"]
