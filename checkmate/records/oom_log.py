"""Out-of-memory messages in the lines of a log.

TensorFlow has two: the dump of its allocator (``bfc_allocator.cc``), and the ``ResourceExhaustedError`` of
the op. PyTorch has one (``torch_log``). XLA lists the buffers at the peak of the step that did not fit. CUDA
may say no more than that memory is out. What is around them is ignored. Memory stays bounded however long
the log is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from checkmate.hlo.layers import NO_LAYER, layer_of
from checkmate.records.memory import FailedRequest, MemoryRecord, ReadRecord, Source, by_bytes
from checkmate.records.torch_log import torch_failure

MOST_RECORDS = 32
_MOST_NAMES = 20_000  # layers or sizes of one dump; further ones share a row
_OTHERS = "others"

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_FAILED = re.compile(
    r"Allocator \(([^)\s]{1,80})\) ran out of memory trying to allocate ([\d.]{1,24})([KMGT]?)i?B"
    r"(?:\s*\(rounded to (\d{1,19})\))?(?:\s*requested by op (\S+))?"
)
_HARMLESS = "not a failure"
_DUMP = re.compile(r"BFCAllocator dump for (\S{1,80})")
_BIN = re.compile(
    r"Bin \(\d+\):\s+Total Chunks: \d+, Chunks in use: \d+"
    r".*?([\d.]{1,24})([KMGT]?)i?B client-requested in use"
)
_CHUNK = re.compile(r"\b(InUse|Chunk|Free)\s+at\s+(?:0x)?[0-9a-fA-F]{1,16}\b.*?of size (\d{1,19})\b")
_BY_OP = re.compile(r"\bby op (\S{1,1000})")
_SUM = re.compile(r"(\d{1,12}) Chunks of size (\d{1,19}) totalling")
_SIZE = r"([\d.]{1,24})([KMGT]?)(?:i?B)?"  # TensorFlow 2.21 writes 40.00MiB where others write bytes
_POOL = re.compile(
    r"(?:total_region_allocated_bytes_|Total (?:bytes|size) in pool): " + _SIZE + " memory_limit_: " + _SIZE
)
_STAT = re.compile(r"^\s*(Limit|InUse|MaxInUse|LargestFreeBlock):\s+" + _SIZE + r"\s*$")
_TENSOR = re.compile(
    r"OOM when allocating tensor with shape\s*\[([\d,\s]{0,400})\] and type (\w{1,40})"
    r"(?:.*? by allocator (\S{1,80}))?"
)
_COMPILED = re.compile(
    r"Out of memory (?:while trying to allocate|allocating) ([\d.]{1,24})\s?([KMGT]?)(?:bytes|i?B)"
)
_REFUSED = re.compile(r"CUDA_ERROR_OUT_OF_MEMORY|CUDA out of memory|cudaErrorMemoryAllocation")
_REFUSED_BYTES = re.compile(r"failed to allocate \S{1,24} \((\d{1,19}) bytes\)")
_PEAK_BUFFERS = re.compile(r"^\s*Peak buffers:")
_PEAK_LINE = re.compile(
    r"^\s*(Buffer \d+:|Size: ([\d.]{1,24})([KMGT]?)i?B|Operator: .*?op_name=\"([^\"]{1,1000})"
    r"|XLA Label: (\S{1,200})|Entry Parameter Subshape:|={5,}|total allocation: +([\d.]{1,24})([KMGT]?)i?B)"
)
_NODE = re.compile(r"\[\[\{?\{?(?:node )?([^\s{}\[\]]{1,1000})\}?\}?\]\]")
_BYTES_OF = {
    "double": 8, "float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16,
    "float": 4, "float32": 4, "int32": 4, "uint32": 4, "half": 2, "float16": 2, "bfloat16": 2, "int16": 2,
    "uint16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
# A line without one of these is of no interest; looking for them first keeps long logs fast.
_MARKS = re.compile(
    r"ran out of memory|[Oo]ut of memory|OOM when|BFCAllocator dump|Chunk|InUse|Free\s+at|memory_limit_"
    r"|Limit:|LargestFree|\[\[|tried to allocate|OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    r"|Peak buffers|Buffer \d|Size: |Operator: |XLA Label|Entry Parameter|=====|total allocation"
)


@dataclass
class _PeakBuffer:
    bytes: int = 0
    layer: str = ""


@dataclass
class _Failure:
    record: MemoryRecord
    about_requested: float = 0.0
    bins: int = 0
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    sums: dict[str, tuple[int, int]] = field(default_factory=dict)
    layers: dict[str, tuple[int, int]] = field(default_factory=dict)
    free: int = 0
    largest_free: int = 0
    chunks: int = 0
    dumped: bool = False
    ended: bool = False
    stats: dict[str, int] = field(default_factory=dict)
    peak: _PeakBuffer | None = None
    total: int | None = None  # bytes of the whole step that XLA could not place

    def add_peak_line(self, found: re.Match[str]) -> None:
        if found[6]:
            self.total = _bytes(found[6], found[7])
        elif self.peak is None:
            return
        elif found[2]:
            self.peak.bytes = _bytes(found[2], found[3]) or 0
        elif found[4] or found[5]:
            self.peak.layer = layer_of(found[4]) if found[4] else self.peak.layer or found[5]
        elif found[1].startswith("Entry"):
            self.peak.layer = "arguments"
        elif self.peak.bytes:
            _add(self.layers, self.peak.layer or NO_LAYER, self.peak.bytes)
            _add(self.sizes, str(self.peak.bytes), self.peak.bytes)
            self.peak = _PeakBuffer()

    def add_chunk(self, line: str, found: re.Match[str]) -> None:
        size = int(found[2])
        self.chunks += 1
        if found[1] == "Free":
            self.free += size
            self.largest_free = max(self.largest_free, size)
            return
        _add(self.sizes, str(size), size)
        op = _BY_OP.search(line)
        if op is not None:
            _add(self.layers, layer_of(op[1]), size)

    def finished(self) -> MemoryRecord:
        record = self.record
        sizes = self.sizes or self.sums
        # Chunks are told to the byte, the allocator's own figure may be rounded.
        told = self.stats.get("InUse", record.in_use_bytes)
        in_use = sum(size for size, _ in sizes.values()) if sizes else told
        if self.peak is not None and in_use is not None and self.total is not None and self.total > in_use:
            for found in (self.layers, sizes):
                _add(found, _OTHERS, self.total - in_use, 0)
            in_use = self.total
        requested = int(self.about_requested) if self.bins and in_use is not None else None
        limit = record.limit_bytes if record.limit_bytes is not None else self.stats.get("Limit")
        pool = record.pool_bytes
        if in_use is not None and self.chunks:
            pool = in_use + self.free  # to the byte, and in older releases it is not printed
        return replace(
            record,
            limit_bytes=limit or None,
            pool_bytes=pool,
            in_use_bytes=in_use,
            requested_bytes=None if requested is None or in_use is None else min(requested, in_use),
            most_bytes=self.stats.get("MaxInUse"),
            free_bytes=self.free if self.chunks else record.free_bytes,
            largest_free_bytes=self.largest_free if self.chunks else None,
            by_layer=by_bytes(self.layers),
            by_size=by_bytes(sizes),
        )


class _Log:
    def __init__(self) -> None:
        self.failures: list[_Failure] = []
        self.unread = self.warnings = 0
        self.refused: MemoryRecord | None = None  # by CUDA, which may be tried again

    def read(self, line: str) -> None:
        if not _MARKS.search(line):
            return
        if (found := _FAILED.search(line)) is not None:
            if _HARMLESS in line:
                self.warnings += 1
            else:
                self._on_failed(found)
        elif (failed := torch_failure(line)) is not None:
            if not self.failures or self.failures[-1].record != failed:  # a traceback may say it twice
                self._begin(failed)
        elif (found := _DUMP.search(line)) is not None:
            self._on_dump(found[1])
        elif (found := _TENSOR.search(line)) is not None:
            self._on_tensor(found, line)
        elif (found := _COMPILED.search(line)) is not None:
            self._on_compiled(_bytes(found[1], found[2]) or 0)
        elif _REFUSED.search(line) is not None:
            size = _REFUSED_BYTES.search(line)
            asked = FailedRequest(int(size[1])) if size else None
            self.refused = self.refused or MemoryRecord(Source.LOG, "the card's memory", asked)
        elif _PEAK_BUFFERS.match(line) is not None:
            self._on_peak_buffers()
        elif self.failures and not self.unread:
            self._on_state(self.failures[-1], line)

    def _on_failed(self, found: re.Match[str]) -> None:
        asked = FailedRequest(
            _bytes(found[2], found[3]),
            None if found[4] is None else int(found[4]),
            about=bool(found[3]),
            op=found[5] or "",
        )
        self._begin(MemoryRecord(Source.LOG, found[1], asked))

    def _on_dump(self, allocator: str) -> None:
        """Begin a dump; the message of the failure may have been cut away."""
        last = self.failures[-1] if self.failures else None
        if last is None or last.dumped or last.record.allocator not in ("", allocator):
            self._begin(MemoryRecord(Source.LOG, allocator))
        if not self.unread:
            self.failures[-1].dumped = True

    def _on_tensor(self, found: re.Match[str], line: str) -> None:
        shape = tuple(int(part) for part in found[1].replace(" ", "").split(",") if part)
        one, count = _BYTES_OF.get(found[2]), 1
        for part in shape:
            count *= part
        node = _NODE.search(line)
        size = None if one is None or count >= 2**62 else one * count
        asked = FailedRequest(size, None, False, "" if node is None else node[1], shape, found[2])
        last = self.failures[-1] if self.failures else None
        if last is not None and _fits(last, asked, found[3] or ""):
            self._complete(last, asked)
        else:
            self._begin(MemoryRecord(Source.LOG, found[3] or "", asked))
        if not self.unread:
            self.failures[-1].ended = True

    def _on_compiled(self, size: int) -> None:
        last = self.failures[-1] if self.failures else None
        known = last.record.needed_bytes if last is not None else None
        if known is None or not size <= known * 1.01 + 256 or not known <= size * 1.01 + 256:
            self._begin(MemoryRecord(Source.LOG, "", FailedRequest(size)))

    def _complete(self, failure: _Failure, asked: FailedRequest) -> None:
        before = failure.record.asked
        if before is None:
            failure.record = replace(failure.record, asked=asked)
            return
        whole = replace(
            before,
            bytes=before.bytes if asked.bytes is None else asked.bytes,
            about=before.about and asked.bytes is None,
            op=before.op or asked.op,
            shape=before.shape or asked.shape,
            dtype=before.dtype or asked.dtype,
        )
        failure.record = replace(failure.record, asked=whole)

    def _on_peak_buffers(self) -> None:
        if not self.failures:
            self._begin(MemoryRecord(Source.LOG))
        if not self.unread:
            self.failures[-1].peak = _PeakBuffer()

    def _on_state(self, failure: _Failure, line: str) -> None:
        if (found := _CHUNK.search(line)) is not None:
            failure.add_chunk(line, found)
        elif (found := _BIN.search(line)) is not None:
            failure.bins += 1
            failure.about_requested += float(found[1]) * _UNITS[found[2]] if _is_number(found[1]) else 0.0
        elif (found := _PEAK_LINE.match(line)) is not None:
            failure.add_peak_line(found)
        elif (found := _SUM.search(line)) is not None:
            count, size = int(found[1]), int(found[2])
            _add(failure.sums, str(size), size * count, count)
        elif (found := _POOL.search(line)) is not None:
            pool, limit = _bytes(found[1], found[2]), _bytes(found[3], found[4])
            failure.record = replace(failure.record, pool_bytes=pool, limit_bytes=limit)
        elif (found := _STAT.search(line)) is not None:
            failure.stats.setdefault(found[1], _bytes(found[2], found[3]) or 0)
        elif (found := _NODE.search(line)) is not None and failure.record.asked is not None:
            asked = failure.record.asked
            if failure.ended and not asked.op:
                failure.record = replace(failure.record, asked=replace(asked, op=found[1]))

    def _begin(self, record: MemoryRecord) -> None:
        if len(self.failures) == MOST_RECORDS:
            self.unread += 1
        else:
            self.failures.append(_Failure(record))


def read_lines(name: str, lines: Iterable[str]) -> ReadRecord:
    log = _Log()
    for line in lines:
        log.read(line)
    if not log.failures and log.refused is not None:
        log.failures.append(_Failure(log.refused))
    found = tuple(failure.finished() for failure in log.failures)
    return ReadRecord(name, found, log.unread, log.warnings)


def _fits(failure: _Failure, asked: FailedRequest, allocator: str) -> bool:
    """Return whether the op's error, which comes after the dump and often twice, is about this failure."""
    before = failure.record.asked
    if allocator and failure.record.allocator not in ("", allocator):
        return False
    if before is None:
        return failure.dumped
    if before.shape is not None:
        return before.shape == asked.shape and before.dtype == asked.dtype
    needed = failure.record.needed_bytes
    if needed is None or asked.bytes is None:
        return True
    return asked.bytes <= needed <= asked.bytes * 1.01 + 256


def _add(found: dict[str, tuple[int, int]], name: str, size: int, count: int = 1) -> None:
    if name not in found and len(found) >= _MOST_NAMES:
        name = _OTHERS
    before = found.get(name, (0, 0))
    found[name] = before[0] + size, before[1] + count


def _bytes(number: str, unit: str) -> int | None:
    return int(float(number) * _UNITS[unit]) if _is_number(number) else None


def _is_number(text: str) -> bool:
    return text.count(".") <= 1 and text != "."
