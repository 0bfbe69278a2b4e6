"""Test processes that answer with ops that do not exist."""

from __future__ import annotations

import pytest

from checkmate.errors import SolverCrashedError, WorkerDiedError
from checkmate.processes import conversation
from checkmate.processes.messages import MessageError, pack_steps, unpack_ops
from checkmate.solvers.cpsat import interval_solver as cpsat
from checkmate.solvers.engine import ENGINE_MESSAGES, EngineDone, EngineReady, EngineSteps
from checkmate.solvers.pathcut.in_process import PROVER_MESSAGES, DescribedSchedule, ProverProcess
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from tests.graphs_strategies import training_chain
from tests.unit.solvers.test_prover_process import until

GRAPH = training_chain(8)
WRONG = [[99], [-1], [*range(GRAPH.n), GRAPH.n], [2**31 - 1], [-(2**31)]]
wrong = pytest.mark.parametrize("steps", WRONG, ids=str)


@pytest.fixture
def saying(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes children of a module say some bytes."""

    def say(said: bytes) -> None:
        (tmp_path / "said").write_bytes(said)
        command = ["sh", "-c", f"cat {tmp_path}/said; exec sleep 60"]
        monkeypatch.setattr(conversation, "module_command", lambda name: command)

    return say


@wrong
def test_steps_that_name_no_op_are_no_message(steps: list[int]) -> None:
    with pytest.raises(MessageError, match="names op"):
        unpack_ops(pack_steps(steps), GRAPH.n)
    assert unpack_ops(pack_steps([0, GRAPH.n - 1]), GRAPH.n).tolist() == [0, GRAPH.n - 1]
    assert unpack_ops(b"", GRAPH.n).size == 0


@wrong
def test_a_prover_that_sends_them_is_ended_and_compiled_code_never_sees_them(
    steps: list[int], saying
) -> None:
    saying(PROVER_MESSAGES.encode(DescribedSchedule(1, pack_steps(steps))))
    with ProverProcess(GRAPH) as prover:
        prover.prove(60, seconds=30.0)
        with pytest.raises(WorkerDiedError):
            until(lambda: prover.state().over)
        assert prover.take_schedules() == []


@pytest.mark.parametrize(
    "said",
    [
        b"no frame at all, but long enough",
        ENGINE_MESSAGES.encode(EngineSteps(pack_steps([-1]))),
        ENGINE_MESSAGES.encode(EngineSteps(pack_steps([1000000]))),
        ENGINE_MESSAGES.encode(EngineDone("OPTIMAL", 1.0))[:-1] + b"?" * 40,
    ],
    ids=["no frame", "no op", "a large op", "cut"],
)
def test_an_interval_model_that_sends_what_is_wrong_is_an_error(said: bytes, saying) -> None:
    saying(ENGINE_MESSAGES.encode(EngineReady()) + said)
    problem = Problem(GRAPH, 60)
    with pytest.raises(SolverCrashedError, match="cannot be read"):
        cpsat.IntervalSolver(2).solve(problem, SolveOptions(time_limit_s=20.0), Listener())
