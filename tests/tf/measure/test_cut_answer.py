"""Test a measuring process that is killed while it writes its answer."""

from __future__ import annotations

import pytest

from checkmate.errors import StepTooLargeError
from checkmate.progress import never, silent
from checkmate.tf import fresh


@pytest.mark.parametrize("written", ["", "{", '{"ok": {"peak": 1'])
def test_half_an_answer_is_none(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(module: str, task: str, answer: str, progress: str) -> list[str]:
        return ["sh", "-c", f"printf '%s' '{written}' > {answer}; kill -KILL $$"]

    monkeypatch.setattr(fresh, "fork_servers", lambda: None)
    monkeypatch.setattr(fresh, "module_command", command)
    with pytest.raises(StepTooLargeError, match="was ended by SIGKILL"):
        fresh.run_task({"do": "costs"}, message="", report=silent, cancelled=never)
