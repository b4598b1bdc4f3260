"""Where shards end."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from inkplex_data.pipeline.planning.sharding import Sized, plan_shards


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 100))
def test_shards_keep_the_order_and_respect_the_limit(sizes: list[int], limit: int) -> None:
    items = [Sized(str(index), size) for index, size in enumerate(sizes)]
    shards = plan_shards(items, limit)
    assert [key for shard in shards for key in shard] == [item.key for item in items]
    for shard in shards:
        total = sum(sizes[int(key)] for key in shard)
        assert shard
        assert total <= limit or len([key for key in shard if sizes[int(key)]]) == 1
    for first, second in itertools.pairwise(shards):
        # Greedy: the next shard's first item would not have fitted.
        assert sum(sizes[int(key)] for key in first) + sizes[int(second[0])] > limit
