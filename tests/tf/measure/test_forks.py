"""Test the processes that are forked to measure: fresh, and never left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from checkmate.backends.tf import tasks
from checkmate.backends.tf.environment import EXACT
from checkmate.backends.tf.tasks import TaskServers
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.errors import CancelledError, StepTooLargeError, WorkerDiedError
from checkmate.progress import Cancelled, never, silent
from checkmate.request import ModelRequest
from tests.zoo.names import zoo_request

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone"),
]
TWO_IO = zoo_request("two_io", device="cpu").to_json()
MEASURE = {"do": "measure", "request": TWO_IO, "steps": None, "runs": 1}


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskServers]:
    own = TaskServers(once=False)
    monkeypatch.setattr(tasks, "task_servers", lambda: own)
    yield own
    own.close()


def run(cancelled: Cancelled = never, task: Any = MEASURE, **environment: str) -> dict[str, Any]:
    return tasks.run_task(task, message="", report=silent, cancelled=cancelled, environment=environment)


def of(servers: TaskServers) -> list[psutil.Process]:
    return [psutil.Process(server.process.pid) for _, server in servers._idle]


def soon(found: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not found() and time.monotonic() < end:
        time.sleep(0.05)
    return found()


def fail_once() -> None:
    with pytest.raises(WorkerDiedError, match="KeyError: 'nothing'"):
        run(task={"do": "nothing"})


def same_step(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    # A plain step's ops are ordered anew in each run, so its peak varies a little.
    alike = found["first_peak_bytes"] == pytest.approx(expected["first_peak_bytes"], rel=0.3)
    return alike and found["fingerprint"] == expected["fingerprint"]


def all_end_with_the_one_that_asks(script: str, told: Path, processes: int) -> bool:
    """Run a script that writes its children's ids to ``told``; kill it, and see that they end."""
    asking = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    try:
        assert soon(lambda: told.exists() and len(told.read_text().split()) == processes, 60)
    finally:
        os.kill(asking.pid, signal.SIGKILL)
        asking.wait()
    below = [int(each) for each in told.read_text().split()]
    return soon(lambda: not any(map(psutil.pid_exists, below)))


