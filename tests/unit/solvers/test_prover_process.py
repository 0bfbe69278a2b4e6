"""The prover in its process: as good as the prover itself, replaced when it dies, gone when closed."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from random import Random

import numpy as np
import psutil
import pytest

from checkmate.errors import SolverCrashedError, WorkerDiedError
from checkmate.ir import Graph
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.pathcut import in_thread
from checkmate.solvers.pathcut.in_process import BackgroundProver, ProverProcess, ProverState
from checkmate.solvers.pathcut.in_thread import SMALL, ProverThread, background_prover
from checkmate.solvers.pathcut.prover import ProofListener, Prover
from tests.generated_graphs import random_dag, training_dag
from tests.graphs_strategies import random_graph, training_chain
from tests.oracles import optimum
from tests.unit.solvers.test_local_search import peak_of

pytestmark = pytest.mark.heavy  # processes that are killed and start again

STALL_S = 30.0  # only a prover that never answers waits so long
KINDS: list[Callable[[Graph], BackgroundProver]] = [ProverProcess, ProverThread]
both = pytest.mark.parametrize("kind", KINDS, ids=["process", "thread"])


def until(condition: Callable[[], bool]) -> bool:
    """Return whether ``condition`` becomes true before it counts as a stall."""
    end = time.monotonic() + STALL_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def outcome(prover: BackgroundProver) -> ProverState:
    assert until(lambda: prover.state().over), "the job never ended"
    return prover.state()


@cache  # graphs are told apart by identity; those of this file stay
def prove_here(graph: Graph, budget: int) -> Prover:
    prover = Prover(graph, budget)
    prover.run(ProofListener(), until=time.perf_counter() + STALL_S)
    return prover


def budgets_of(graph: Graph) -> list[int]:
    low, high = working_set_bound(graph).bytes, peak_of(graph)
    return sorted({max(0, low - 1), low, (low + high) // 2, max(low, high - 1)})


def child_of(prover: ProverProcess) -> psutil.Process:
    assert prover._talk is not None
    return psutil.Process(prover._talk.child.pid)


@pytest.fixture
def left_nothing() -> Iterator[None]:
    """Check that no child, not even a dead one, and no thread stays."""
    children, threads = set(psutil.Process().children()), set(threading.enumerate())
    yield
    assert until(lambda: set(psutil.Process().children()) <= children), psutil.Process().children()
    assert until(lambda: set(threading.enumerate()) <= threads), threading.enumerate()


CHAIN = training_chain(4)  # 30 bytes: infeasible, 40: 9, 50 and more: 8
GRAPHS = [CHAIN, training_dag(3, 4), random_dag(5, 9, extras=True)]


@both
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_the_bound_equals_that_of_the_prover_itself(
    kind: Callable[[Graph], BackgroundProver], graph: Graph, left_nothing: None
) -> None:
    with kind(graph) as prover:
        assert prover.state() == ProverState(graph.base_cost, 0, 0, over=True)
        for budget in budgets_of(graph):
            prover.prove(budget, seconds=STALL_S)
            state, own = outcome(prover), prove_here(graph, budget)
            assert (state.bound, state.cuts, state.programs) == (own.bound, own.cuts, own.rounds)


@pytest.mark.parametrize(("kind", "graphs"), [*zip(KINDS, (3, 40), strict=True)], ids=["process", "thread"])
def test_never_above_the_optimum(
    kind: Callable[[Graph], BackgroundProver], graphs: int, left_nothing: None
) -> None:
    for seed in range(graphs):
        graph = random_graph(Random(seed), most_ops=4)
        with kind(graph) as prover:
            for budget in budgets_of(graph):
                exact = optimum(graph, budget)
                prover.prove(budget, seconds=STALL_S)
                assert outcome(prover).bound <= (math.inf if exact is None else exact.cost * (1 + 1e-9))


@both
def test_the_same_budget_goes_on_where_it_was(kind: Callable[[Graph], BackgroundProver]) -> None:
    with kind(CHAIN) as prover:
        prover.prove(40, seconds=STALL_S)
        first = outcome(prover)
        prover.prove(40, seconds=0.0)
        assert outcome(prover) == first and first.programs > 0


@both
def test_the_newest_budget_wins(kind: Callable[[Graph], BackgroundProver], left_nothing: None) -> None:
    graph = CHAIN
    own = {budget: prove_here(graph, budget).bound for budget in (30, 40, 50)}
    assert len(set(own.values())) == 3
    with kind(graph) as prover:
        for budget in (30, 40, 30, 50, 40):
            prover.prove(budget, seconds=STALL_S)
        assert outcome(prover).bound == own[40]
        # A job that ended long ago does not come back either.
        prover.prove(30, seconds=STALL_S)
        outcome(prover)
        prover.prove(50, seconds=STALL_S)
        assert until(lambda: prover.state().over) and prover.state().bound == own[50]


@both
def test_a_large_bound_is_never_heard_as_one_for_a_larger_budget(
    kind: Callable[[Graph], BackgroundProver],
) -> None:
    graph, random = CHAIN, Random(1)
    own = {budget: prove_here(graph, budget).bound for budget in range(30, 60, 10)}
    with kind(graph) as prover:
        prover.start()
        for _ in range(8):
            budget = random.choice(list(own))
            prover.prove(budget, seconds=STALL_S)
            end = time.monotonic() + random.uniform(0, 0.04)
            while time.monotonic() < end:
                assert prover.state().bound <= own[budget]
        assert outcome(prover).bound == own[budget]


@both
def test_after_stop_it_is_over_and_reports_nothing_more(
    kind: Callable[[Graph], BackgroundProver], left_nothing: None
) -> None:
    graph = training_chain(40)
    with kind(graph) as prover:
        prover.stop()
        assert prover.state().over
        prover.prove(peak_of(graph) // 3, seconds=STALL_S)
        assert until(lambda: prover.state().bound > graph.base_cost)
        prover.stop()
        before = prover.state()
        assert before.over
        prover.take_schedules()
        again = prover.state()
        assert again.over and again.bound == before.bound
        assert not prover.has_schedules() and prover.take_schedules() == []
        prover.stop()
        prover.prove(peak_of(graph), seconds=0.5)
        assert outcome(prover).bound == graph.base_cost


@both
def test_returned_schedules_belong_to_their_job(
    kind: Callable[[Graph], BackgroundProver],
) -> None:
    graph = CHAIN
    with kind(graph) as prover:
        prover.prove(40, seconds=STALL_S)
        outcome(prover)
        assert prover.has_schedules()
        found = prover.take_schedules()
        assert found and not prover.has_schedules() and prover.take_schedules() == []
        assert all(steps.dtype == np.int32 and set(steps.tolist()) <= set(range(graph.n)) for steps in found)
        prover.prove(40, seconds=STALL_S)
        outcome(prover)
        prover.prove(peak_of(graph), seconds=0.0)
        assert not prover.has_schedules()


@both
def test_a_known_schedule_changes_no_bound(kind: Callable[[Graph], BackgroundProver]) -> None:
    graph, budget = CHAIN, 40
    with kind(graph) as prover:
        prover.offer(np.arange(graph.n, dtype=np.int32))  # before any job
        prover.prove(budget, seconds=STALL_S)
        # it does not fit, and the prover must handle that
        prover.offer(np.arange(graph.n, dtype=np.int32))
        assert outcome(prover).bound == prove_here(graph, budget).bound


def test_a_killed_child_is_reported_once_and_the_next_job_works(left_nothing: None) -> None:
    graph = training_chain(40)
    with ProverProcess(graph) as prover:
        prover.prove(peak_of(graph) // 3, seconds=STALL_S)
        assert until(lambda: prover.state().bound > graph.base_cost)
        os.kill(child_of(prover).pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError, match="ended") as caught:
            until(lambda: prover.state().over)
        assert caught.value.hint
        assert prover.state().over  # nobody works on it any more
        prover.offer(np.arange(graph.n, dtype=np.int32))
        prover.stop()
        prover.prove(peak_of(graph), seconds=0.5)
        assert outcome(prover).bound == graph.base_cost


def test_a_child_killed_while_idle_is_replaced_and_not_reported_to_the_next_job(
    left_nothing: None,
) -> None:
    graph = CHAIN
    with ProverProcess(graph) as prover:
        prover.prove(40, seconds=STALL_S)
        bound = outcome(prover).bound
        child = child_of(prover)
        os.kill(child.pid, signal.SIGKILL)
        assert until(lambda: (prover._hear() or prover._talk) is None) and not child.is_running()
        prover.prove(40, seconds=STALL_S)
        assert outcome(prover).bound == bound


def test_a_child_killed_again_and_again_leaves_nothing(left_nothing: None) -> None:
    prover = ProverProcess(training_chain(5))
    for _ in range(2):
        prover.prove(40, seconds=STALL_S)
        os.kill(child_of(prover).pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError):
            until(lambda: prover.state().over)
    prover.close()


def test_start_makes_one_child_and_close_ends_it(left_nothing: None) -> None:
    graph = CHAIN
    prover = ProverProcess(graph)
    before = set(psutil.Process().children())
    prover.start()
    prover.start()
    assert len(set(psutil.Process().children()) - before) == 1
    child = child_of(prover)
    prover.prove(40, seconds=STALL_S)
    outcome(prover)
    assert child_of(prover) == child
    prover.close()
    assert not child.is_running()
    prover.close()
    prover.stop()
    assert prover.state().over


def test_close_in_the_middle_of_a_job(left_nothing: None) -> None:
    graph = training_chain(300)
    for kind in KINDS:
        prover = kind(graph)
        prover.prove(peak_of(graph) // 4, seconds=STALL_S)
        prover.close()
        assert prover.state().over


def test_close_before_the_first_job(left_nothing: None) -> None:
    for kind in KINDS:
        with kind(training_chain(3)) as prover:
            pass
        assert prover.state().over


def test_a_child_that_does_not_leave_an_old_job_is_replaced(left_nothing: None) -> None:
    graph = training_chain(40)
    with ProverProcess(graph) as prover:
        prover.prove(peak_of(graph) // 3, seconds=STALL_S)
        assert until(lambda: prover.state().bound > graph.base_cost)
        child = child_of(prover)
        child.suspend()
        prover.prove(peak_of(graph), seconds=0.5)
        assert outcome(prover).bound == graph.base_cost
        assert child_of(prover) != child and not child.is_running()


def test_a_prover_that_fails_in_its_thread_says_so_once(
    monkeypatch: pytest.MonkeyPatch, left_nothing: None
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise ZeroDivisionError("by nothing")

    with ProverThread(training_chain(3)) as prover:
        with monkeypatch.context() as patched:
            patched.setattr(in_thread.Prover, "run", fail)
            prover.prove(30, seconds=STALL_S)
            with pytest.raises(SolverCrashedError, match="ZeroDivisionError: by nothing"):
                until(lambda: prover.state().over and False)
        assert prover.state().over
        prover.prove(30, seconds=STALL_S)
        assert outcome(prover).bound == prove_here(training_chain(3), 30).bound


def test_several_provers_at_once_in_one_process(left_nothing: None) -> None:
    """Test small ones, which are threads of this process. Other solves run in it too."""
    graph = CHAIN
    with ProverThread(graph) as first, ProverThread(graph) as second:
        for prover, budget in ((first, 40), (second, 50)):
            prover.prove(budget, seconds=STALL_S)
        own = prove_here(graph, 40).bound
        assert outcome(first).bound == own
        assert outcome(second).bound == prove_here(graph, 50).bound


def test_small_graphs_need_no_process() -> None:
    assert isinstance(background_prover(training_chain(SMALL // 2)), ProverThread)
    assert isinstance(background_prover(training_chain(SMALL // 2 + 1)), ProverProcess)
