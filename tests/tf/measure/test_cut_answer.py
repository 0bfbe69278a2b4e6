"""Test the answer of a measuring process that is killed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkmate.backends.tf import tasks
from checkmate.backends.tf.task_server import TaskFiles, do
from checkmate.errors import StepTooLargeError
from checkmate.progress import never, silent


@pytest.mark.parametrize("written", ["", "{", '{"ok": {"peak": 1'])
def test_half_an_answer_is_none(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import json, os, pathlib, signal\n"
        "asked = json.loads(input())\n"
        "print(json.dumps({'process': os.getpid()}), flush=True)\n"
        f"pathlib.Path(asked['task'], 'answer.json').write_text({written!r})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.setattr(tasks, "task_servers", lambda: None)
    monkeypatch.setattr(tasks, "module_command", lambda *module: [sys.executable, "-c", code])
    with pytest.raises(StepTooLargeError, match="was ended by SIGKILL"):
        tasks.run_task({"do": "costs"}, message="", report=silent, cancelled=never)


def test_each_answer_replaces_the_one_before(tmp_path: Path) -> None:
    files = TaskFiles(tmp_path)
    files.task.write_text('{"do": "count"}')

    def count(task: object) -> Iterator[int]:
        yield 1
        assert json.loads(files.answer.read_text()) == {"ok": 1}
        yield 2
        assert json.loads(files.answer.read_text()) == {"ok": 2}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        do(files, {"count": count})
    assert json.loads(files.answer.read_text()) == {"ok": 2}
