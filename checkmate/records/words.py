"""What a record tells, in words and as data, and which commands come next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from checkmate.records.memory import Allocations, Cause, FailedRequest, MemoryRecord, ReadRecord, Source
from checkmate.units import format_bytes, plural

_NOTICED = 0.01  # of what is in use; less is not worth a word
# What splits memory less, by the beginning of an allocator's name.
_LESS_SPLIT = {
    "GPU": "TF_GPU_ALLOCATOR=cuda_malloc_async uses an allocator that splits memory less",
    "PyTorch": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True splits memory less",
}


def headline(record: MemoryRecord) -> str:
    where = f" in {record.allocator}" if record.allocator else ""
    if record.source is Source.COMPILED:
        if record.estimated:
            size = format_bytes(record.in_use_bytes or 0)
            return f"{record.allocator} will hold about {size} at its peak, once XLA has fused and ordered it"
        return f"{record.allocator} holds {format_bytes(record.in_use_bytes or 0)} at its peak, by XLA's plan"
    if record.moment:
        return f"{format_bytes(record.in_use_bytes or 0)} was in use{where} {record.moment}"
    if record.asked is None and record.source is not Source.LOG:
        return f"At most {format_bytes(record.in_use_bytes or 0)} was in use{where}"
    if record.asked is None:
        return f"A request failed{where}; the log does not say which"
    return f"{asked_words(record.asked)} could not be had{where}"


def asked_words(asked: FailedRequest) -> str:
    size = "A tensor" if asked.bytes is None else format_bytes(asked.bytes)
    tensor = "" if asked.shape is None else f" ({asked.dtype}[{','.join(map(str, asked.shape))}])"
    return f"{size}{tensor}{f' for {asked.op}' if asked.op else ''}"


def why(record: MemoryRecord) -> str:
    needed, limit = record.needed_bytes or 0, record.limit_bytes or 0
    match record.cause:
        case Cause.TOO_LARGE:
            return (
                f"This request alone is larger than the limit of {format_bytes(limit)}. No schedule makes it "
                "fit: use a smaller batch or input."
            )
        case Cause.SHORT:
            return (
                f"{format_bytes(record.missing_bytes or 0)} more had to be free: {format_bytes(needed)} was "
                f"needed, and {format_bytes(record.room_bytes or 0)} of the limit was not in use."
            )
        case Cause.SPLIT:
            largest = max(record.largest_free_bytes or 0, record.untouched_bytes or 0)
            pieces = f"the largest piece was {format_bytes(largest)}"
            if record.largest_free_bytes is None:
                pieces = "in no piece that was large enough"
            helps = [each for name, each in _LESS_SPLIT.items() if record.allocator.startswith(name)]
            free = format_bytes(record.room_bytes or 0)
            return f"This is fragmentation: {free} was not in use, but {'. '.join([pieces, *helps])}."
        case Cause.REFUSED:
            return (
                f"The limit left {format_bytes(record.untouched_bytes or 0)} to fetch, but the device gave "
                "none of that size. Another program may hold it."
            )
    if record.asked is None and record.source is not Source.LOG:
        return ""
    return f"The {record.source} does not say enough of what was free to tell why."


def facts(record: MemoryRecord) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    used = record.in_use_bytes
    if record.asked is not None:
        chunk = record.asked.rounded_bytes
        rounded = f", a chunk of {chunk:,} B" if chunk is not None and chunk != record.asked.bytes else ""
        found.append(("asked for", f"{asked_words(record.asked)}{rounded}"))
    if record.limit_bytes is not None:
        found.append(("limit", format_bytes(record.limit_bytes)))
    found += [
        (part.name, f"{format_bytes(part.bytes)} in {plural(part.count, 'buffer')}") for part in record.parts
    ]
    if record.source is Source.SNAPSHOT and record.pool_bytes is not None:
        found.append(("reserved", format_bytes(record.pool_bytes)))
    if record.in_use_bytes is not None and not record.parts:
        found.append(("in use", f"{format_bytes(record.in_use_bytes)}{_rounding(record)}"))
    if record.most_bytes is not None and format_bytes(record.most_bytes) != format_bytes(used or 0):
        found.append(("most in use", f"{format_bytes(record.most_bytes)} at any time before"))
    if record.free_bytes is not None:
        split = f", {format_bytes(record.split_bytes or 0)} of it split off" if record.split_bytes else ""
        piece = record.largest_free_bytes if record.free_bytes else None
        largest = "" if piece is None else f", the largest piece {format_bytes(piece)}"
        found.append(("free", f"{format_bytes(record.free_bytes)}{largest}{split}"))
    if record.untouched_bytes:
        found.append(("not fetched", format_bytes(record.untouched_bytes)))
    return found


def _rounding(record: MemoryRecord) -> str:
    if record.requested_bytes is None or not record.in_use_bytes:
        return ""
    lost = max(0, record.in_use_bytes - record.requested_bytes)
    about = "about " if record.source is Source.LOG else ""
    if lost < _NOTICED * record.in_use_bytes:
        return ", under 1 % of it lost to rounding sizes up"
    return f", {about}{format_bytes(lost)} of it lost to rounding sizes up"


def rows(record: MemoryRecord, *, by_size: bool) -> tuple[Allocations, ...]:
    return record.by_size if by_size or not record.by_layer else record.by_layer


def row_kind(record: MemoryRecord, *, by_size: bool) -> str:
    if rows(record, by_size=by_size) is record.by_size:
        return "size"
    return "line of code" if record.source is Source.SNAPSHOT else "layer"


def row_name(name: str) -> str:
    return f"{int(name):,} B each" if name.isdecimal() else name


def why_no_layers(record: MemoryRecord) -> str:
    if record.by_layer or not record.by_size:
        return ""
    return "The log does not name the ops that hold memory; a profile does."


def next_commands(record: MemoryRecord, model: str = "MODEL", batch: int | None = None) -> list[str]:
    """Return commands that lead on; ``model`` and ``batch`` are put in for what is not known."""
    size = "" if batch is None and model != "MODEL" else f" -b {'BATCH' if batch is None else batch}"
    named = f"{model if model == 'MODEL' else shlex.quote(model)}{size}"
    if record.limit_bytes is None:
        return [f"checkmate explore {named}"]
    budget = f"--budget {record.limit_bytes}"
    return [f"checkmate explore {named} {budget}", f"checkmate run {named} {budget} -o out"]


def to_json(reading: ReadRecord) -> dict[str, Any]:
    return {
        "format": "checkmate-memory-record",
        "version": 1,
        "name": reading.name,
        "unread": reading.unread,
        "warnings": reading.warnings,
        "records": [_record_json(record) for record in reading.records],
    }


def _record_json(record: MemoryRecord) -> dict[str, Any]:
    failed = record.source is Source.LOG or record.asked is not None
    return {
        **asdict(record),
        "source": record.source.value,
        "cause": record.cause.value if failed else None,
        "missing_bytes": record.missing_bytes,
        "split_bytes": record.split_bytes,
        "not_fetched_bytes": record.untouched_bytes,
    }


def share(row: Allocations, listed: Sequence[Allocations]) -> float:
    whole = sum(each.bytes for each in listed)
    return row.bytes / whole if whole else math.nan


def left_out(reading: ReadRecord) -> str:
    if not reading.unread:
        return ""
    failed = reading.records[0].source is Source.LOG
    what = plural(reading.unread, "more failure" if failed else "more event")
    return f"{what} not read: there are too many."
