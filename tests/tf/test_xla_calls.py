"""Test functions that XLA compiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkmate.backends.tf.allocator.learn import learned_workspace, with_workspace
from checkmate.backends.tf.node_times import node_seconds, unnamed_calls
from checkmate.backends.tf.profiler import OpRun, StepTrace
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.tf.allocator.test_replay import traced
from tests.tf.requested import predicted_requested

SMALL = Path(__file__).with_name("small_models.py")
CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def grouped() -> FoldedStep:
    request = ModelRequest(f"{SMALL}:grouped", 16, device="cpu", allow_code=True)
    return trace_request(request, report=silent, cancelled=never)


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
    ops: list[Any] = []
    nodes = []
    for members in types:
        nodes.append(tuple(range(len(ops), len(ops) + len(members))))
        ops += [
            SimpleNamespace(name=f"model/{kind}_{len(ops) + n}", type=kind) for n, kind in enumerate(members)
        ]
    return SimpleNamespace(structure=SimpleNamespace(ops=ops), nodes=nodes)


@pytest.mark.parametrize(
    ("nodes", "runs", "calls"),
    [
        # Several calls in a row share their time.
        (
            (("Relu",), ("PartitionedCall",), ("PartitionedCall", "BiasAdd"), ("Relu",)),
            (("step0/a/Relu", 100, 200), ("step2/c/BiasAdd", 600, 650), ("step3/d/Relu", 650, 700)),
            [(1, 200, 400), (2, 400, 600)],
        ),
        # The last call ends where the step's end begins.
        (
            (("Relu",), ("PartitionedCall",)),
            (("end/ReadVariableOp", 50, 60), ("step0/a/Relu", 100, 200), ("end/AssignSub", 900, 950)),
            [(1, 200, 900)],
        ),
        # The first call begins with what it runs inside.
        (
            (("PartitionedCall",), ("Relu",)),
            (("step0/a/ReadVariableOp", 100, 110), ("step1/b/Relu", 500, 600)),
            [(0, 100, 500)],
        ),
        # A named call, and one of which nothing is known.
        (
            (("PartitionedCall",), ("Relu",)),
            (("step0/a/PartitionedCall/inside", 100, 400), ("step1/b/Relu", 500, 600)),
            [],
        ),
        ((("PartitionedCall",), ("Relu",)), (), [(0, 0, 0)]),
    ],
)
def test_calls_that_the_trace_does_not_name(
    nodes: tuple[Sequence[str], ...],
    runs: tuple[tuple[str, int, int], ...],
    calls: list[tuple[int, int, int]],
) -> None:
    trace = StepTrace(tuple(OpRun(name, begin, end) for name, begin, end in runs), ())
    assert unnamed_calls(step_of(*nodes), trace, range(len(nodes))) == calls
