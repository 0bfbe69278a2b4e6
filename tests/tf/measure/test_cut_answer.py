"""Test the answer of a measuring process that is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkmate.backends.tf import child, fresh
from checkmate.errors import StepTooLargeError
from checkmate.progress import never, silent


@pytest.mark.parametrize("written", ["", "{", '{"ok": {"peak": 1'])
def test_half_an_answer_is_none(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(module: str, task: str, answer: str, progress: str) -> list[str]:
        return ["sh", "-c", f"printf '%s' '{written}' > {answer}; kill -KILL $$"]

    monkeypatch.setattr(fresh, "fork_servers", lambda: None)
    monkeypatch.setattr(fresh, "module_command", command)
    with pytest.raises(StepTooLargeError, match="was ended by SIGKILL"):
        fresh.run_task({"do": "costs"}, message="", report=silent, cancelled=never)


def test_each_answer_replaces_the_one_before(tmp_path: Path) -> None:
    """Test that what was found stands where the work goes on and fails."""
    task, answer, progress = (tmp_path / name for name in ("task", "answer", "progress"))
    task.write_text('{"do": "count"}')

    def count(task: object, report: object) -> Iterator[int]:
        yield 1
        assert json.loads(answer.read_text()) == {"ok": 1}
        yield 2
        assert json.loads(answer.read_text()) == {"ok": 2}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.do({"count": count}, [str(task), str(answer), str(progress)])
    assert json.loads(answer.read_text()) == {"ok": 2}
