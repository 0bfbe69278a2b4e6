"""Run one measurement in a process of its own.

``python -m checkmate.tf.child TASK.json ANSWER.json PROGRESS.jsonl``: the task names what to do (a key of the
table in ``main``) and its arguments. The answer is ``{"ok": …}`` or ``{"error": …}``. Each line of
PROGRESS.jsonl is one ``Progress``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from checkmate.errors import CheckmateError
from checkmate.ipc.child import end_with_parent
from checkmate.machine.garbage import hide_all
from checkmate.progress import Progress, Report
from checkmate.tf.quick_import import import_quickly


def main(arguments: list[str]) -> int:
    """Do the task and write the answer; exit 0 whenever an answer was written."""
    end_with_parent()
    import_quickly()
    task_file, answer_file, progress_file = map(Path, arguments)
    task = json.loads(task_file.read_text(encoding="utf-8"))
    from checkmate.tf.costs import fresh
    from checkmate.tf.measure import compiled_memory, step
    from checkmate.tf.peers import measure as peer_measure
    from checkmate.tf.training import elsewhere

    hide_all()  # what was imported stays
    work: dict[str, Callable[[Any], Any]] = {
        "costs": partial(fresh.measure_costs, report=_reporter(progress_file)),
        "compile": compiled_memory.compile_task,
        "measure": step.measure,
        "compare": step.compare,
        "compare_all": step.compare_all,
        "time_in_turns": step.time_in_turns,
        "measure_saved": elsewhere.measure_saved,
        "measure_peer": peer_measure.measure_peer,
        "time_peers": peer_measure.time_peers,
        "compare_peers": peer_measure.compare_peers,
    }
    try:
        answer = {"ok": work[task["do"]](task)}
    except CheckmateError as error:
        facts = {
            "type": type(error).__name__,
            "message": str(error),
            "hint": error.hint,
            "details": error.details,
        }
        answer = {"error": facts}
    answer_file.write_text(json.dumps(answer, default=str), encoding="utf-8")
    return 0


def _reporter(file: Path) -> Report:
    """Return a report that appends each ``Progress`` to ``file`` as a line."""

    def report(progress: Progress) -> None:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(progress)) + "\n")

    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
