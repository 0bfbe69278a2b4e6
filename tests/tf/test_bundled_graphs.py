"""Test that the bundled graphs are today's steps of the samples.

Their schedules must hold on a device with other kernels too."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from checkmate.backends.tf.allocator.learn import step_fingerprint
from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.emit.other_trace import for_traced_step
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.catalog.bundled import find_graph, graph_files
from checkmate.errors import OtherStepError
from checkmate.formats import read_any_graph
from checkmate.ir import Graph, SolveResult
from checkmate.memory.check import check
from checkmate.planning import keep_everything_peak, solve
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from resources.make_graphs import BUILT, NAMES, file_of, request_of

pytestmark = pytest.mark.heavy  # whole samples are traced


def traced(name: str, kernels: Kernels) -> Graph:
    """Return the graph of the sample's step on a CPU with these kernels."""
    asked = replace(request_of(name), device="cpu", kernels=kernels.value)
    return trace_request(asked, report=silent, cancelled=never).graph


def bundled(name: str) -> Graph:
    return read_any_graph(file_of(name))


def solved(graph: Graph, share: float = 0.7) -> SolveResult:
    return solve(graph, int(share * keep_everything_peak(graph)), solver="greedy")


def test_every_bundled_graph_is_made_by_the_script_and_found_by_name() -> None:
    assert [path.name for path in graph_files()] == sorted(file_of(name).name for name in (*NAMES, *BUILT))
    for name in NAMES:
        made = file_of(name)
        found = find_graph(f"{made.name.split('.')[0]}.graph")
        assert found is not None and found.samefile(made)
        assert ModelRequest.from_json(dict(bundled(name).metadata["request"])) == request_of(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_bundled_graph_is_the_sample_s_step(name: str) -> None:
    """Compare the bundled graph with the sample's step. If this fails, the step has changed: make the graphs
    again with ``python -m resources.make_graphs``."""
    graph = bundled(name)
    now = traced(name, Kernels(graph.metadata["kernels"]))
    assert step_fingerprint(graph) == now.fingerprint


@pytest.mark.parametrize("name", ["unet"])
def test_on_another_kind_of_device_the_hint_says_what_to_do(name: str) -> None:
    graph = bundled(name)
    now = traced(name, Kernels.CUDA)  # there a bias gradient is an op of its own
    with pytest.raises(OtherStepError, match="for another kind of device") as raised:
        for_traced_step(now, graph, solved(graph))
    assert f"checkmate run {name}" in raised.value.hint


@pytest.mark.parametrize("kernels", [Kernels.ONEDNN, Kernels.EIGEN], ids=lambda kernels: kernels.value)
@pytest.mark.parametrize("name", ["unet"])
def test_its_schedule_holds_with_any_kernels(name: str, kernels: Kernels) -> None:
    now, graph = traced(name, kernels), bundled(name)
    result = solved(graph)
    here, moved, _ = for_traced_step(now, graph, result)
    assert moved.require_schedule().steps.tolist() == result.require_schedule().steps.tolist()
    moved.require_schedule().require_graph(here)
    assert step_fingerprint(here) == now.fingerprint


def test_if_only_the_rules_differ_the_order_stays_and_its_memory_is_computed_again() -> None:
    graph = bundled("unet")
    result = solved(graph)
    now = traced("unet", Kernels.EIGEN)  # its max pooling keeps nothing for the gradient
    assert now.fingerprint != step_fingerprint(graph) and now.m < graph.m
    here, moved, (note,) = for_traced_step(now, graph, result)
    steps = moved.require_schedule().steps.tolist()
    assert steps == result.require_schedule().steps.tolist() and here.fingerprint == now.fingerprint
    report = check(here, steps)
    assert report.ok and (report.peak_bytes, report.cost) == (moved.peak_bytes, moved.cost)
    assert moved.peak_bytes != result.peak_bytes and moved.cost == pytest.approx(result.cost)
    assert moved.lower_bound is None and "traced again" in note
    assert [op.cost for op in here.ops] == [
        op.cost for op in graph.ops
    ] and here.cost_origin is graph.cost_origin
    assert for_traced_step(graph, graph, result) == (graph, result, ())


def test_another_step_is_refused_with_a_hint() -> None:
    graph = bundled("unet")
    wider = tuple(
        replace(value, bytes=value.bytes + 8, shape=value.shape and (9, *value.shape[1:]))
        for value in graph.values
    )
    asked = {"request": request_of("unet").to_json()}
    other = replace(graph, values=wider, declared_fingerprint=None, metadata=asked)
    result = solved(graph)
    with pytest.raises(OtherStepError, match=r"was made for graph .*not for 'unet'.*has changed") as caught:
        for_traced_step(other, graph, result)
    assert f"checkmate run unet -b 8 --budget {result.budget_bytes} -o out" in caught.value.hint
    assert json.dumps(caught.value.details)
