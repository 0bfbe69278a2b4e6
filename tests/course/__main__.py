"""Use the program for a long time: training, and a window beside it.

``python -m tests.course --minutes 120``. A process trains with batches that
change (``tests.course.training``), while this one drives a window as ``tests.benchmarks.long_use`` does. What
both hold, the steps over the budget and the window's complaints are judged.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.long_use import Use, measure
from tests.course.judge import Course, judge

_ENOUGH = 100_000  # graphs: the time ends the course, not the count
_PER_GRAPH_MOVES, _PER_GRAPH_SOLVES = 50, 2
_PATIENCE_S = 300  # for a plan that the training is still making


def read_notes(path: Path) -> list[dict[str, Any]]:
    """Return the rounds that the training noted."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def run(seconds: float, folder: Path) -> Course:
    """Train and use a window for so long; return what was noted."""
    plain = subprocess.run(
        [sys.executable, "-m", "tests.course.training", "plain"], capture_output=True, text=True, check=True
    )
    notes, said = folder / "notes.jsonl", folder / "training.log"
    with said.open("wb") as log:
        training = subprocess.Popen(
            [sys.executable, "-m", "tests.course.training", str(seconds), str(notes)], stdout=log, stderr=log
        )
        try:
            use = Use(_ENOUGH * _PER_GRAPH_MOVES, _ENOUGH * _PER_GRAPH_SOLVES, _ENOUGH, seconds=seconds)
            window = measure(use, lambda line: print(line, file=sys.stderr, flush=True))
            code = training.wait(_PATIENCE_S)
        finally:
            training.kill()
            training.wait()
    told = said.read_text(encoding="utf-8", errors="replace")
    return Course(read_notes(notes), window, code, told, float(plain.stdout))


def main() -> int:
    """Run the course, and return 1 if something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.course", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkmate-course-") as name:
        course = run(60 * asked.minutes, Path(name))
    broke = judge(course)
    print(course.training[-1], *broke, sep="\n", flush=True)
    return 1 if broke else 0


if __name__ == "__main__":
    sys.exit(main())
