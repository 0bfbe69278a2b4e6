"""``python -m checkmate.worker.measure TASK.json ANSWER.json PROGRESS.jsonl``: one measurement in a fresh process.

The task names what to do (a key of ``main``'s table) and its arguments; the answer is ``{"ok": …}`` or ``{"error": …}``. A line of
PROGRESS.jsonl is one ``Progress``.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from checkmate.errors import CheckmateError
from checkmate.progress import Progress, Report
from checkmate.worker.child import end_with_parent

logger = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Do the task and write the answer; exit 0 whenever an answer was written."""
    end_with_parent()
    task_file, answer_file, progress_file = map(Path, arguments)
    task = json.loads(task_file.read_text(encoding="utf-8"))
    from checkmate.tf import fresh_costs, measure, peer_measure
    from checkmate.tf.live import elsewhere

    work: dict[str, Callable[[Any], Any]] = {
        "costs": partial(fresh_costs.measure_costs, report=_reporter(progress_file)),
        "measure": measure.measure,
        "compare": measure.compare,
        "compare_all": measure.compare_all,
        "time_in_turns": measure.time_in_turns,
        "measure_saved": elsewhere.measure_saved,
        "measure_peer": peer_measure.measure_peer,
        "time_peers": peer_measure.time_peers,
        "compare_peers": peer_measure.compare_peers,
    }
    try:
        answer = {"ok": work[task["do"]](task)}
    except CheckmateError as error:
        facts = {"type": type(error).__name__, "message": str(error), "hint": error.hint, "details": error.details}
        answer = {"error": facts}
    answer_file.write_text(json.dumps(answer, default=str), encoding="utf-8")
    return 0


def _reporter(file: Path) -> Report:
    def report(progress: Progress) -> None:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(progress)) + "\n")

    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
