"""A process that computes is told from one that waits, with its children."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from checkmate.machine.load import seconds_computed

BUSY = "import time\nwhile time.process_time() < {}: pass"
# A child computes for half a processor second, ends, and the process waits.
PARENT = f"""
import subprocess, sys, time
print("begun", flush=True)
subprocess.run([sys.executable, "-c", {BUSY.format(0.5)!r}])
print("ended", flush=True)
time.sleep(60)
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()
    assert process.stdout
    process.stdout.close()


def test_what_a_child_computed_counts_while_it_runs_and_afterwards(parent: subprocess.Popen[str]) -> None:
    assert parent.stdout and parent.stdout.readline() == "begun\n"
    seen = [seconds_computed(parent.pid)]
    while not select.select([parent.stdout], [], [], 0.01)[0]:
        seen.append(seconds_computed(parent.pid))
    assert parent.stdout.readline() == "ended\n"
    seen.append(seconds_computed(parent.pid))
    assert seen == sorted(seen) and seen[-2] - seen[0] > 0.1
    waiting = seconds_computed(parent.pid)
    time.sleep(0.3)
    assert seconds_computed(parent.pid) == pytest.approx(waiting, abs=0.03)


def test_a_process_that_is_not_there_computes_nothing() -> None:
    assert seconds_computed(0) == 0.0 == seconds_computed(2**22 + 1)
