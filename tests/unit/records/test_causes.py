from __future__ import annotations

from dataclasses import replace

import pytest

from checkmate.records.memory import Cause, FailedRequest, MemoryRecord, Source
from checkmate.records.words import facts, next_commands, why

MIB = 2**20
DUMP = MemoryRecord(
    Source.LOG,
    "GPU_0_bfc",
    FailedRequest(4 * MIB, 4 * MIB, op="net/conv/Conv2D"),
    limit_bytes=16 * MIB,
    pool_bytes=16 * MIB,
    in_use_bytes=10 * MIB,
    free_bytes=6 * MIB,
    largest_free_bytes=3 * MIB,
)


@pytest.mark.parametrize(
    ("record", "cause", "said"),
    [
        (DUMP, Cause.SPLIT, "fragmentation: 6.00 MiB was not in use, but the largest piece was 3.00 MiB"),
        (
            replace(DUMP, in_use_bytes=14 * MIB, free_bytes=2 * MIB, largest_free_bytes=2 * MIB),
            Cause.SHORT,
            "2.00 MiB more had to be free: 4.00 MiB was needed, and 2.00 MiB of the limit was not in use",
        ),
        (replace(DUMP, asked=FailedRequest(20 * MIB)), Cause.TOO_LARGE, "No schedule makes it fit"),
        (
            replace(DUMP, limit_bytes=32 * MIB),
            Cause.REFUSED,
            "left 16.0 MiB to fetch, but the device gave none of that size",
        ),
        # Nothing is told of pieces: enough was free, so it is not known why.
        (
            replace(DUMP, pool_bytes=None, free_bytes=None, largest_free_bytes=None),
            Cause.UNKNOWN,
            "does not say enough",
        ),
        (MemoryRecord(Source.LOG, "", FailedRequest(4 * MIB)), Cause.UNKNOWN, "does not say enough"),
        (replace(DUMP, largest_free_bytes=5 * MIB), Cause.UNKNOWN, "does not say enough"),
    ],
)
def test_why_a_request_failed(record: MemoryRecord, cause: Cause, said: str) -> None:
    assert record.cause is cause
    assert said in why(record)


def test_what_is_free_and_what_was_never_fetched_count_together() -> None:
    record = replace(DUMP, limit_bytes=19 * MIB, asked=FailedRequest(8 * MIB))
    assert record.untouched_bytes == 3 * MIB and record.room_bytes == 9 * MIB
    assert record.cause is Cause.SPLIT and record.split_bytes == 3 * MIB
    assert ("free", "6.00 MiB, the largest piece 3.00 MiB, 3.00 MiB of it split off") in facts(record)
    assert ("not fetched", "3.00 MiB") in facts(record)


def test_the_allocator_that_splits_less_is_named_for_a_gpu_only() -> None:
    assert "cuda_malloc_async" in why(DUMP)
    assert "cuda_malloc_async" not in why(replace(DUMP, allocator="mklcpu"))


def test_the_next_commands_carry_the_limit_and_the_model() -> None:
    assert next_commands(DUMP) == [
        "checkmate explore MODEL -b BATCH --budget 16777216",
        "checkmate run MODEL -b BATCH --budget 16777216 -o out",
    ]
    assert next_commands(DUMP, "my model.keras", 8)[0] == (
        "checkmate explore 'my model.keras' -b 8 --budget 16777216"
    )
    assert next_commands(replace(DUMP, limit_bytes=None), "unet") == ["checkmate explore unet"]
