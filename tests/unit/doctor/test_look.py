from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from checkmate.doctor import look
from checkmate.doctor.look import folder_at, nvidia_here, wanted_by
from checkmate.errors import CancelledError
from checkmate.processes.stages import gathered, probe, sentence_of
from checkmate.progress import Cancelled, never


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a child's code as a module that ``-m`` finds; return its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))

    def write(code: str) -> str:
        head = "import os, time\nfrom checkmate.processes.stages import Teller\ntell = Teller()\n"
        (tmp_path / "doctor_child.py").write_text(head + code)
        return "doctor_child"

    return write


def test_facts_reported_before_a_crash_are_kept(module) -> None:
    code = """
print("chatter of a library")
tell.stage("first", lambda: {"n": 1})
tell.stage("second", lambda: 1 / 0)
tell.stage("third", os.abort)
"""
    found = probe([module(code)], limit_s=60, cancelled=never)
    assert found.found == {"first": {"n": 1}} and found.errors == {
        "second": "ZeroDivisionError: division by zero"
    }
    assert found.stage == "third" and found.crashed and found.why() == "SIGABRT, abort"
    assert "chatter" in found.log


def test_a_crash_at_the_very_end_does_not_count(module) -> None:
    found = probe([module('tell.stage("a", lambda: 1)\ntell.end()')], limit_s=60, cancelled=never)
    assert (found.found, found.code, found.stage, found.crashed) == ({"a": 1}, 0, "", False)


def test_a_child_that_hangs_is_ended(module) -> None:
    found = probe([module('tell.stage("slow", lambda: time.sleep(600))')], limit_s=1, cancelled=never)
    assert found.code is None and found.crashed and found.why().startswith("no answer within")


def test_cancelling_ends_the_child(module) -> None:
    pids: list[int] = []
    others = {child.pid for child in psutil.Process().children()}  # kept by earlier tests

    def cancelled() -> bool:
        pids[:] = [child.pid for child in psutil.Process().children() if child.pid not in others]
        return True

    with pytest.raises(CancelledError):
        probe([module("time.sleep(600)")], limit_s=60, cancelled=cancelled)
    assert pids and not any(psutil.pid_exists(pid) and psutil.Process(pid).is_running() for pid in pids)


def test_ctrl_c_while_the_children_start_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check it while some children run and nothing polls for Ctrl-C yet."""
    ended: list[bool] = []
    handed_in: list[object] = []

    def hangs(module: Sequence[str], *, cancelled: Cancelled, **_: object) -> None:
        until = time.monotonic() + 60
        while not cancelled() and time.monotonic() < until:
            time.sleep(0.01)
        ended.append(cancelled())

    class Interrupted(ThreadPoolExecutor):
        def submit(self, *work: Any, **named: Any) -> Any:
            handed_in.append(work)
            if len(handed_in) == 5:
                raise KeyboardInterrupt
            return super().submit(*work, **named)

    monkeypatch.setattr(look, "probe", hangs)
    monkeypatch.setattr(look, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        look.look_around(report=lambda _: None, cancelled=never)
    assert ended and all(ended)


def test_a_missing_module() -> None:
    found = probe(["checkmate.nonsense"], limit_s=60, cancelled=never)
    assert found.why() == "exit code 1" and "No module named" in found.log


def test_a_line_that_was_cut_off_does_not_count() -> None:
    found = gathered(
        '{"begin": "a"}\n{"stage": "a", "found": 1}\n{"begin": "b"}\n{"stage": "b", "fou', -9, "", 1.0
    )
    assert (found.found, found.stage) == ({"a": 1}, "b") and "SIGKILL" in found.why()


def test_an_error_is_one_line() -> None:
    assert sentence_of(ValueError("one\ntwo")) == "ValueError: one"
    assert sentence_of(ValueError()) == "ValueError"


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "file").write_bytes(b"x" * 1000)
    there = folder_at("a", "A", tmp_path / "cache")
    assert (there.bytes, there.problem) == (1000, "") and there.free_bytes > 0
    absent = folder_at("a", "A", tmp_path / "not" / "yet")
    assert (absent.bytes, absent.problem) == (0, "") and not (tmp_path / "not").exists()
    (tmp_path / "taken").write_text("a file")
    assert "is a file, not a folder" in folder_at("a", "A", tmp_path / "taken" / "costs").problem
    assert [entry.name for entry in tmp_path.iterdir()].count("cache") == 1 and len(
        list(tmp_path.iterdir())
    ) == 2


def test_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not nvidia_here().installed
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        'case "$1" in --query*) echo "Tesla T4, 15360, 15000, 535.1, 7.5, Default";;\n'
        '*) echo "| NVIDIA-SMI 535.1  Driver Version: 535.1  CUDA Version: 12.2 |";; esac\n'
    )
    tool.chmod(0o755)
    found = nvidia_here()
    assert found.cuda == "12.2" and [card.name for card in found.cards] == ["Tesla T4"]
    tool.write_text("#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n")
    assert nvidia_here().problem == "Failed to initialize NVML: Driver/library version mismatch"


def test_libraries_are_those_of_the_installed_program() -> None:
    found = {library.name: library for library in wanted_by("checkmate-explorer")}
    if not found:
        pytest.skip("the program is not installed here, only run")
    assert found["numpy"].fits and found["numpy"].installed
    assert "dask" not in found and "pytest" not in found  # extras
    assert all("nvidia" in library.name for library in wanted_by("tensorflow", extra="and-cuda"))
