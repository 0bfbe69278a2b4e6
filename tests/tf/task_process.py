"""Compare a test file's models in one process with Eigen's kernels.

TensorFlow is then imported once. The product compares each schedule in a process of its own
(``checkmate.backends.tf.tasks``), which the tests of other files prove."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkmate.backends.tf.environment import EXACT, import_quickly, measuring_environment
from checkmate.machine.garbage import hide_all

ROOT = Path(__file__).resolve().parents[2]


class TaskProcess:
    """Does tasks of ``backends.tf.task_server`` in turn, in a child that starts with the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def ask(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to one task; fail with the child's words if none."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        task_file, answer_file = self._folder / "task.json", self._folder / "answer.json"
        task_file.write_text(json.dumps(task), encoding="utf-8")
        answer_file.unlink(missing_ok=True)
        print(task_file, answer_file, sep="\t", file=process.stdin, flush=True)
        for line in process.stdout:
            if line == f"{answer_file}\n":
                break
        assert answer_file.exists(), self._log.read_text(errors="replace")[-3000:]
        answer: dict[str, Any] = json.loads(answer_file.read_text(encoding="utf-8"))
        assert "error" not in answer, answer["error"]
        return answer["ok"]

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._process.communicate(timeout=60)

    @property
    def _log(self) -> Path:
        return self._folder / "stderr"

    def _start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, **measuring_environment(), **EXACT, "PYTHONPATH": str(ROOT)}
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.tf.task_process"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self._process


def main() -> None:
    """Do the tasks named on standard input, until it ends."""
    import_quickly()
    import keras

    from checkmate.backends.tf.measure import step

    work = {"compare": step.compare, "compare_each": lambda task: step.compare_each(task, task["schedules"])}
    for line in sys.stdin:
        task_file, answer_file = map(Path, line.rstrip("\n").split("\t"))
        task = json.loads(task_file.read_text(encoding="utf-8"))
        keras.utils.clear_session()  # names as in a fresh process
        try:
            answer = {"ok": work[task["do"]](task)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answer_file.write_text(json.dumps(answer, default=str), encoding="utf-8")
        print(answer_file, flush=True)
    hide_all()  # the end need not look at all objects of TensorFlow


if __name__ == "__main__":
    main()
