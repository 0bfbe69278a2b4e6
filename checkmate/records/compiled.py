"""What a compiled step holds at its peak, from a dump of XLA's."""

from __future__ import annotations

import re
from pathlib import Path

from checkmate.errors import GraphError
from checkmate.hlo.graph import peak_of_dump
from checkmate.hlo.layers import NO_LAYER, layer_of
from checkmate.hlo.module import HloError
from checkmate.hlo.peak import Held, Peak
from checkmate.hlo.read import Dump, damaged
from checkmate.records.memory import Allocations, MemoryRecord, Source, by_bytes

ARGUMENTS, BETWEEN = "arguments", "between buffers"
_NUMBERED = re.compile(r"(\.(clone|\d+))+$")


def record_of(path: Path, dump: Dump) -> MemoryRecord:
    """Raise FormatError where the module contradicts itself."""
    try:
        peak = peak_of_dump(dump)
    except (HloError, GraphError) as error:
        raise damaged(path, error) from error
    name = dump.module.name if dump.module is not None else "the step"
    layers: dict[str, tuple[int, int]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for each in peak.held:
        for found, key in ((layers, _layer(each, told=dump.module is not None)), (sizes, str(each.bytes))):
            size, count = found.get(key, (0, 0))
            found[key] = size + each.bytes, count + 1
    rest = peak.bytes - sum(each.bytes for each in peak.held)
    if rest > 0:
        layers[BETWEEN] = sizes[BETWEEN] = rest, 0
    return MemoryRecord(
        Source.COMPILED,
        name,
        in_use_bytes=peak.bytes,
        by_layer=by_bytes(layers),
        by_size=by_bytes(sizes),
        parts=_parts(peak),
        estimated=dump.module is not None and not dump.module.scheduled,
    )


def _layer(held: Held, *, told: bool) -> str:
    if held.what == "argument":
        return ARGUMENTS
    layer = layer_of(held.op_name)
    return layer if told and layer != NO_LAYER else _NUMBERED.sub("", held.name)


def _parts(peak: Peak) -> tuple[Allocations, ...]:
    arguments = sum(each.what == "argument" for each in peak.held)
    results = sum(each.what == "result" for each in peak.held)
    rest = len(peak.held) - arguments - results
    return (
        Allocations("arguments", peak.arguments, arguments),
        Allocations("results", peak.results - peak.aliased, results),
        Allocations("temporary", peak.temporary, rest),
    )
