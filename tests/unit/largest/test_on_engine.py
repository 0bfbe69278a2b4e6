from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkmate.errors import CancelledError, NoScheduleError, UsageError
from checkmate.graphs.paper import find_network
from checkmate.ir import Graph
from checkmate.largest.batch import MaxBatch, max_batch
from checkmate.largest.on_engine import BatchTask, max_batches_on
from checkmate.largest.scaling import BatchScaling
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.problem import SolveOptions
from checkmate.sweeps.engine import Engine, Pool, open_pool
from checkmate.sweeps.journal import open_journal
from checkmate.sweeps.run import Data
from tests.graphs_strategies import training_chain

OPTIONS = SolveOptions(time_limit_s=20.0)  # all of these are proved long before
BUDGET = 800


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    load_kernels()
    with open_pool(Engine(count=2)) as opened:
        yield opened


@pytest.fixture(scope="module")
def answer() -> tuple[BatchTask, Data]:
    task = BatchTask(BatchScaling(chain(6)), BUDGET, None, OPTIONS)
    return task, task.work()


class NoPool(Pool):
    def _room(self) -> int:
        return 1

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Any:
        raise AssertionError("all of it is in the journal")

    def is_loss(self, error: BaseException) -> bool:
        return False

    def close(self, *, at_once: bool) -> None:
        pass


def chain(length: int, batch: int = 4) -> Graph:
    return replace(training_chain(length, bytes_=12), batch_size=batch)


def told(found: Any) -> dict[str, Any]:
    assert isinstance(found, MaxBatch) and found.proved
    return {
        "batch": found.batch,
        "upper": found.upper_batch,
        "plain": found.plain_batch,
        "limit": found.cost_limit,
    }


@pytest.mark.parametrize("overhead", [None, math.inf])
def test_the_same_batches_as_in_one_process(pool: Pool, overhead: float | None) -> None:
    steps = [BatchScaling(chain(4)), BatchScaling(chain(6)), BatchScaling(chain(4, 2))]
    found = max_batches_on(steps, BUDGET, pool, max_overhead=overhead, options=OPTIONS)
    here = [max_batch(step, BUDGET, max_overhead=overhead, options=OPTIONS) for step in steps]
    assert list(map(told, found)) == list(map(told, here))
    for one, step in zip(found, steps, strict=True):
        assert (
            isinstance(one, MaxBatch)
            and one.scaling is step
            and one.at_once == 2
            and one.graph.batch_size == one.batch
        )


def test_a_step_traced_at_two_batches_travels_too(pool: Pool) -> None:
    scaling = BatchScaling(chain(6, 4), larger=replace(BatchScaling(chain(6, 4)).at(6), metadata={}))
    (found,) = max_batches_on([scaling], BUDGET, pool, options=OPTIONS)
    assert told(found) == told(max_batch(scaling, BUDGET, options=OPTIONS))


def test_answers_in_the_journal_are_not_searched_for_again(pool: Pool, tmp_path: Path) -> None:
    steps, path = [BatchScaling(chain(4)), BatchScaling(chain(6))], tmp_path / "sweep.jsonl"
    with open_journal(path) as journal:
        first = max_batches_on(steps, BUDGET, pool, options=OPTIONS, journal=journal)
    with open_journal(path) as journal:
        again = max_batches_on(steps[::-1], BUDGET, NoPool(None), options=OPTIONS, journal=journal)
        assert list(map(told, again))[::-1] == list(map(told, first))
        with pytest.raises(AssertionError, match="in the journal"):
            max_batches_on(steps, BUDGET + 1, NoPool(None), options=OPTIONS, journal=journal)


def test_no_schedule_is_an_answer(pool: Pool) -> None:
    found = max_batches_on([BatchScaling(chain(5)), BatchScaling(chain(9))], 5, pool, options=OPTIONS)
    assert all(isinstance(one, NoScheduleError) and one.exit_code == 3 for one in found)
    assert "needs by itself" in str(found[0])
    (stopped,) = max_batches_on(
        [BatchScaling(chain(5))], BUDGET, NoPool(None), options=OPTIONS, cancelled=lambda: True
    )
    assert isinstance(stopped, CancelledError)
    with pytest.raises(UsageError, match="less than computing everything once"):
        max_batches_on([BatchScaling(chain(5))], BUDGET, pool, max_overhead=-0.1, options=OPTIONS)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"batch": 10**4}, "does not hold"),
        ({"upper_batch": 1}, "contradict"),
        ({"plain_batch": 10**4}, "contradict"),
        ({"steps": [0, 1]}, "does not hold"),
        ({"batch": None}, "no largest batch"),
        ({"baselines": {"griewank": 10**4}}, "contradict"),
    ],
)
def test_an_answer_is_checked_on_arrival(
    answer: tuple[BatchTask, Data], change: dict[str, Any], wrong: str
) -> None:
    task, data = answer
    assert task.wrong(data) == ""
    assert wrong in task.wrong({**data, **change})
    assert "no largest batch" in task.wrong({})


def test_a_schedule_above_the_cost_limit_does_not_count(answer: tuple[BatchTask, Data]) -> None:
    assert "more than" in BatchTask(BatchScaling(chain(6)), BUDGET, 0.0, OPTIONS).wrong(answer[1])


def test_the_papers_network_is_as_large_on_an_engine(pool: Pool) -> None:
    (found,) = max_batches_on(
        [BatchScaling(find_network("vgg19").graph())], 16 * 10**9, pool, options=OPTIONS
    )
    assert told(found)["batch"] == told(found)["upper"] == 289
