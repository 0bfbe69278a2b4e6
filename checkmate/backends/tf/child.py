"""Run one measurement in a process of its own.

Started with the paths of TASK.json, ANSWER.json and PROGRESS.jsonl: the task names what to do (a key of
the table in ``main``) and its arguments. The answer is ``{"ok": …}`` or ``{"error": …}``. Each line of
PROGRESS.jsonl is one ``Progress``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from checkmate.backends.tf.quick_import import import_quickly
from checkmate.errors import CheckmateError
from checkmate.ipc.child import end_with_parent
from checkmate.machine.garbage import hide_all
from checkmate.progress import Progress, Report

Work = dict[str, Callable[[Any, Report], Any]]


def main(arguments: list[str]) -> int:
    """Do the task and write the answer; exit 0 whenever an answer was written."""
    end_with_parent()
    return do(imported(), arguments)


def imported() -> Work:
    """Import TensorFlow and what measures with it; return what can be done.

    TensorFlow's runtime does not begin.
    """
    import_quickly()
    from checkmate.backends.tf.costs import fresh
    from checkmate.backends.tf.measure import compiled_memory, step
    from checkmate.backends.tf.training import elsewhere

    hide_all()  # what was imported stays
    silently: dict[str, Callable[[Any], Any]] = {
        "compile": compiled_memory.compile_task,
        "measure": step.measure,
        "compare": step.compare,
        "measure_saved": elsewhere.measure_saved,
    }
    work: Work = {name: partial(_without_report, each) for name, each in silently.items()}
    return {**work, "costs": fresh.measure_costs, "measure_and_compare": step.measure_and_compare}


def _without_report(work: Callable[[Any], Any], task: Any, report: Report) -> Any:
    return work(task)


def do(work: Work, files: Sequence[str]) -> int:
    """Do the task in the first of ``files``; write answer and progress.

    Work that yields answers has each replace the one before.
    """
    task_file, answer_file, progress_file = map(Path, files)
    task = json.loads(task_file.read_text(encoding="utf-8"))

    def write(answer: Mapping[str, Any]) -> None:
        answer_file.write_text(json.dumps(answer, default=str), encoding="utf-8")

    try:
        found = work[task["do"]](task, _reporter(progress_file))
        for answer in found if isinstance(found, Iterator) else [found]:
            write({"ok": answer})
    except CheckmateError as error:
        facts = {
            "type": type(error).__name__,
            "message": str(error),
            "hint": error.hint,
            "details": error.details,
        }
        write({"error": facts})
    return 0


def _reporter(file: Path) -> Report:
    """Return a report that appends each ``Progress`` to ``file`` as a line."""

    def report(progress: Progress) -> None:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(progress)) + "\n")

    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
