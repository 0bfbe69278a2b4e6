"""Test that our own processes import what this one runs with, end with it, and never wait for input."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import checkmate
from checkmate.backends.tf.tasks import run_process
from checkmate.processes.children import module_command
from checkmate.progress import never

ROOT = Path(checkmate.__file__).parents[1]


def test_nothing_is_imported_from_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json.py", "queue.py", "checkmate/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = subprocess.run(
        module_command("checkmate", "--version"), capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "the wrong one" not in done.stdout and done.stdout.strip()


def test_a_checkout_that_is_not_installed_starts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert "-P" not in module_command("checkmate")


def test_a_folder_that_was_removed_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "-P" in module_command("checkmate")


ENDS = "from checkmate.processes.own import end_with_parent; end_with_parent(); "
SLEEPS = ENDS + "print('here', flush=True); import time; time.sleep(60)"
ASKS = ENDS + "print(repr(input()))"
PARENT = f"""
import sys
from checkmate.progress import never
from checkmate.backends.tf.tasks import run_process
tell = lambda progress: print(progress.done, flush=True)
run_process([sys.executable, "-c", {SLEEPS!r}], message="", report=tell, cancelled=never)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="kills a process")
def test_a_measuring_process_ends_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, cwd=ROOT)
    assert parent.stdout is not None
    for _ in range(15):  # 1.5 seconds, ten lines a second: the child is there by then
        parent.stdout.readline()
    children = psutil.Process(parent.pid).children()
    assert len(children) == 1
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    gone, left = psutil.wait_procs(children, timeout=20)
    assert len(gone) == 1 and not left


def test_code_that_asks_for_input_fails_instead_of_waiting() -> None:
    said, _ = run_process(
        [sys.executable, "-c", ASKS], message="", report=lambda progress: None, cancelled=never
    )
    assert "EOFError" in said
