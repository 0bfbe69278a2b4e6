"""Put what was tried of messages into one record.

``python -m tests.faults.gathered PIECE... -o messages.json``: the pieces are files that
``python -m tests.faults.messages NAME -o PIECE`` wrote.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.faults.messages import Piece
from tests.faults.relay import FAULTS
from tests.tried import Record, Tried

TITLES = {
    "prover": "the prover and its process",
    "auto": "a whole solve by auto, with the prover's process",
    "solver": "the window and its solver: three budgets",
    "least memory": "the window and its solver: the least memory at three costs",
    "checker": "the window and its checker",
    "placer": "the window and the process that places buffers",
    "batches": "the window and its search for the largest batch",
    "certifier": "the window and the process that certifies",
    "animation": "the window and the process that makes pictures",
    "sizes": "the window and a model traced at other sizes",
    "profile": "the window and a profile, estimated and measured",
    "export": "the window and an export",
}


def whole(pieces: Iterable[Piece]) -> list[Piece]:
    """Return one piece for a conversation, which may have been tried in parts."""
    found: dict[str, Piece] = {}
    for piece in pieces:
        begun = found.setdefault(piece.protocol, replace(piece, tried={}, broken=[], again=[], seconds=0.0))
        for fault, count in piece.tried.items():
            begun.tried[fault] = begun.tried.get(fault, 0) + count
        begun.broken += piece.broken
        begun.again += piece.again
        begun.seconds += piece.seconds
    return sorted(found.values(), key=lambda piece: list(TITLES).index(piece.protocol))


def row(piece: Piece) -> Tried:
    """Return how much of a conversation was harmed, as a row."""
    messages = sum(map(len, piece.messages.values()))
    every, harmed = messages * len(FAULTS), piece.done
    part = (
        f"all {messages} messages" if harmed >= every else f"{harmed} of {every} faults, {messages} messages"
    )
    return Tried(f"{TITLES[piece.protocol]} ({part})", harmed, len(piece.broken) + len(piece.again))


def notes(pieces: Iterable[Piece]) -> list[str]:
    """Return what broke once and not again, and how long it all took."""
    found, lines = list(pieces), list[str]()
    if again := sum(len(piece.again) for piece in found):
        lines.append(f"{again} of those that broke did not when they were tried again.")
    hours = sum(piece.seconds for piece in found) / 3600
    return [
        *lines,
        f"Each message was harmed in {len(FAULTS)} ways, one at a time: {hours:.1f} hours in all.",
    ]


def main() -> int:
    """Write the record."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.gathered", description=__doc__)
    parser.add_argument("pieces", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--note", action="append", default=[], help="a sentence below the table")
    asked = parser.parse_args()
    record = Record.begin("python -m tests.faults.messages NAME, for each")
    pieces = whole(Piece(**json.loads(path.read_text(encoding="utf-8"))) for path in asked.pieces)
    rows = [row(piece) for piece in pieces]
    total = Tried("all", sum(one.tried for one in rows), sum(one.broke for one in rows))
    broken = [f"{piece.protocol}: {line}" for piece in pieces for line in (*piece.broken, *piece.again)]
    record.write(asked.output, [*rows, total], [*notes(pieces), *asked.note], broken=broken)
    return 0


if __name__ == "__main__":
    sys.exit(main())
