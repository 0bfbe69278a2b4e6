"""Test that steps of nested functions, loops and branches compute the same by every schedule."""

from __future__ import annotations

import dataclasses
import re
from random import Random

import pytest

from checkmate.backends.tf.environment import EXACT
from checkmate.backends.tf.live.measure import ReadyStep, restored
from checkmate.backends.tf.profiler import trace_run
from checkmate.errors import TraceError
from checkmate.ir import Phase
from checkmate.planning.solving import keep_everything_peak, known_minimum
from tests.nested.hold import HELD, LAYER, PLAIN, LayerStep, PlainStep, outcome
from tests.nested.programs import Part, parsed, random_program
from tests.programs import run_python
from tests.quick_start import QUICK


def test_a_program_is_read_as_it_is_written() -> None:
    for seed in range(50):
        program = random_program(Random(seed))
        assert parsed(str(program)) == program


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize(
    ("program", "kind"),
    [
        pytest.param("residual0(effect6)", PLAIN, id="a default that is computed"),
        pytest.param("then0(scaled0, waiting1)", PLAIN, id="what waits for an argument"),
        pytest.param("then0(scaled0, waiting0)", LAYER, id="what waits for a shape"),
        pytest.param("scan0(cond0(dense0, custom0(act0)))", LAYER, id="three deep"),
        pytest.param("map9(python24(scaled36))", PLAIN, id="a call that returns a variable"),
    ],
)
def test_what_once_broke_holds(program: str, kind: str) -> None:
    assert outcome(parsed(program), kind) == HELD


def test_a_step_whose_nodes_do_not_read_what_they_need_is_refused_at_folding() -> None:
    folded = PlainStep(Part("dense", 0)).traced()[0].folded
    reader = next(i for i, op in enumerate(folded.graph.ops) if op.inputs)
    ops = list(folded.graph.ops)
    ops[reader] = dataclasses.replace(ops[reader], inputs=(), takes_over=())
    with pytest.raises(
        TraceError, match=r"in the training step of 'step' .* needs .* no schedule would keep"
    ):
        dataclasses.replace(folded, graph=dataclasses.replace(folded.graph, ops=tuple(ops)))


def test_what_a_layer_calls_is_scheduled_op_by_op() -> None:
    graph = LayerStep(parsed("call0(then0(dense0, dense1))")).traced()[0].graph
    assert not any("PartitionedCall" in op.type for op in graph.ops)
    assert all(op.recomputable for op in graph.ops if op.phase is Phase.FORWARD)
    assert known_minimum(graph).bytes < keep_everything_peak(graph)


@pytest.mark.parametrize(
    "program",
    ["cond0(act0, then0(dense0, then0(dense1, dense2)))", "map0(while0(dense0))", "while0(while0(act0))"],
)
def test_what_loops_and_branches_inside_others_keep_is_counted(program: str) -> None:
    step = PlainStep(parsed(program))
    found, tensors = step.traced()
    ready = ReadyStep(found, found.everything)
    with restored(step.variables):
        ready.run(tensors)
        requested = trace_run(lambda: ready.run(tensors)[0].numpy(), device="cpu").requested_peak
    predicted = keep_everything_peak(found.graph) - found.graph.fixed_bytes
    assert 0.8 * predicted <= requested <= 1.03 * predicted


def tried(first: int, count: int) -> dict[str, int]:
    said = run_python("-m", "tests.nested", first, count, **EXACT, **QUICK).stdout.splitlines()[-1]
    return {what: int(number) for number, what in re.findall(r"(\d+) ([a-z ]+)", said)}


@pytest.mark.heavy
@pytest.mark.whole
def test_ten_programs() -> None:
    assert tried(0, 10)[HELD] >= 5


@pytest.mark.long
def test_hundreds_of_programs() -> None:
    found = tried(1000, 300)
    assert sum(found.values()) == 300 and found[HELD] >= 150
