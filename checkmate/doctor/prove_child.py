"""Take one network through all stages, in a process of its own.

Started by ``doctor --prove`` as ``python -m checkmate.doctor.prove_child TASK.json PROGRESS.json FOLDER``.
The task has a ``request`` and a ``share`` of the plain step's measured peak. The result goes to standard
output as the stage ``run`` (see ``checkmate.processes.stages``): ``{"report": …}``, or ``{"error": …,
"trace": …}``. PROGRESS.json holds the current activity.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from checkmate.backends.tf.environment import prepare_own_process
from checkmate.errors import CheckmateError
from checkmate.processes.own import end_with_parent
from checkmate.processes.stages import Teller, sentence_of
from checkmate.progress import Progress

_SOLVE_S = 5.0


def main(arguments: list[str]) -> int:
    """Do the task and tell the result."""
    end_with_parent()
    prepare_own_process()
    tell = Teller()
    task_file, progress_file, folder = map(Path, arguments)
    task = json.loads(task_file.read_text(encoding="utf-8"))
    tell.stage("run", lambda: _run(task, progress_file, folder))
    tell.end()
    return 0


def _run(task: dict[str, Any], progress_file: Path, folder: Path) -> dict[str, Any]:
    from checkmate import planning
    from checkmate.formats.schedule import report_to_json
    from checkmate.request import ModelRequest
    from checkmate.solvers.problem import SolveOptions
    from checkmate.units import Budget

    next_file = progress_file.with_suffix(".next")

    def report(progress: Progress) -> None:
        next_file.write_text(json.dumps({"message": progress.message}), encoding="utf-8")
        os.replace(next_file, progress_file)

    try:
        outcome = planning.run(
            ModelRequest.from_json(task["request"]),
            Budget(share=float(task["share"])),
            folder,
            refresh=True,  # earlier measurements prove nothing about today
            options=SolveOptions(time_limit_s=_SOLVE_S),
            report=report,
        )
    except CheckmateError as error:
        hint = f" ({error.hint})" if error.hint else ""
        said = str(error.details.get("output", ""))  # the output of a child process that died
        return {
            "error": f"{sentence_of(error)}{hint}",
            "trace": "\n".join(filter(None, (traceback.format_exc(), said))),
        }
    except Exception as error:  # any fault, here or in a library, is a result
        return {"error": sentence_of(error), "trace": traceback.format_exc()}
    return {"report": {**report_to_json(outcome.report), "settings": dict(outcome.report.settings)}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
