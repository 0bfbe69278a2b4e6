from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from checkmate.errors import FormatError
from checkmate.frontiers.tasks import result_of
from checkmate.progress import Progress
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.sweeps.engine import Engine, Pool, open_pool
from checkmate.sweeps.journal import open_journal
from checkmate.sweeps.run import run
from tests.unit.sweeps import counting
from tests.unit.sweeps.counting import read_entries

ROOT = Path(__file__).resolve().parents[3]

# A sweep in a process of its own, to be killed: python -c KILLABLE COUNTER JOURNAL
KILLABLE = """
import sys
from pathlib import Path
from checkmate.sweeps.engine import Engine, open_pool
from checkmate.sweeps.journal import open_journal
from checkmate.sweeps.run import run
from tests.unit.sweeps.counting import sweep_tasks
with open_pool(Engine(count=2)) as pool, open_journal(Path(sys.argv[2])) as journal:
    run(sweep_tasks(Path(sys.argv[1]), pause_s=0.3), pool, journal=journal)
"""


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    load_kernels()


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with open_pool(Engine(count=2)) as opened:
        yield opened


def test_every_task_once_and_equal_tasks_are_one(pool: Pool, tmp_path: Path) -> None:
    tasks = counting.sweep_tasks(tmp_path / "ran")
    told: list[Progress] = []
    swept = run([*tasks, *tasks], pool, report=told.append)
    assert set(swept.answers) == {task.key for task in tasks} and not swept.failures and not swept.cancelled
    assert sorted(line.split()[0] for line in counting.marks(tmp_path / "ran")) == sorted(
        task.name for task in tasks
    )
    assert os.getpid() not in {int(line.split()[1]) for line in counting.marks(tmp_path / "ran")}
    assert swept.at_once == 2
    assert (told[-1].done, told[-1].total) == (8, 8)
    assert [p.done for p in told] == sorted(p.done for p in told)


def test_the_same_sweep_gives_the_same_answers_and_they_are_schedules(pool: Pool, tmp_path: Path) -> None:
    tasks = counting.sweep_tasks(tmp_path / "ran", seeds=(3,))
    first, second = run(tasks, pool), run(list(reversed(tasks)), pool)
    assert counting.answers(first) == {key: counting.repeatable(data) for key, data in second.answers.items()}
    assert {data["ended"] for data in first.answers.values()} <= {"moves", "proof"}
    graph = tasks[-1].graph
    result = result_of(graph, first.answers[tasks[-1].key])
    assert result.schedule is not None and result.schedule.graph_fingerprint == graph.fingerprint


def test_the_key_holds_everything_that_the_answer_depends_on(tmp_path: Path) -> None:
    task = counting.sweep_tasks(tmp_path / "ran")[0]
    changed = [
        replace(task, graph=replace(task.graph, fixed_bytes=1)),
        replace(task, budget_bytes=task.budget_bytes + 1),
        replace(task, solver="greedy"),
        *(
            replace(task, options=replace(task.options, **change))
            for change in ({"seed": 9}, {"moves": 9}, {"time_limit_s": 9.0}, {"workers": 9}, {"gap": 0.9})
        ),
    ]
    assert len({each.key for each in (*changed, task)}) == len(changed) + 1
    assert replace(task, graph=replace(task.graph)).key == task.key


def test_a_task_that_kills_its_workers_fails_and_takes_no_other_along(pool: Pool, tmp_path: Path) -> None:
    tasks = counting.sweep_tasks(tmp_path / "ran")
    bad = counting.variant(tasks[2], counting.Deadly)
    swept = run([*tasks[:2], bad, *tasks[3:]], pool)
    assert set(swept.failures) == {bad.key} and "its worker was lost 3 times" in swept.failures[bad.key]
    assert set(swept.answers) == {task.key for task in tasks} - {bad.key}
    ran = [line.split()[0] for line in counting.marks(tmp_path / "ran")]
    assert {name: ran.count(name) for name in ran} == {
        task.name: 3 if task is tasks[2] else 1 for task in tasks
    }
    assert swept.lost == 3


