"""The codec of the tests is one."""

from __future__ import annotations

import pytest

from inkplex_data.speech.codec import Codec, load_codec
from tests.conformance.codecs import CodecConformance


class TestQuick(CodecConformance):
    @pytest.fixture
    def codec(self) -> Codec:
        return load_codec("quick:")
