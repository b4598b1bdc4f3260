"""The recipe section `surprise`: what a build does about a call whose text costs a model unlike that of other calls."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inkplex_data.config.section import Section


class SurpriseConfig(Section):
    """Compare each call's score, in bits per byte, with those of all calls that were scored with it."""

    scores: str = Field(description="file that `inkplex-data soma score` wrote, of a store with these calls")
    limit: Annotated[float, Field(gt=0)] = Field(
        3.5,
        description="robust standard deviations from the median, to either side, beyond which a call is an outlier",
    )
    on_failure: Literal["mark", "refuse"] = Field(
        "mark", description="what happens to an outlier: a problem marks it, or it is refused"
    )
