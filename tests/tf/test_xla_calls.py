"""Test functions that XLA compiles.

They have no line in the profile, but their time and memory must still be counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkmate.backends.tf.allocator.learn import learned_workspace, with_workspace
from checkmate.backends.tf.costs import session
from checkmate.backends.tf.node_times import node_seconds, unnamed_calls
from checkmate.backends.tf.profiler import OpRun, StepTrace
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.tf.allocator.test_replay import traced
from tests.tf.requested import predicted_requested

SMALL = Path(__file__).with_name("small_models.py")
CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def grouped() -> FoldedStep:
    request = ModelRequest(f"{SMALL}:grouped", 16, device="cpu", allow_code=True)
    return session.prepare(request, report=silent, cancelled=never)


def calling(folded: FoldedStep) -> set[int]:
    ops = folded.structure.ops
    return {
        node
        for node, members in enumerate(folded.nodes)
        if any(ops[member].type in CALLS for member in members)
    }


def test_the_time_and_the_scratch_of_compiled_calls_are_theirs() -> None:
    folded = grouped()
    steps = list(range(folded.graph.n))
    traces = traced(folded, steps, runs=2)
    calls = calling(folded)
    assert len(calls) >= 4  # forward and backward
    seconds = node_seconds(folded, traces[0], steps)
    assert min(seconds[node] for node in calls) > max(seconds[node] for node in set(steps) - calls)
    learned = learned_workspace(folded, traces)
    assert set(learned) <= calls
    graph = with_workspace(folded.graph, learned)
    assert predicted_requested(folded, graph, steps) == pytest.approx(traces[0].requested_peak, rel=0.03)


def test_calls_of_a_schedule_that_recomputes_are_found_at_every_execution() -> None:
    folded = grouped()
    steps = list(range(folded.graph.n))
    first = min(calling(folded))
    steps.insert(first + 2, first)
    (trace,) = traced(folded, steps)
    found = [steps[call.position] for call in unnamed_calls(folded, trace, steps)]
    assert found.count(first) == 2 and set(found) == calling(folded)


def step_of(*types: Sequence[str]) -> Any:
    """Return a step of nodes with ops of these types, named after them."""
    ops: list[Any] = []
    nodes = []
    for members in types:
        nodes.append(tuple(range(len(ops), len(ops) + len(members))))
        ops += [
            SimpleNamespace(name=f"model/{kind}_{len(ops) + n}", type=kind) for n, kind in enumerate(members)
        ]
    return SimpleNamespace(structure=SimpleNamespace(ops=ops), nodes=nodes)


def trace_of(*runs: tuple[str, int, int]) -> StepTrace:
    return StepTrace(tuple(OpRun(name, begin, end) for name, begin, end in runs), ())


def test_several_calls_in_a_row_share_their_time() -> None:
    step = step_of(("Relu",), ("PartitionedCall",), ("PartitionedCall", "BiasAdd"), ("Relu",))
    trace = trace_of(("step0/a/Relu", 100, 200), ("step2/c/BiasAdd", 600, 650), ("step3/d/Relu", 650, 700))
    assert unnamed_calls(step, trace, range(4)) == [(1, 200, 400), (2, 400, 600)]


def test_the_last_call_ends_where_the_step_s_end_begins() -> None:
    step = step_of(("Relu",), ("PartitionedCall",))
    trace = trace_of(("end/ReadVariableOp", 50, 60), ("step0/a/Relu", 100, 200), ("end/AssignSub", 900, 950))
    assert unnamed_calls(step, trace, range(2)) == [(1, 200, 900)]


def test_the_first_call_begins_with_what_it_runs_inside() -> None:
    step = step_of(("PartitionedCall",), ("Relu",))
    trace = trace_of(("step0/a/ReadVariableOp", 100, 110), ("step1/b/Relu", 500, 600))
    assert unnamed_calls(step, trace, range(2)) == [(0, 100, 500)]


def test_a_named_call_and_an_unknown_one() -> None:
    step = step_of(("PartitionedCall",), ("Relu",))
    named = trace_of(("step0/a/PartitionedCall/inside", 100, 400), ("step1/b/Relu", 500, 600))
    assert unnamed_calls(step, named, range(2)) == []
    ((position, begin, end),) = unnamed_calls(step, trace_of(), range(2))
    assert position == 0 and begin == end
