"""Test loops that are split so that some iterations are recomputed."""

from __future__ import annotations

import re
from functools import lru_cache

import pytest
import tensorflow as tf

from checkmate.backends.tf.costs.profile import compile_step as profiled_step
from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.emit.side_by_side import in_turn, side_by_side
from checkmate.backends.tf.measure.concrete import compiled_step
from checkmate.backends.tf.node_times import position_of
from checkmate.backends.tf.trace import coarsen
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.loops import held_bytes, is_loop, iteration_bytes, loop_lists
from checkmate.ir import Graph, Phase, Schedule
from checkmate.memory.simulate import simulate
from checkmate.planning.solving import solve
from checkmate.request import ModelRequest
from tests.tf.emit.test_exact import assert_exact
from tests.tf.prepared import prepared, request_of
from tests.tf.schedules import recompute_forward
from tests.tf.task_process import TaskProcess

pytestmark = pytest.mark.heavy  # each emits a loop in parts

AS_TRACED = 32  # iterations at once, as Keras has it
PART = re.compile(r"while(?:_\d+)?_(\d+)_of_(\d+)$")
SPLIT = {
    "recurrent": (6, 6),
    "bidirectional": (6, 6, 6),
    "own_loop": (6,),
    "early_end": (6,),
    "writing_loop": (4, 4),
    "nested_loop": (2,),
    "calling_loop": (4,),
}


def request(name: str) -> ModelRequest:
    return request_of("small_models", name, 32)


@lru_cache(maxsize=8)
def folded_model(name: str) -> FoldedStep:
    return prepared(request(name))


def folded_whole(name: str) -> FoldedStep:
    """Return the step with its loops as TensorFlow has them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(coarsen, "with_split_loops", lambda traced: traced)
        return prepared(request(name))


def parts(graph: Graph) -> list[tuple[int, int]]:
    """Return the number of each forward part, and of how many it is one."""
    found = (PART.search(op.name) for op in graph.ops if op.phase is Phase.FORWARD)
    return [(int(each[1]), int(each[2])) for each in found if each]


@pytest.mark.parametrize("name", SPLIT)
def test_a_loop_becomes_parts_that_can_be_recomputed(name: str) -> None:
    graph = folded_model(name).graph
    assert sorted(parts(graph)) == sorted(
        (number + 1, count) for count in SPLIT[name] for number in range(count)
    )
    loops = [op for op in graph.ops if "While" in op.type]
    assert all(op.recomputable for op in loops) and all(op.group for op in loops)
    # As many parts of the gradient, and each name once.
    assert len(loops) == 2 * sum(SPLIT[name]) == len({op.name for op in loops})


def test_what_a_loop_returns_may_leave_the_step() -> None:
    graph = folded_model("ends_in_loop").graph
    (kept,) = (value for value in graph.values if value.keep and "while" in value.name)
    assert "while_6_of_6" in kept.name and kept.bytes == 32 * 128 * 4


def test_a_loop_that_draws_from_a_stateful_generator_runs_once() -> None:
    graph = folded_model("noisy_loop").graph
    (loop,) = (op for op in graph.ops if op.phase is Phase.FORWARD and "While" in op.type)
    assert not parts(graph) and not loop.recomputable


def test_an_unrolled_loop_is_ops_like_others() -> None:
    graph = folded_model("unrolled").graph
    assert not any("While" in op.type for op in graph.ops)
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes
    assert solve(graph, int(0.9 * plain), solver="greedy").schedule is not None


def test_the_least_memory_of_a_recurrent_network_falls() -> None:
    graph, whole = folded_model("recurrent").graph, folded_whole("recurrent").graph
    plain = simulate(whole, Schedule.plain(whole)).peak_bytes
    assert solve(whole, int(0.8 * plain), solver="greedy").schedule is None
    found = solve(graph, int(0.6 * plain), solver="greedy").schedule
    assert found is not None and simulate(graph, found).peak_bytes <= 0.6 * plain


def test_keeping_everything_takes_no_more_than_before() -> None:
    graph, whole = folded_model("recurrent").graph, folded_whole("recurrent").graph
    before, after = (simulate(each, Schedule.plain(each)).peak_bytes for each in (whole, graph))
    assert after <= before


@pytest.mark.parametrize("name", [*SPLIT, "unrolled", "dropout_loop", "conv_recurrent"])
def test_every_kind_of_loop_is_exact(name: str, process: TaskProcess) -> None:
    assert recompute_forward(folded_model(name).graph).recomputations > 0
    assert_exact(request(name), process)


def test_each_loop_waits_for_the_step_before() -> None:
    # TensorFlow takes a loop apart: what reads an input that is there already would run at once.
    folded = folded_model("recurrent")
    steps = recompute_forward(folded.graph).steps.tolist()
    emitted = compiled_step(in_turn(folded), steps).graph.get_operations()
    loops = [op for op in emitted if op.type == "StatelessWhile" and not op.name.startswith("step0/")]
    assert len(loops) >= 24
    assert all(op.control_inputs for op in loops)


def test_what_follows_a_loop_waits_for_all_of_it() -> None:
    # TensorFlow takes a loop apart: one of its outputs may be there while another is still computed.
    folded = folded_model("recurrent")
    steps = recompute_forward(folded.graph).steps.tolist()
    emitted = compiled_step(in_turn(folded), steps).graph.get_operations()
    waited = {
        position_of(control.name): position_of(op.name)
        for op in emitted
        for control in op.control_inputs
        if "While" in control.type and op.type == "NoOp"
    }
    loops = {position_of(op.name) for op in emitted if "While" in op.type}
    assert len(loops) >= 24
    assert waited == {step: step + 1 for step in loops}


def test_a_further_iteration_counts_with_all_that_it_makes() -> None:
    folded = folded_model("recurrent")
    loops = [op for op in folded.structure.ops if is_loop(op)]
    assert len(loops) >= 24
    found = [(iteration_bytes(op, Kernels.EIGEN), held_in_turn(op)) for op in loops]
    assert all(further >= held for further, held in found) and sum(held for _, held in found) > 0


def held_in_turn(op: tf.Operation) -> int:
    return held_bytes(op, Kernels.EIGEN, loop_lists(op, frozenset()), frozenset(range(len(op.inputs))))


def test_iterations_run_side_by_side_where_the_schedule_has_room() -> None:
    folded = folded_model("recurrent")
    graph, schedule = folded.graph, recompute_forward(folded.graph)
    timeline = simulate(graph, schedule)
    loops = ["While" in graph.ops[node].type for node in schedule.steps.tolist()]
    wanted = side_by_side(folded, schedule).iterations
    assert max(wanted) > 1
    for at_once, loop, live in zip(wanted, loops, timeline.live_bytes.tolist(), strict=True):
        assert at_once == 1 or (loop and live < timeline.peak_bytes)
    beside = compiled_step(folded, schedule.steps.tolist()), wanted
    for emitted, at_once in (beside, (profiled_step(folded, schedule), [1] * len(wanted))):
        loops_of = [op for op in emitted.graph.get_operations() if "While" in op.type]
        told = {position_of(op.name): op.get_attr("parallel_iterations") for op in loops_of}
        assert told and all(min(at_once[position], AS_TRACED) == each for position, each in told.items())
