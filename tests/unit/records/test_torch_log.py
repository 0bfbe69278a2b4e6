from __future__ import annotations

import pytest

from checkmate.records.memory import Cause, MemoryRecord
from checkmate.records.oom_log import read_lines
from checkmate.records.words import facts, headline, why

GIB, MIB = 2**30, 2**20
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity"
    " of 24.00 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 22.50 GiB "
    "memory in use. Of the allocated memory 20.00 GiB is allocated by PyTorch, and 2.00 GiB is reserved"
    " by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
)
OLDER = (
    "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 8.00 GiB total capacity; "
    "6.00 GiB already allocated; 128.00 MiB free; 6.25 GiB reserved in total by PyTorch)"
)
SHARED = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 8.00 GiB total"
    " capacity; 17.00 GiB already allocated; 0 bytes free; 19.00 GiB reserved in total by PyTorch) If "
    "reserved memory is >> allocated memory try setting max_split_size_mb"
)
HOST = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate "
    "memory: you tried to allocate 4503599627370496 bytes. Error code 12 (Cannot allocate memory)"
)


def read(*lines: str) -> list[MemoryRecord]:
    return list(read_lines("train.log", lines).records)


def test_memory_that_is_reserved_in_pieces() -> None:
    (record,) = read("step 3", NEW, "During handling of the above exception:", NEW)
    assert record.asked is not None and record.asked.bytes == 2 * GIB
    assert (record.limit_bytes, record.pool_bytes, record.in_use_bytes) == (23 * GIB, 22 * GIB, 20 * GIB)
    assert record.cause is Cause.SPLIT
    assert headline(record) == "2.00 GiB could not be had in PyTorch's memory of GPU 1"
    assert "3.00 GiB was not in use, but in no piece" in why(record)
    assert why(record).endswith("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True splits memory less.")
    assert ("free", "2.00 GiB") in facts(record) and ("not fetched", "1.00 GiB") in facts(record)


def test_memory_that_is_short() -> None:
    (record,) = read(OLDER)
    assert record.limit_bytes == 6.375 * GIB and record.free_bytes == 256 * MIB
    assert record.cause is Cause.SHORT
    assert why(record).startswith("128 MiB more had to be free: 512 MiB was needed, and 384 MiB")


def test_more_memory_than_the_device_has() -> None:
    (record,) = read(SHARED)
    assert record.limit_bytes == 8 * GIB and record.untouched_bytes == 0 and record.free_bytes == 2 * GIB


def test_memory_of_the_host() -> None:
    (record,) = read(HOST)
    assert record.asked is not None and record.asked.bytes == 2**52 and not record.asked.about
    assert record.cause is Cause.UNKNOWN and record.limit_bytes is None


@pytest.mark.parametrize(
    "line", ["CUDA out of memory. Tried to allocate 1..2 GiB", "CUDA error: out of memory"]
)
def test_numbers_that_are_none(line: str) -> None:
    assert all(record.asked is None or record.asked.bytes is None for record in read(line))
