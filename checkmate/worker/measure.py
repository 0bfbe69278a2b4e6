"""``python -m checkmate.worker.measure TASK.json ANSWER.json``: one measurement in a fresh process.

The task names what to do (``measure``, ``compare``, ``compare_all`` or one of ``*_peer(s)``) and its arguments; the answer is ``{"ok": …}`` or ``{"error": …}``.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from checkmate.errors import CheckmateError
from checkmate.worker.child import end_with_parent

logger = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Do the task and write the answer; exit 0 whenever an answer was written."""
    end_with_parent()
    task_file, answer_file = map(Path, arguments)
    task = json.loads(task_file.read_text(encoding="utf-8"))
    from checkmate.tf import measure, peer_measure

    work = {
        "measure": measure.measure,
        "compare": measure.compare,
        "compare_all": measure.compare_all,
        "measure_peer": peer_measure.measure_peer,
        "time_peers": peer_measure.time_peers,
        "compare_peers": peer_measure.compare_peers,
    }[task["do"]]
    try:
        answer = {"ok": work(task)}
    except CheckmateError as error:
        answer = {"error": {"type": type(error).__name__, "message": str(error), "hint": error.hint}}
    answer_file.write_text(json.dumps(answer), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