def test_a_task_that_goes_wrong_is_a_failure_with_its_reason(pool: Pool, tmp_path: Path) -> None:
    tasks = counting.sweep_tasks(tmp_path / "ran", seeds=(1,))
    with open_journal(tmp_path / "sweep.jsonl") as journal:
        bad = [
            counting.variant(tasks[0], counting.Failing),
            counting.variant(tasks[3], counting.Wrong),
        ]
        swept = run(bad, pool, journal=journal)
    assert swept.failures[tasks[0].key] == "ValueError: no such thing"
    assert "not" in swept.failures[tasks[3].key] and "cost" in swept.failures[tasks[3].key]
    assert not swept.answers and read_entries(tmp_path / "sweep.jsonl") == {}


def test_a_worker_killed_in_the_middle_costs_nothing_but_its_time(pool: Pool, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    tasks = counting.sweep_tasks(ran, pause_s=0.5)

    def kill_the_first() -> None:
        counting.until(lambda: bool(counting.marks(ran)))
        os.kill(int(counting.marks(ran)[0].split()[1]), signal.SIGKILL)

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    swept = run(tasks, pool)
    killer.join()
    undisturbed = run(counting.sweep_tasks(tmp_path / "again"), pool)
    assert swept.lost == 1 and not swept.failures
    assert counting.answers(swept) == {
        key: counting.repeatable(data) for key, data in undisturbed.answers.items()
    }
    assert len(counting.marks(ran)) == len(tasks) + 1


def test_cancelling_stops_at_once_and_leaves_the_journal(tmp_path: Path) -> None:
    ran, path = tmp_path / "ran", tmp_path / "sweep.jsonl"
    asked = threading.Event()
    quick = counting.sweep_tasks(ran, seeds=(1,), shares=(0.8,))
    endless = counting.sweep_tasks(ran, seeds=(2,), pause_s=1e6)

    def ask() -> None:
        counting.until(lambda: len(counting.marks(path)) >= 2)
        asked.set()

    watcher = threading.Thread(target=ask)
    watcher.start()
    with open_journal(path) as journal, open_pool(Engine(count=2)) as pool:
        swept = run([*quick, *endless], pool, journal=journal, cancelled=asked.is_set)
    watcher.join()
    assert swept.cancelled and set(swept.answers) == {quick[0].key} and not swept.failures
    assert set(read_entries(path)) == {quick[0].key}


def test_a_killed_sweep_resumes_without_recomputing(pool: Pool, tmp_path: Path) -> None:
    ran, path = tmp_path / "ran", tmp_path / "sweep.jsonl"
    command = [sys.executable, "-c", KILLABLE, str(ran), str(path)]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as sweep:
        counting.until(lambda: len(counting.marks(path)) >= 4)  # the header and three
        sweep.send_signal(signal.SIGKILL)
    workers = [int(line.split()[1]) for line in counting.marks(ran)]
    counting.until(lambda: not any(map(psutil.pid_exists, workers)))
    finished = read_entries(path)
    begun = len(counting.marks(ran))
    tasks = counting.sweep_tasks(ran)
    assert 3 <= len(finished) < len(tasks)
    names = {task.key: task.name for task in tasks}
    with open_journal(path) as journal:
        swept = run(tasks, pool, journal=journal)
    after = [line.split()[0] for line in counting.marks(ran)[begun:]]
    assert swept.reused == len(finished) and set(swept.answers) == set(names)
    assert sorted(after) == sorted(name for key, name in names.items() if key not in finished)
    assert {key: swept.answers[key] for key in finished} == finished
    whole = run(counting.sweep_tasks(tmp_path / "undisturbed"), pool)
    assert counting.answers(swept) == {key: counting.repeatable(data) for key, data in whole.answers.items()}
    counted = len(counting.marks(ran))
    with open_journal(path) as journal:
        assert run(tasks, pool, journal=journal).reused == len(tasks)
    assert len(counting.marks(ran)) == counted


def test_a_journal_that_was_tampered_with_is_not_believed(pool: Pool, tmp_path: Path) -> None:
    path, tasks = tmp_path / "sweep.jsonl", counting.sweep_tasks(tmp_path / "ran", seeds=(1,), shares=(0.9,))
    with open_journal(path) as journal:
        data = next(iter(run(tasks, pool, journal=journal).answers.values()))
    path.write_text(path.read_text().replace(f'"cost":{data["cost"]}', f'"cost":{data["cost"] - 1}'))
    with (
        open_journal(path) as journal,
        pytest.raises(FormatError, match="is wrong: the schedule has peak"),
    ):
        run(tasks, pool, journal=journal)
