from __future__ import annotations

import argparse
from pathlib import Path

from checkmate.cli import common_options, output
from checkmate.errors import UsageError
from checkmate.records.memory import MemoryRecord, ReadRecord
from checkmate.records.read import read_record
from checkmate.records.words import (
    facts,
    headline,
    left_out,
    next_commands,
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
        "Read an out-of-memory error in a log, or a profile: what was asked for, what was in use by layer or "
        "by size, and what was free but in too small pieces. TensorFlow is not needed for it.",
        example="checkmate explain train.log --model unet   or: checkmate explain logs/",
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a log with an out-of-memory error, a *.xplane.pb file, or a log directory with a profile",
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
        help="which failure of the log, or which allocator of the profile (default: the first)",
    )
    parser.add_argument(
        "--model", metavar="MODEL", default="MODEL", help="the model, for the commands that come next"
    )
    parser.add_argument("-b", "--batch-size", type=common_options.positive, help="its batch size")


def _explain(options: argparse.Namespace, interrupt: Interrupt) -> int:
    with progress_line(quiet=options.quiet) as report:
        reading = read_record(options.file, report, interrupt)
    if options.record > len(reading.records):
        raise UsageError(
            f"{options.file} has {plural(len(reading.records), 'record')}, and no number {options.record}",
            hint="leave --record out for the first",
        )
    record = reading.records[options.record - 1]
    following = next_commands(record, options.model, options.batch_size)
    told = {**to_json(reading), "record": options.record, "next": following}
    output.show(options.json, told, "\n".join(_lines(options, reading, record, following)))
    return 0


def _lines(
    options: argparse.Namespace, reading: ReadRecord, record: MemoryRecord, following: list[str]
) -> list[str]:
    several = len(reading.records)
    which = f" (record {options.record} of {several})" if several > 1 else ""
    return [
        f"{reading.name}: {headline(record)}{which}",
        *(f"  {line}" for line in aligned_lines(facts(record), left=(0, 1))),
        *(f"  {sentence}" for sentence in (why(record), left_out(reading)) if sentence),
        *_table(record, by_size=options.by == "size", most=options.rows),
        *(f"  {sentence}" for sentence in (why_no_layers(record),) if sentence and options.by == "layer"),
        "next:",
        *(f"  {command}" for command in following),
    ]


def _table(record: MemoryRecord, *, by_size: bool, most: int) -> list[str]:
    listed = rows(record, by_size=by_size)
    if not listed:
        return []
    title = "in use, by size" if listed is record.by_size else "in use, by layer"
    table = [
        (
            row_name(row),
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
