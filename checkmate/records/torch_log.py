"""PyTorch's out-of-memory messages: each is one line."""

from __future__ import annotations

import re

from checkmate.records.memory import FailedRequest, MemoryRecord, Source

_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = r"([\d.]{1,24}) (bytes|[KMGT]iB)"
_DEVICE = re.compile(rf"(\w{{1,20}}) out of memory\. Tried to allocate {_SIZE}")
_NUMBER = re.compile(r"\bGPU (\d{1,4})\b")
_TOTAL = re.compile(rf"total capaci?ty of {_SIZE}|{_SIZE} total capacity")
_FREE = re.compile(rf"of which {_SIZE} is free|{_SIZE} free")
_ALLOCATED = re.compile(rf"{_SIZE} (?:is|already) allocated")
_UNALLOCATED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_RESERVED = re.compile(rf"{_SIZE} (?:reserved in total by PyTorch|cached)")
_HOST = re.compile(r"DefaultCPUAllocator: .{0,80}you tried to allocate (\d{1,24}) bytes")


def torch_failure(line: str) -> MemoryRecord | None:
    """Return what a message tells; None where a line is no such message.

    What other programs hold is not PyTorch's to fetch, so the limit is what it holds and what is free.
    """
    if (host := _HOST.search(line)) is not None:
        return MemoryRecord(Source.LOG, "PyTorch's memory of the host", FailedRequest(int(host[1])))
    failed = _DEVICE.search(line)
    if failed is None:
        return None
    number, total, free = _NUMBER.search(line), _bytes(_TOTAL, line), _bytes(_FREE, line)
    where = f"GPU {number[1]}" if number else failed[1]
    allocated, unallocated, reserved = (_bytes(each, line) for each in (_ALLOCATED, _UNALLOCATED, _RESERVED))
    if reserved is None and allocated is not None and unallocated is not None:
        reserved = allocated + unallocated
    if reserved is not None and allocated is not None:
        unallocated = max(0, reserved - allocated)
    limit = None if free is None or reserved is None else free + reserved
    if limit is not None and total is not None:
        limit = min(limit, total)  # sizes are rounded
    return MemoryRecord(
        Source.LOG,
        f"PyTorch's memory of {where}",
        FailedRequest(_of(failed[2], failed[3]), about=True),
        limit_bytes=limit,
        pool_bytes=reserved,
        in_use_bytes=allocated,
        free_bytes=unallocated,
    )


def _bytes(pattern: re.Pattern[str], line: str) -> int | None:
    found = pattern.search(line)
    if found is None:
        return None
    number, unit = (each for each in found.groups() if each is not None)
    return _of(number, unit)


def _of(number: str, unit: str) -> int | None:
    return int(float(number) * _UNITS[unit]) if number.count(".") <= 1 and number != "." else None
