"""Test that a measuring process ends with its parent process. It also never waits for input."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import checkmate
from checkmate.backends.tf.tasks import run_process
from checkmate.progress import never

ROOT = str(Path(checkmate.__file__).parents[1])
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
