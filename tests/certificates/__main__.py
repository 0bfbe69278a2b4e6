"""Have false certificates checked, of graphs of every kind.

``python -m tests.certificates 1000 -o certificates.json`` has 1,000 false ones checked for
each kind of graph, and writes down how many were caught, by kind and by the field that was changed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.certificates.false import Caught, attack_kind
from tests.certificates.graphs import KINDS
from tests.tried import Record, Tried

_HOLDS = "tests/certificates/test_false.py"


def main() -> int:
    """Try them, and return 1 if one was accepted."""
    parser = argparse.ArgumentParser(prog="python -m tests.certificates", description=__doc__)
    parser.add_argument("count", type=int, help="false certificates for each kind of graph")
    parser.add_argument("--graphs", type=int, default=4, help="graphs of each kind (default 4)")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    record, found = (
        Record.begin(" ".join(["python -m tests.certificates", *sys.argv[1:]])),
        dict[str, Caught](),
    )
    for kind in KINDS:
        found[kind] = attack_kind(kind, asked.count, asked.graphs)
        print(kind, found[kind], flush=True)
        if asked.output is not None:
            write(asked.output, record, found)
    return 1 if any(caught.broken for caught in found.values()) else 0


def write(path: Path, record: Record, found: dict[str, Caught]) -> None:
    """Write what was tried so far."""
    fields, true, broken = Counter[str](), Counter[str](), list[str]()
    for caught in found.values():
        fields += caught.false
        true += caught.true
        broken += caught.broken
    rows = [
        Tried(f"false certificates for {kind}", sum(caught.false.values()), len(caught.broken), _HOLDS)
        for kind, caught in found.items()
    ]
    rows.append(Tried("all false certificates", sum(fields.values()), len(broken), _HOLDS))
    rows += [Tried(f"of these, changed: {name}", count, 0, _HOLDS) for name, count in sorted(fields.items())]
    rows.append(Tried("changed certificates that are still true, accepted", true["accepted"], 0, _HOLDS))
    rows.append(Tried("changed proofs of something true, refused", true["refused"], 0, _HOLDS))
    notes = (
        "False: a schedule that was replayed fits the budget and costs less than is claimed, or the digest "
        "is another graph's. Each was read as a file and refused, and `verify.py` alone refused it too.",
        "Still true: the claim is no more than what was proved without the checker, by exact search (graphs "
        "of at most six ops) or by the solvers' bound, for a budget that is no smaller.",
    )
    record.write(path, rows, notes, broken=broken)


if __name__ == "__main__":
    sys.exit(main())
