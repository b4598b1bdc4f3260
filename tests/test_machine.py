"""What the machine does to the work is recognised however it is dressed, and said with path, size and next step."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pytest

from inkplex_data.errors import CallRefused, MachineFault
from inkplex_data.machine import machine_fault, naming


def raised_from(cause: BaseException) -> CallRefused:
    refused = CallRefused("audio-unreadable", "cannot be decoded", where="a.wav")
    refused.__cause__ = cause
    return refused


@pytest.mark.parametrize(
    ("error", "said", "is_final"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space is left", True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "quota", True),
        (OSError(errno.EIO, "Input/output error"), "input/output error", False),
        (OSError(errno.EMFILE, "Too many open files"), "too many files", False),
        (MemoryError(), "not enough memory", False),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate"), "memory", False),
        (RuntimeError("polars: No space left on device (os error 28)"), "no space is left", True),
        (TimeoutError("timed out"), "does not answer", False),
        (raised_from(OSError(errno.EIO, "Input/output error")), "input/output error", False),
    ],
)
def test_faults_of_the_machine(error: BaseException, said: str, is_final: bool, tmp_path: Path) -> None:
    fault = machine_fault(error, tmp_path / "not" / "yet")
    assert fault is not None and said in str(fault) and "then run the same command again" in str(fault)
    assert fault.is_final is is_final
    assert str(tmp_path) in str(fault)
    assert ("bytes are free" in str(fault)) == is_final
    travelled = pickle.loads(pickle.dumps(fault))
    assert (str(travelled), travelled.is_final) == (str(fault), is_final)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file"),
        PermissionError(errno.EACCES, "Permission denied"),
        ValueError("a bad word"),
        CallRefused("audio-unreadable", "cannot be decoded"),
    ],
)
def test_faults_of_the_data(error: BaseException) -> None:
    assert machine_fault(error) is None


def test_damaged_media_is_no_fault_of_the_disk() -> None:
    av_error = pytest.importorskip("av.error")
    assert machine_fault(av_error.OSError(errno.EIO, "Input/output error", "call.mp3")) is None


def test_an_error_without_a_file_gets_the_one_that_was_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as raised, naming(tmp_path / "out.json"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.filename == str(tmp_path / "out.json")
    with pytest.raises(MachineFault) as fault, naming(tmp_path):
        raise MachineFault("a worker died")
    assert fault.value.where is None
