"""``checkmate assert``: for CI, whether the plain step still holds no more than it may."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from checkmate.cli import common_options, output
from checkmate.errors import ExitCode, UsageError
from checkmate.formats.files import require_writable
from checkmate.planning.memory_growth import Grown, Growth, growth
from checkmate.planning.step_memory import StepMemory, read_memory, step_memory, write_memory
from checkmate.terminal import Interrupt
from checkmate.text_table import aligned_lines
from checkmate.units import format_bytes, format_bytes_apart, plural

_LISTED = 12  # the most rows of a table; --json has all
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}


@dataclass(frozen=True)
class Limit:
    """What the peak is held against. ``allowed``: ``bytes``, with the tolerance."""

    name: str
    bytes: int
    allowed: int


def add_assert(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _assert,
        "for CI: exit with code 5 if the plain training step requests more memory than a maximum or a "
        "baseline; nothing is trained or measured, and no GPU is needed",
        example="checkmate assert unet -b 8 --max 12GiB --baseline memory.json",
        tensorflow=True,
    )
    common_options.add_model(parser, any_device=False)
    add = parser.add_argument
    add(
        "--max",
        type=common_options.size_in_bytes,
        metavar="SIZE",
        help="the most bytes that the step may request at its peak, e.g. 12GiB",
    )
    add(
        "--baseline",
        type=Path,
        metavar="M.json",
        help="what --write-baseline wrote: the peak may not be larger, and what grew is named",
    )
    add(
        "--tolerance",
        type=common_options.share,
        default=0.0,
        metavar="X",
        help="how much more than the baseline's the peak may be (default 0%%)",
    )
    add("--write-baseline", action="store_true", help="write the baseline anew, and do not compare with it")


def _assert(options: argparse.Namespace, interrupt: Interrupt) -> int:
    if options.max is None and options.baseline is None:
        raise UsageError(
            "assert needs a maximum, a baseline or both",
            hint="checkmate assert MODEL --max 12GiB, or --baseline memory.json",
        )
    baseline = _baseline(options)
    with _hidden_gpus():
        now = step_memory(common_options.model_request(options), quiet=options.quiet, cancelled=interrupt)
    if options.write_baseline:
        write_memory(options.baseline, now)
    grown = None if baseline is None else growth(baseline, now)
    limits = list(_limits(options, baseline))
    held = all(now.peak_bytes <= limit.allowed for limit in limits)
    lines = [*_verdict(now, limits), *(_held_most(now) if grown is None else _growth(grown))]
    lines += [f"wrote {options.baseline}"] if options.write_baseline else []
    facts = {
        "ok": held,
        "limits": [asdict(limit) for limit in limits],
        **asdict(now),
        "grown": [] if grown is None else [asdict(each) for each in grown.grown],
        "grown_with_batch": 0 if grown is None else grown.with_batch,
    }
    output.show(options.json, facts, "\n".join(lines))
    return ExitCode.DONE if held else ExitCode.NOT_AS_PROMISED


@contextmanager
def _hidden_gpus() -> Iterator[None]:
    """Trace the same step on every machine: JAX's, and what the user's code makes, depend on the device."""
    before = {name: os.environ.get(name) for name in _NO_GPU}
    os.environ.update(_NO_GPU)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ |= {} if value is None else {name: value}


def _limits(options: argparse.Namespace, baseline: StepMemory | None) -> Iterator[Limit]:
    if options.max is not None:
        yield Limit("maximum", options.max, options.max)
    if baseline is not None:
        peak = baseline.peak_bytes
        yield Limit("baseline", peak, int(peak * (1 + options.tolerance)))


def _baseline(options: argparse.Namespace) -> StepMemory | None:
    """Return what to compare with. What is overwritten has to be a baseline too, and no model's file."""
    path: Path | None = options.baseline
    if options.write_baseline:
        if path is None:
            raise UsageError("--write-baseline needs a file's name", hint="--baseline memory.json")
        require_writable(path)
        if path.exists():
            read_memory(path)
        return None
    if path is not None and not path.exists():
        raise UsageError(f"there is no baseline {path}", hint="--write-baseline writes it")
    return None if path is None else read_memory(path)


def _verdict(now: StepMemory, limits: Sequence[Limit]) -> list[str]:
    batch = f", batch {now.batch_size}" if now.batch_size else ""
    rows = []
    for limit in limits:
        size, most = (format_bytes_apart(now.peak_bytes, each)[1] for each in (limit.bytes, limit.allowed))
        over = now.peak_bytes - limit.allowed
        allowed = "" if limit.allowed == limit.bytes else f"up to {most}"
        rows.append((limit.name, size, allowed, f"OVER by {format_bytes(over)}" if over > 0 else "held"))
    peak = f"{format_bytes(now.peak_bytes)} ({now.peak_bytes} bytes)"
    return [
        f"{now.model}{batch}: the plain step requests {peak} at its peak",
        *(f"  {line}" for line in aligned_lines(rows, left=(0, 2, 3))),
    ]


def _held_most(now: StepMemory) -> list[str]:
    layers = [(name, layer.at_peak) for name, layer in now.layers.items() if layer.at_peak > 0]
    most = sorted(layers, key=lambda each: -each[1])[:_LISTED]
    rows = [(name, format_bytes(size)) for name, size in most]
    fixed = ", ".join(f"{name} {format_bytes(size)}" for name, size in now.fixed.items())
    return [
        f"  fixed: {fixed}",
        f"  layers that hold most of it, of {len(layers)}:",
        *(f"    {line}" for line in aligned_lines(rows)),
    ]


def _growth(found: Growth) -> list[str]:
    lines = []
    if found.before.batch_size != found.now.batch_size:
        sizes = f"{found.before.batch_size} → {found.now.batch_size}"
        lines.append(f"  batch {sizes}: {plural(found.with_batch, 'part')} grew with it, and no more than it")
    if not found.grown:
        return [*lines, "  nothing else grew" if lines else "  nothing grew"]
    head = ("", "over the step", "now", "at the peak", "now", "")
    rows = [head, *map(_cells, found.grown[:_LISTED])]
    lines += ["  what grew:", *(f"    {line}" for line in aligned_lines(rows, left=(0, 5)))]
    if len(found.grown) > _LISTED:
        lines.append(f"    and {len(found.grown) - _LISTED} more; --json lists all")
    return lines


def _cells(each: Grown) -> tuple[str, ...]:
    pairs = ((each.before.bytes, each.now.bytes), (each.before.at_peak, each.now.at_peak))
    return each.name, *(format_bytes(size) for pair in pairs for size in pair), ", ".join(each.why)
