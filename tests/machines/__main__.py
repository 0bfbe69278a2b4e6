"""Lose machines in the middle of sweeps, and write down what came of it.

``python -m tests.machines --rounds 3 -o machines.json``
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkmate.errors import CheckmateError
from checkmate.solvers.compile.compilation import load_kernels
from tests.machines.losses import Loss, answers_here, lose_machine, lose_scheduler
from tests.machines.network import Machines, can_be_apart
from tests.tried import Record, Tried

_Case = Callable[[Machines, Path, dict[str, Any]], Loss]
CASES: dict[str, _Case] = {
    "the first worker is killed": lambda m, at, right: lose_machine(m, m.one, at, right, m.one.lose),
    "the second worker is killed": lambda m, at, right: lose_machine(m, m.two, at, right, m.two.lose),
    "the scheduler is killed; all start again": lose_scheduler,
}
CABLES: dict[str, _Case] = {
    "a worker's cable is pulled out": lambda m, at, right: lose_machine(
        m, m.two, at, right, lambda: m.two.plug(into=False)
    )
}


def main() -> int:
    """Lose each machine in turn, and return 1 if something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    record = Record.begin(" ".join(["python -m tests.machines", *sys.argv[1:]]))
    load_kernels()
    ways = {"addresses of one machine": False} | ({"network namespaces": True} if can_be_apart() else {})
    rows, broken, tasks, again = list[Tried](), list[str](), 0, 0
    with tempfile.TemporaryDirectory() as name:
        right = answers_here(Path(name))
    for way, apart in ways.items():
        for what, lose in (CASES | (CABLES if apart else {})).items():
            losses = [_one(lose, right, apart=apart) for _ in range(asked.rounds)]
            bad = [problem for loss in losses for problem in loss.problems]
            broken += [f"{way}, {what}: {problem}" for problem in bad]
            rows.append(Tried(f"{way}: {what}", len(losses), sum(bool(loss.problems) for loss in losses)))
            tasks += sum(loss.tasks for loss in losses)
            again += sum(loss.again for loss in losses)
            print(rows[-1], bad, flush=True)
    note = (
        f"{tasks} solves in all, 8 to a sweep; {again} ran a second time. Each sweep's answers were compared "
    )
    notes = [f"{note}with those of one process, and with its journal."]
    if asked.output is not None:
        record.write(asked.output, rows, notes, broken=broken)
    return 1 if broken else 0


def _one(lose: _Case, right: dict[str, Any], *, apart: bool) -> Loss:
    with Machines(apart=apart) as machines, tempfile.TemporaryDirectory() as folder:
        try:
            machines.start_all()
            return lose(machines, Path(folder), right)
        except (CheckmateError, TimeoutError) as error:
            return Loss(0, 0, [str(error)])


if __name__ == "__main__":
    sys.exit(main())
