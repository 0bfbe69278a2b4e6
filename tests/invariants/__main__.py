"""Hold the invariants for as many random graphs as there is time for.

``python -m tests.invariants FIRST COUNT`` takes seeds from FIRST on, and a graph of ``--ops`` ops after every
``--each``. With ``-o docs/results/trust/invariants.json`` what was tried is written after every 20 graphs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.invariants.hold import TOOL, Held, hold_many
from tests.tried import Record, Tried

_PART = 20


def main() -> int:
    """Hold the invariants, and return 1 if something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.invariants", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--ops", type=int, default=5000)
    parser.add_argument(
        "--each", type=int, default=40, help="a graph of --ops ops after so many (default 40)"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after so long")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    record, begun, held = (
        Record.begin(" ".join(["python -m tests.invariants", *sys.argv[1:]])),
        time.monotonic(),
        Held(),
    )
    for seed in range(asked.first, asked.first + asked.count, _PART):
        if time.monotonic() - begun > asked.seconds:
            break
        parts = [hold_many(seed, min(_PART, asked.first + asked.count - seed))]
        if seed // _PART % (asked.each // _PART) == 0:
            parts.append(hold_many(seed // asked.each, 1, asked.ops))
        for part in parts:
            for line in part.broken:
                print("BROKEN", line, flush=True)
            held.add(part)
        print(dict(held.graphs), sum(held.tried.values()), "answers", len(held.broken), "broken", flush=True)
        if asked.output is not None:
            _write(asked.output, record, held, f"{(time.monotonic() - begun) / 60:.0f} minutes")
    return 1 if held.broken else 0


def _write(path: Path, record: Record, held: Held, took: str) -> None:
    rows = [Tried(f"random graphs of {size}", count, 0) for size, count in sorted(held.graphs.items())]
    rows += [Tried(f"answers of {name}", count, 0) for name, count in sorted(held.tried.items())]
    replay = "and the plain replay program" if TOOL is not None else "but not by the plain replay program"
    notes = (f"In {took}, one process. Replayed by `check` and `simulate`, {replay}.",)
    record.write(
        path,
        [*rows, Tried("all answers", sum(held.tried.values()), len(held.broken))],
        notes,
        broken=held.broken,
    )


if __name__ == "__main__":
    sys.exit(main())
