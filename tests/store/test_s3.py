"""A store in a bucket, through a real S3 client and a server of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from inkplex_data.errors import StoreError
from inkplex_data.store.reader import open_store
from inkplex_data.store.verify import verify_store
from tests.store.made import Made

moto = pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")


@pytest.fixture
def bucket(made: Made, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a copy of the made store."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    files = s3fs.S3FileSystem()
    files.mkdir("calls")
    files.put(str(made.root), "calls/a store", recursive=True)
    yield "s3://calls/a store"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_a_store_in_a_bucket_is_read_checked_and_refused_where_it_is_damaged(bucket: str, made: Made) -> None:
    remote, local = open_store(bucket), open_store(made.root)
    assert remote.complete and remote.call_ids == local.call_ids
    for name in ("calls", "words", "tokens", "versions", "problems", "recordings", "frames"):
        assert getattr(remote, name)().collect().equals(getattr(local, name)().collect()), name
    for call_id in local.call_ids:
        here, there = local.call(call_id), remote.call(call_id)
        assert (here.codes == there.codes).all() and (here.mask == there.mask).all()
        assert (here.states_u16 is None) == (there.states_u16 is None)
        assert here.states_u16 is None or (here.states_u16 == there.states_u16).all()
    assert verify_store(bucket) == []

    files = s3fs.S3FileSystem()
    states = next(key for key in files.find("calls/a store/recordings") if "/states/c" in key)
    data = bytearray(files.cat_file(states))
    data[500] ^= 1
    files.pipe(states, bytes(data))
    with pytest.raises(StoreError) as damaged:
        [open_store(bucket).call(call_id).states_u16 for call_id in local.call_ids]
    assert "/states" in (damaged.value.where or "")
    assert verify_store(bucket)
    files.rm("calls/a store/newest.json")
    assert open_store(bucket).call_ids == local.call_ids, "a bucket lists its snapshots"
    with pytest.raises(StoreError, match="no store here"):
        open_store("s3://calls/nowhere")
    with pytest.raises(StoreError) as absent:
        open_store("s3://no-such-bucket/store")
    assert absent.value.next_step
