"""Hold the invariants for as many random graphs as there is time for.

``python -m tests.invariants FIRST COUNT`` takes seeds from FIRST on, and a graph of ``--ops`` ops after every
``--each``. With ``-o invariants.json`` what was tried is written after every 20 graphs;
with ``--onto`` that file, it is added to what is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.invariants.hold import TOOL, Held, hold_many
from tests.tried import Record, Tried

_PART = 20
_GRAPHS, _ANSWERS = "random graphs of ", "answers of "


def main() -> int:
    asked = _parser().parse_args()
    record, begun = Record.begin(" ".join(["python -m tests.invariants", *sys.argv[1:]])), time.monotonic()
    held = Held() if asked.onto is None else held_before(asked.onto)
    before = sum(held.graphs.values())
    for part in _parts(asked):
        for line in part.broken:
            print("BROKEN", line, flush=True)
        held.add(part)
        print(dict(held.graphs), sum(held.tried.values()), "answers", len(held.broken), "broken", flush=True)
        took = time.monotonic() - begun
        if asked.output is not None:
            graphs = sum(held.graphs.values()) - before
            _write(asked.output, record, held, f"{graphs:,} graphs in {took / 60:.0f} minutes")
        if took > asked.seconds:
            break
    return 1 if held.broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.invariants", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--ops", type=int, default=5000)
    parser.add_argument(
        "--each", type=int, default=40, help="a graph of --ops ops after so many (default 40); 0: none"
    )
    parser.add_argument("--large", action="store_true", help="only graphs of --ops ops")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after so long")
    parser.add_argument("--onto", type=Path, help="a record of other graphs, to which these are added")
    parser.add_argument("-o", "--output", type=Path)
    return parser


def _parts(asked: argparse.Namespace) -> Iterator[Held]:
    end = asked.first + asked.count
    if asked.large:
        yield from (hold_many(seed, 1, asked.ops) for seed in range(asked.first, end))
        return
    for seed in range(asked.first, end, _PART):
        yield hold_many(seed, min(_PART, end - seed))
        if asked.each and seed // _PART % (asked.each // _PART) == 0:
            yield hold_many(seed // asked.each, 1, asked.ops)


def held_before(path: Path) -> Held:
    written = json.loads(path.read_text(encoding="utf-8"))
    held = Held(broken=list(written["broken"]))
    for row in written["rows"]:
        for start, counter in ((_GRAPHS, held.graphs), (_ANSWERS, held.tried)):
            if row["what"].startswith(start):
                counter[row["what"].removeprefix(start)] += row["tried"]
    return held


def _write(path: Path, record: Record, held: Held, took: str) -> None:
    rows = [Tried(f"{_GRAPHS}{size}", count, 0) for size, count in sorted(held.graphs.items())]
    rows += [Tried(f"{_ANSWERS}{name}", count, 0) for name, count in sorted(held.tried.items())]
    replay = "and the plain replay program" if TOOL is not None else "but not by the plain replay program"
    notes = (f"{took}, one process. Replayed by `check` and `simulate`, {replay}.",)
    record.write(
        path,
        [*rows, Tried("all answers", sum(held.tried.values()), len(held.broken))],
        notes,
        broken=held.broken,
    )


if __name__ == "__main__":
    sys.exit(main())