def test_a_forked_process_measures_what_one_of_its_own_does(
    servers: TaskServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = run(), run()
    (server,) = of(servers)
    assert server.children() == []
    exact = run(**EXACT)
    assert len(of(servers)) == 2 and of(servers)[0] == server
    monkeypatch.setattr(tasks, "task_servers", lambda: None)
    alone, alone_exact = run(), run(**EXACT)
    for found, expected in ((first, alone), (again, alone), (exact, alone_exact)):
        assert same_step(found, expected)
        assert found["fixed_bytes"] == expected["fixed_bytes"] > 0
    assert first["loss"] != again["loss"]  # weights are drawn anew in each


def test_a_step_is_compared_where_it_was_measured(servers: TaskServers) -> None:
    ops = len(trace_request(ModelRequest.from_json(TWO_IO), report=silent, cancelled=never).graph.ops)
    task = {**MEASURE, "steps": list(range(ops))}
    over, within = run(task={**task, "within": 0}), run(task={**task, "within": 2**40})
    assert "compared" not in over and set(within) == {*over, "compared"}
    assert within["compared"]["gradients"] > 0
    assert within["compared"]["overall_relative_error"] < 1e-4  # default kernels add in any order


def test_an_error_is_told_as_by_a_process_of_its_own(
    servers: TaskServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once()
    assert len(of(servers)) == 1  # it goes on
    monkeypatch.setattr(tasks, "task_servers", lambda: None)
    fail_once()


def test_what_is_cancelled_ends_and_the_next_is_forked(servers: TaskServers) -> None:
    fail_once()
    (server,) = of(servers)
    with pytest.raises(CancelledError):
        run(cancelled=lambda: bool(server.children()))
    assert soon(lambda: not server.children())
    assert run()["first_peak_bytes"] > 0 and of(servers) == [server]


def test_one_that_is_cancelled_while_the_server_begins_is_not_waited_for(servers: TaskServers) -> None:
    begun = time.monotonic()
    with pytest.raises(CancelledError):
        run(cancelled=lambda: True)
    assert time.monotonic() - begun < 1.5 or psutil.getloadavg()[0] > 2
    assert of(servers) == [] and run()["first_peak_bytes"] > 0


@pytest.mark.parametrize("when", ["idle", "busy"])
def test_a_server_that_is_killed_is_replaced(when: str, servers: TaskServers) -> None:
    fail_once()
    (server,) = of(servers)

    def kill_when_busy() -> bool:
        if server.is_running() and server.status() != psutil.STATUS_ZOMBIE and server.children():
            server.kill()
        return False

    if when == "idle":
        server.kill()
    else:
        with pytest.raises(StepTooLargeError, match="was ended by SIGKILL"):
            run(cancelled=kill_when_busy)
    assert run()["first_peak_bytes"] > 0
    assert server not in of(servers)


def test_all_end_with_the_process_that_asked(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = (
        "import pathlib, psutil\n"
        "from checkmate.progress import never\n"
        "from checkmate.backends.tf import tasks\n"
        "def report(progress):\n"
        "    below = psutil.Process().children(recursive=True)\n"
        "    if len(below) == 2:\n"
        f"        pathlib.Path({str(ready)!r}).write_text(' '.join(str(each.pid) for each in below))\n"
        f"tasks.run_task({MEASURE!r}, message='', report=report, cancelled=never)\n"
    )
    assert all_end_with_the_one_that_asks(script, ready, 2)


def test_nothing_is_forked_where_a_gpu_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = tasks.task_servers.__wrapped__
    monkeypatch.setattr(tasks, "_GPUS", (tmp_path / "none", tmp_path / "card"))
    assert not made().once
    (tmp_path / "card").touch()
    monkeypatch.setattr(tasks, "usable_cores", lambda: 4)
    processes = made()
    assert processes.once and processes.take({}, on_cpu=True) is None
    monkeypatch.setattr(tasks, "usable_cores", lambda: 3)
    assert made() is None  # the next one would disturb the last


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskServers]:
    """Return processes that wait, as on a machine with a GPU."""
    own = TaskServers(once=True)
    monkeypatch.setattr(tasks, "task_servers", lambda: own)
    monkeypatch.setattr(tasks, "_measures_cpu", lambda task: False)
    yield own
    own.close()


def test_the_next_process_is_ready_and_measures_the_same(
    ready: TaskServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run()
    (next_one,) = of(ready)
    seen: list[bool] = []

    def look() -> bool:
        seen.append(next_one in of(ready))
        return False

    again = run(cancelled=look)
    assert not any(seen) and not next_one.is_running()  # it did the task
    with pytest.raises(WorkerDiedError):
        run(task={"do": "nothing"}, **EXACT)
    assert len(of(ready)) == 2  # one for each kind
    monkeypatch.setattr(tasks, "task_servers", lambda: None)
    alone = run()
    assert same_step(first, alone) and same_step(again, alone)


def test_a_ready_process_that_fails_is_told_of_and_one_that_is_cancelled_ends(ready: TaskServers) -> None:
    fail_once()
    (other,) = of(ready)
    with pytest.raises(CancelledError):
        run(cancelled=lambda: True)
    assert soon(lambda: not other.is_running())
    assert run()["first_peak_bytes"] > 0


def test_a_ready_process_that_was_killed_is_replaced(ready: TaskServers) -> None:
    fail_once()
    (other,) = of(ready)
    other.kill()
    assert run()["first_peak_bytes"] > 0


def test_one_that_ends_as_it_is_asked_counts_as_none(ready: TaskServers) -> None:
    fail_once()
    ready._idle[0][1].process.send_signal(signal.SIGSTOP)  # it does not read
    (other,) = of(ready)

    def kill_once() -> bool:
        if other.is_running() and other.status() == psutil.STATUS_STOPPED:
            other.kill()
        return False

    assert run(cancelled=kill_once)["first_peak_bytes"] > 0


@pytest.mark.parametrize("asked", [False, True])
def test_ready_processes_end_with_the_one_that_asked(asked: bool, tmp_path: Path) -> None:
    told = tmp_path / "told"
    task = {"do": "measure", "request": TWO_IO, "steps": None, "runs": 400} if asked else {"do": "nothing"}
    script = (
        "import contextlib, os, pathlib, psutil, time\n"
        "from checkmate.progress import never\n"
        "from checkmate.backends.tf import tasks\n"
        "own = tasks.TaskServers(once=True)\n"
        "tasks.task_servers = lambda: own\n"
        "tasks._measures_cpu = lambda task: False\n"
        "def tell(progress=None):\n"
        "    below = psutil.Process().children(recursive=True)\n"
        f"    part = pathlib.Path({str(told)!r} + '.part')\n"
        "    part.write_text(' '.join(str(each.pid) for each in below))\n"
        f"    part.rename({str(told)!r})\n"
        "with contextlib.suppress(Exception):\n"
        f"    tasks.run_task({task!r}, message='', report={'tell' if asked else 'lambda progress: None'}, "
        "cancelled=never)\n"
        "tell()\n"
        "time.sleep(60)\n"
    )
    assert all_end_with_the_one_that_asks(script, told, 1 + asked)


@pytest.mark.parametrize(
    ("task", "gpus", "expected"),
    [
        ({"request": {"device": None}}, ["a GPU"], False),
        ({"request": {"device": "gpu:1"}}, ["a GPU"], False),
        ({"request": {"device": "cpu"}}, ["a GPU"], True),
        ({"do": "measure_saved"}, ["a GPU"], True),
        ({"request": {"device": None}}, [], True),
    ],
)
def test_what_measures_the_processor(
    task: dict[str, Any], gpus: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SimpleNamespace(list_physical_devices=lambda kind: gpus)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    assert tasks._measures_cpu(task) is expected


def test_two_at_once_are_both_done(servers: TaskServers) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(run()["first_peak_bytes"])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and min(found) > 0 and len(of(servers)) <= 2
