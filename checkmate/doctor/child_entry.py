"""What may crash, in a process of its own: ``python -m checkmate.doctor.child_entry WHAT``.

WHAT is ``tensorflow``, ``import NAME…``, or ``prove TASK PROGRESS FOLDER``. TASK has a ``request`` and a
``share`` of the plain step's measured peak; the result is ``{"report": …}``, or ``{"error": …, "trace": …}``.
The file PROGRESS holds the current activity.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from checkmate.errors import CheckmateError
from checkmate.processes.own import end_with_parent
from checkmate.processes.stages import Teller, sentence_of
from checkmate.progress import Progress

_SOLVE_S = 5.0


def main(what: str, *arguments: str) -> None:
    end_with_parent()
    tell = Teller()
    if what == "import":
        for name in arguments:
            tell.stage(name, partial(_version, name))
        tell.end()
    from checkmate.backends.tf.environment import prepare_own_process

    prepare_own_process()
    if what == "tensorflow":
        from checkmate.backends.tf.probe import look

        look(tell.stage)
    elif what == "prove":
        task, progress, folder = arguments
        tell.stage("run", partial(_prove, json.loads(task), Path(progress), Path(folder)))
    tell.end()


def _version(module: str) -> str:
    return str(getattr(importlib.import_module(module), "__version__", ""))


def _prove(task: dict[str, Any], progress_file: Path, folder: Path) -> dict[str, Any]:
    from checkmate import planning
    from checkmate.formats.schedule import report_to_json
    from checkmate.request import ModelRequest
    from checkmate.solvers.problem import SolveOptions
    from checkmate.units import Budget

    next_file = progress_file.with_suffix(".next")

    def report(progress: Progress) -> None:
        next_file.write_text(progress.message, encoding="utf-8")
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
        trace = "\n".join(filter(None, (traceback.format_exc(), said)))
        return {"error": f"{sentence_of(error)}{hint}", "trace": trace}
    except Exception as error:  # any fault, here or in a library, is a result
        return {"error": sentence_of(error), "trace": traceback.format_exc()}
    return {"report": {**report_to_json(outcome.report), "settings": dict(outcome.report.settings)}}


if __name__ == "__main__":
    main(*sys.argv[1:])
