from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path

from checkmate.cli import common_options, output
from checkmate.errors import UsageError
from checkmate.hlo.read import is_dump
from checkmate.planning.dumped_step import dumped_step
from checkmate.records.changes import change_in_all, changes
from checkmate.records.memory import MemoryRecord, ReadRecord
from checkmate.records.read import read_record
from checkmate.records.words import (
    facts,
    headline,
    left_out,
    next_commands,
    row_kind,
    row_name,
    rows,
    share,
    to_json,
    why,
    why_no_layers,
)
from checkmate.terminal import Interrupt, progress_line
from checkmate.text_table import aligned_lines
from checkmate.units import format_bytes, plural

_ROWS = 20


def add_explain(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _explain,
        "Read an out-of-memory error of TensorFlow, PyTorch or JAX in a log, a profile, a memory snapshot of "
        "PyTorch, or a dump of XLA's: what was asked for, what was in use by layer or by size, and what was "
        "free but in too small pieces; of two files, what differs. No framework is needed for it.",
        example="checkmate explain train.log --model unet   or: checkmate explain before.pickle after.pickle",
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a log with an out-of-memory error, a *.xplane.pb file, a log directory with a profile, a "
        "memory snapshot, or a dump of XLA's",
    )
    parser.add_argument(
        "other",
        nargs="?",
        type=Path,
        metavar="OTHER",
        help="a file to compare with: what it has more and less",
    )
    parser.add_argument(
        "--by", choices=("layer", "size"), default="layer", help="what to list (default: layers, if known)"
    )
    parser.add_argument(
        "--rows", type=common_options.positive, default=_ROWS, help=f"rows to list (default {_ROWS})"
    )
    parser.add_argument(
        "--record",
        type=common_options.positive,
        default=1,
        metavar="NUMBER",
        help="which failure of a log, allocator of a profile or moment of a snapshot (default: the first)",
    )
    parser.add_argument(
        "--model", metavar="MODEL", default="MODEL", help="the model, for the commands that come next"
    )
    parser.add_argument("-b", "--batch-size", type=common_options.positive, help="its batch size")


def _explain(options: argparse.Namespace, interrupt: Interrupt) -> int:
    if options.other is not None:
        return _compare(options, interrupt)
    with progress_line(quiet=options.quiet) as report:
        reading = read_record(options.file, report, interrupt)
        dumped = dumped_step(options.file, report, interrupt)
    record = _chosen(reading, options.file, options.record)
    following = next_commands(record, options.model, options.batch_size)
    if is_dump(options.file, of_module=True):
        following = [f"checkmate explore {shlex.quote(str(options.file))}", *(dumped.lines if dumped else ())]
    told = {**to_json(reading), "record": options.record, "next": following}
    if dumped is not None:
        told["could"] = dumped.to_json()
    lines = _lines(options, reading, record, following, dumped.sentence if dumped else "")
    output.show(options.json, told, "\n".join(lines))
    return 0


def _chosen(reading: ReadRecord, path: Path, number: int) -> MemoryRecord:
    if number > len(reading.records):
        raise UsageError(
            f"{path} has {plural(len(reading.records), 'record')}, and no number {number}",
            hint="leave --record out for the first",
        )
    return reading.records[number - 1]


def _compare(options: argparse.Namespace, interrupt: Interrupt) -> int:
    with progress_line(quiet=options.quiet) as report:
        readings = [read_record(path, report, interrupt) for path in (options.file, options.other)]
    files = zip(readings, (options.file, options.other), strict=True)
    before, after = both = [_chosen(reading, path, options.record) for reading, path in files]
    found = changes(before, after, by_size=options.by == "size")
    lines = [f"{each.name}: {headline(record)}" for each, record in zip(readings, both, strict=True)]
    table = [("", "first", "second", "difference")]
    for change in (change_in_all(before, after), *found[: options.rows]):
        name = row_name(change.name)
        table.append((name, format_bytes(change.before), format_bytes(change.after), change.words))
    if found[options.rows :]:
        table.append((f"and {len(found) - options.rows:,} more", "", "", ""))
    told = {"first": to_json(readings[0]), "second": to_json(readings[1]), "record": options.record}
    told["changes"] = [asdict(change) for change in found]
    output.show(options.json, told, "\n".join([*lines, *(f"  {line}" for line in aligned_lines(table))]))
    return 0


def _lines(
    options: argparse.Namespace,
    reading: ReadRecord,
    record: MemoryRecord,
    following: list[str],
    could: str,
) -> list[str]:
    several = len(reading.records)
    which = f" (record {options.record} of {several})" if several > 1 else ""
    return [
        f"{reading.name}: {headline(record)}{which}",
        *(f"  {line}" for line in aligned_lines(facts(record), left=(0, 1))),
        *(f"  {sentence}" for sentence in (why(record), left_out(reading)) if sentence),
        *_table(record, by_size=options.by == "size", most=options.rows),
        *(f"  {sentence}" for sentence in (why_no_layers(record),) if sentence and options.by == "layer"),
        *([f"  {could}"] if could else []),
        "next:",
        *(f"  {command}" for command in following),
    ]


def _table(record: MemoryRecord, *, by_size: bool, most: int) -> list[str]:
    listed = rows(record, by_size=by_size)
    if not listed:
        return []
    title = f"in use, by {row_kind(record, by_size=by_size)}"
    table = [
        (
            row_name(row.name),
            format_bytes(row.bytes),
            f"{100 * share(row, listed):.1f} %",
            plural(row.count, "chunk") if row.count else "",
        )
        for row in listed[:most]
    ]
    rest = listed[most:]
    if rest:
        table.append((f"and {len(rest):,} more", format_bytes(sum(row.bytes for row in rest)), "", ""))
    return [f"  {title}:", *(f"    {line}" for line in aligned_lines(table))]
