"""Sweeps on real dask clusters on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from checkmate.errors import EngineUnavailableError
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.sweeps.engine import Engine, open_pool, parse_engine
from checkmate.sweeps.journal import open_journal
from checkmate.sweeps.run import run
from tests.unit.sweeps import counting
from tests.unit.sweeps.counting import read_entries

distributed = pytest.importorskip("distributed")
ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.heavy  # workers start, are killed and start again: half a minute


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    load_kernels()
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as started:
        yield started


def engine_of(cluster: Any) -> Engine:
    return parse_engine(cluster.scheduler_address.replace("tcp://", "dask://"))


@pytest.fixture
def engine(cluster: Any) -> Engine:
    return engine_of(cluster)


def test_the_same_answers_though_a_worker_is_killed_in_the_middle(engine: Engine, tmp_path: Path) -> None:
    ran, path = tmp_path / "ran", tmp_path / "sweep.jsonl"
    tasks = counting.sweep_tasks(ran, pause_s=0.5)

    def kill_the_first() -> None:
        counting.until(lambda: bool(counting.marks(ran)))
        os.kill(int(counting.marks(ran)[0].split()[1]), signal.SIGKILL)

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    with open_pool(engine) as pool, open_journal(path) as journal:
        swept = run(tasks, pool, journal=journal)
    killer.join()
    with open_pool(Engine(count=2)) as pool:
        here = run(counting.sweep_tasks(tmp_path / "here"), pool)
    assert not swept.failures and set(swept.answers) == {task.key for task in tasks}
    assert counting.answers(swept) == counting.answers(here)
    workers = [line.split()[1] for line in counting.marks(ran)]
    names = [line.split()[0] for line in counting.marks(ran)]
    assert names.count(names[0]) == 2 and workers[0] not in workers[1:][-1:], (
        "the lost worker's task ran again elsewhere"
    )
    assert set(read_entries(path)) == set(swept.answers)


def test_a_sweep_begun_here_is_finished_on_the_cluster(engine: Engine, tmp_path: Path) -> None:
    ran, path = tmp_path / "ran", tmp_path / "sweep.jsonl"
    tasks = counting.sweep_tasks(ran)
    with open_journal(path) as journal:
        with open_pool(Engine(count=1)) as pool:
            run(tasks[:3], pool, journal=journal)
        with open_pool(engine) as pool:
            swept = run(tasks, pool, journal=journal)
    assert swept.reused == 3 and len(counting.marks(ran)) == len(tasks) == len(swept.answers)


def test_a_task_that_kills_workers_is_given_up_and_the_others_are_not(engine: Engine, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    tasks = counting.sweep_tasks(ran, seeds=(1,))
    bad = counting.variant(tasks[1], counting.Deadly)
    with open_pool(engine) as pool:
        swept = run([tasks[0], bad, *tasks[2:]], pool)
    assert set(swept.answers) == {task.key for task in tasks} - {bad.key}
    assert set(swept.failures) == {bad.key} and "its worker was lost" in swept.failures[bad.key]


def test_cancelling_withdraws_what_has_not_started(engine: Engine, tmp_path: Path) -> None:
    ran, asked = tmp_path / "ran", threading.Event()
    tasks = counting.sweep_tasks(ran, pause_s=1.0)

    def cancelled() -> bool:
        if counting.marks(ran):
            asked.set()
        return asked.is_set()

    with open_pool(engine) as pool:
        swept = run(tasks, pool, cancelled=cancelled)
    assert swept.cancelled and len(swept.answers) < len(tasks)


class Processes:
    """A scheduler and two workers, each a process that can be lost for good."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.running: list[subprocess.Popen[bytes]] = []
        self.start()

    def start(self) -> None:
        host, _, port = self.address.partition(":")
        self._start("scheduler", "--host", host, "--port", port, "--no-dashboard", "--no-show")
        counting.until(self._listens)
        for _ in range(2):
            self._start("worker", f"tcp://{self.address}", "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def _start(self, kind: str, *arguments: str) -> None:
        # A worker that says nothing is lost after four seconds, not five minutes.
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "4s"}
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.running.append(subprocess.Popen(command, env=environment, **quiet))

    def _listens(self) -> bool:
        host, _, port = self.address.partition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), 1.0):
            return True
        return False

    def lose(self, *processes: subprocess.Popen[bytes]) -> None:
        for process in processes:
            process.kill()
            process.wait()
            self.running.remove(process)


@pytest.fixture
def processes() -> Iterator[Processes]:
    load_kernels()
    made = Processes()
    yield made
    made.lose(*made.running)


def test_a_worker_that_says_nothing_any_more_is_lost(processes: Processes, tmp_path: Path) -> None:
    ran, path = tmp_path / "ran", tmp_path / "sweep.jsonl"
    tasks = counting.sweep_tasks(ran, pause_s=1.0)

    def stop_the_first() -> None:
        counting.until(lambda: bool(counting.marks(ran)))
        os.kill(int(counting.marks(ran)[0].split()[1]), signal.SIGSTOP)

    stopper = threading.Thread(target=stop_the_first)
    with open_pool(parse_engine(f"dask://{processes.address}")) as pool, open_journal(path) as journal:
        counting.until(lambda: pool.slots() == 2)
        stopper.start()
        swept = run(tasks, pool, journal=journal)
    stopper.join()
    assert not swept.failures and set(swept.answers) == {task.key for task in tasks}
    names = [line.split()[0] for line in counting.marks(ran)]
    assert names.count(names[0]) == 2 and set(read_entries(path)) == set(swept.answers)


def test_a_scheduler_that_is_lost_is_said_to_be_and_the_journal_goes_on(
    processes: Processes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ran, path = tmp_path / "ran", tmp_path / "sweep.jsonl"
    tasks = counting.sweep_tasks(ran, pause_s=1.0)
    engine = parse_engine(f"dask://{processes.address}")

    def lose_it() -> None:
        counting.until(lambda: len(read_entries(path)) >= 3)
        processes.lose(processes.running[0])

    loser = threading.Thread(target=lose_it)
    with open_pool(engine) as pool, open_journal(path) as journal:
        counting.until(lambda: pool.slots() == 2)
        loser.start()
        with pytest.raises(
            EngineUnavailableError, match=r"the connection to the dask scheduler at .* was lost"
        ):
            run(tasks, pool, journal=journal)
    loser.join()
    assert "Traceback" not in capfd.readouterr().err  # one sentence says it
    kept = read_entries(path)
    processes.lose(*processes.running)
    processes.start()
    with open_pool(engine) as pool, open_journal(path) as journal:
        swept = run(tasks, pool, journal=journal)
    assert not swept.failures and set(swept.answers) == {task.key for task in tasks}
    assert swept.reused == len(kept) and 3 <= len(kept) < len(tasks)
