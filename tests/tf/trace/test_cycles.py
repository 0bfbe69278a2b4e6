"""Test that TensorFlow's passes merge no ops across the emitted order.

No schedule may make a cycle, change a result or move an op."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.outcomes import relative_error, total_norm
from checkmate.backends.tf import private
from checkmate.backends.tf.devices import Kernels, kernels_here
from checkmate.backends.tf.emit.ordered import PAIRED_TYPES, Gates
from checkmate.backends.tf.emit.saved_model import save_step
from checkmate.backends.tf.emit.side_by_side import in_turn, side_by_side
from checkmate.backends.tf.measure.concrete import compiled_step, run_step
from checkmate.backends.tf.measure.step import sum_rounding
from checkmate.backends.tf.profiler import StepTrace, trace_run
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.backends.tf.trace.op_kinds import is_view
from checkmate.backends.tf.verification_report import gradients_equal
from checkmate.errors import CycleError, JitCompiledError
from checkmate.ir import Graph, Schedule
from checkmate.memory.check import check
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.tf.fusable_models import ALL
from tests.tf.orders import (
    by_priority,
    closure,
    far_apart,
    pairs,
    producers,
    random_steps,
    reversed_order,
    with_recomputations,
)
from tests.tf.schedules import keep_everything, recompute_forward
from tests.tf.task_process import TaskProcess

MODELS = Path(__file__).parents[1].joinpath("fusable_models.py")
FIRST = ("standardised", "shared_gradient")  # with more random orders than the others


def request_for(name: str) -> ModelRequest:
    return ModelRequest(f"{MODELS}:{name}", batch_size=8, device="cpu", allow_code=True)


@functools.cache
def folded_step(name: str) -> FoldedStep:
    return trace_request(request_for(name), report=silent, cancelled=never)


def assert_same_results(folded: FoldedStep, schedules: Iterable[list[int]]) -> int:
    """Run each schedule with default kernels and passes; return their number."""
    batch = folded.traced.loaded.make_batch()
    saved = [variable.numpy() for variable in folded.traced.variables]

    def run(steps: list[int] | None) -> tuple[float, list[np.ndarray], list[np.ndarray]]:
        for variable, value in zip(folded.traced.variables, saved, strict=True):
            variable.assign(value)
        loss, _, gradients = run_step(compiled_step(folded, steps, with_gradients=True), batch)
        after = [variable.numpy() for variable in folded.traced.variables]
        return float(loss), [tensor.numpy() for group in gradients for tensor in group], after

    loss, reference, state = run(None)
    scale = total_norm(reference)
    count = 0
    for steps in schedules:
        assert check(folded.graph, steps).valid
        found_loss, found, found_state = run(steps)
        # Kernels that fuse round differently; a moved or stale op is off by far more.
        assert found_loss == pytest.approx(loss, rel=1e-4), steps
        assert max(relative_error(a, b, scale) for a, b in zip(found, reference, strict=True)) < 1e-3, steps
        assert all(
            np.allclose(a, b, rtol=1e-2, atol=2e-3) for a, b in zip(found_state, state, strict=True)
        ), steps
        count += 1
    return count


def provocations(graph: Graph, seed: int, randoms: int, torn: int) -> Iterator[list[int]]:
    random = Random(seed)
    yield recompute_forward(graph).steps.tolist()
    yield reversed_order(graph)
    yield with_recomputations(graph, reversed_order(graph), random, 1.0)
    for _ in range(randoms):
        yield random_steps(graph, random)
    for first, second in random.sample(pairs(graph), min(torn, len(pairs(graph)))):
        yield from far_apart(graph, first, second)


def kernel_between(graph: Graph) -> list[int]:
    """Return an order with the kernel between padding and convolution. What is padded, the padding, the
    kernel and the convolution stand side by side in it. oneDNN's pass merges the padding and the convolution
    around the kernel, because each reads all of the step before and so keeps no control edge that would tell
    them apart."""
    pad = next(op for op in range(graph.n) if graph.ops[op].type == "Pad")
    convolution = next(op for op in range(graph.n) if pad in producers(graph)[op])
    (kernel,) = producers(graph)[convolution] - {pad}
    (image,) = producers(graph)[pad]
    priority = [float(op) for op in range(graph.n)]
    for op in closure(kernel, producers(graph)):
        priority[op] -= 3.0 * graph.n
    for place, op in enumerate((image, pad, kernel, convolution)):
        priority[op] = place / 4 - 2.0 * graph.n
    order = by_priority(graph, priority)
    at = order.index(image)
    assert order[at : at + 4] == [image, pad, kernel, convolution]
    return order


def test_padding_and_convolution_around_a_computed_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = folded_step("standardised")
    order = kernel_between(folded.graph)
    assert_same_results(folded, [order])
    # The order provokes the merges that the gates prevent.
    monkeypatch.setattr(Gates, "read", lambda self, tensor: tensor)
    monkeypatch.setattr(Gates, "waits", lambda self, inputs: False)
    onednn = kernels_here("cpu") is Kernels.ONEDNN
    with pytest.raises(CycleError, match="cycle") if onednn else nullcontext():
        run_step(compiled_step(in_turn(folded), order), folded.traced.loaded.make_batch())


@pytest.mark.parametrize(
    ("name", "randoms", "torn", "least"),
    [
        ("standardised", 2, 1, 6),
        pytest.param("shared_gradient", 2, 1, 6, marks=pytest.mark.heavy),
        *(pytest.param(name, 0, 1, 4, marks=pytest.mark.heavy) for name in ALL if name not in FIRST),
        *(pytest.param(name, 5, 4, 12, marks=pytest.mark.long) for name in ALL),
    ],
)
def test_provocations(name: str, randoms: int, torn: int, least: int) -> None:
    folded = folded_step(name)
    schedules = provocations(folded.graph, seed=5, randoms=randoms, torn=torn)
    assert assert_same_results(folded, schedules) >= least


@pytest.mark.heavy
@pytest.mark.whole
@pytest.mark.parametrize("name", ALL)
def test_provocations_are_bitwise_the_plain_step(name: str, process: TaskProcess) -> None:
    schedules = list(provocations(folded_step(name).graph, seed=7, randoms=1, torn=1))
    task = {
        "do": "compare_each",
        "request": request_for(name).to_json(),
        "schedules": schedules,
        "exact": True,
    }
    answer = process.ask(task)
    assert len(answer) == len(schedules)
    for found in answer:
        # The order in which three or more terms are added depends on what else is in memory.
        assert (found["bitwise"] and found["state_bitwise"]) or found["sum_rounding"] > 0, found["worst"]
        assert gradients_equal({"exact": found}), found


def traced(folded: FoldedStep, steps: list[int]) -> StepTrace:
    function, batch = compiled_step(folded, steps), folded.traced.loaded.make_batch()
    run_step(function, batch)
    return trace_run(lambda: run_step(function, batch)[0].numpy(), device="cpu")


@pytest.mark.parametrize(("name", "least"), [("standardised", 1), ("convolutions", 8)])
def test_every_step_starts_when_those_it_waits_for_have_ended(name: str, least: int) -> None:
    """Recomputations are included."""
    folded = folded_step(name)
    # TensorFlow leaves out ops that nobody reads. Here every recomputation has a reader.
    order = recompute_forward(folded.graph).steps.tolist()
    names = [{folded.structure.ops[op].name.rpartition("/")[2] for op in members} for members in folded.nodes]
    spans: dict[int, tuple[int, int]] = {}
    for run in traced(folded, order).runs:
        found = re.fullmatch(r"step(\d+)/.*?/(.*)", run.name)
        # Light ops, such as reads of variables, run when they can.
        if found and found[2] in names[order[position := int(found[1])]]:
            begun, ended = spans.get(position, (run.start_ps, run.end_ps))
            spans[position] = min(begun, run.start_ps), max(ended, run.end_ps)
    repeated = [place for place, op in enumerate(order) if op in order[:place]]
    assert len(spans) >= 0.7 * len(order) and len(spans.keys() & set(repeated)) >= least
    waits_for = side_by_side(folded, Schedule.of(folded.graph, order)).waits_for
    assert waits_for[-1] > 0 and any(first < position for position, first in enumerate(waits_for))
    for later, earlier in ((later, earlier) for later in spans for earlier in spans):
        if earlier < waits_for[later]:
            assert spans[later][0] >= spans[earlier][1], (earlier, later)


@pytest.mark.heavy
def test_loops_and_branches_are_single_ops_of_the_schedule() -> None:
    folded = folded_step("control_flow")
    structure = folded.structure
    calling = {i for i in structure.heavy if {"body", "then_branch"} & set(structure.ops[i].node_def.attr)}
    assert {structure.ops[i].type for i in calling} >= {"While", "If"} or len(calling) >= 6
    order = random_steps(folded.graph, Random(2))
    function = compiled_step(folded, order)
    emitted = [
        op for op in function.graph.get_operations() if {"body", "then_branch"} & set(op.node_def.attr)
    ]
    assert len(emitted) == sum(len(calling & set(folded.nodes[node])) for node in order)
    # A loop that may have side effects is there once.
    once = [i for i in calling if private.is_stateful(structure.ops[i])]
    assert all(order.count(folded.node_of[i]) == 1 for i in once)


def waited_for(op: tf.Operation, waits_for: Sequence[int]) -> int | None:
    """Return how many steps end before ``op`` starts; None: it belongs to no step."""
    found = re.match(r"(?:step(\d+)|end)/", op.name)
    return found and (len(waits_for) if found[1] is None else waits_for[int(found[1])])


def fixed(op: tf.Operation) -> bool:
    """Whether ``op`` looks at constants, parameters and inputs only, which are there all the time."""
    if op.type in ("Const", "Placeholder", "ReadVariableOp"):
        return True
    return bool(op.inputs) and all(fixed(tensor.op) for tensor in op.inputs)


@pytest.mark.parametrize("turns", [True, False])
@pytest.mark.parametrize("name", ["shared_gradient", "products"])
def test_nothing_that_passes_could_merge_is_adjacent_across_steps(name: str, turns: bool) -> None:
    """Check that what steps read that were waited for comes through a gate. Otherwise its reader must keep a
    control edge to what it waits for."""
    folded = in_turn(folded_step(name)) if turns else folded_step(name)
    schedule = Schedule.of(folded.graph, random_steps(folded.graph, Random(4)))
    function = compiled_step(folded, schedule.steps.tolist())
    waits_for = side_by_side(folded, schedule).waits_for
    gates = 0
    for op in function.graph.get_operations():
        step = waited_for(op, waits_for)
        if step is None or op.type in PAIRED_TYPES:
            continue
        gates += op.type == "PlaceholderWithDefault"
        for tensor in op.inputs:
            crossing = waited_for(tensor.op, waits_for) not in (None, step) and tensor.dtype.is_floating
            passes = op.type == "PlaceholderWithDefault" or is_view(op)
            if crossing and not passes and not fixed(tensor.op):
                ends = {each.name for each in op.control_inputs if waited_for(each, waits_for) != step}
                assert ends, (op.name, tensor.name)
    assert gates > 10


def test_xla_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folded = folded_step("standardised")
    loaded = dataclasses.replace(folded.traced.loaded, jit_compiled=True)
    step = dataclasses.replace(folded.structure, traced=dataclasses.replace(folded.traced, loaded=loaded))
    with pytest.raises(JitCompiledError, match=r"is for XLA \(jit_compile=True\), and this") as caught:
        save_step(
            dataclasses.replace(folded, structure=step), keep_everything(folded.graph), tmp_path / "saved"
        )
    assert 'target="executor"' in str(caught.value.hint)
    assert not (tmp_path / "saved").exists()


def test_only_sums_of_three_or_more_may_round_differently() -> None:
    with tf.Graph().as_default() as graph:
        terms = [tf.compat.v1.placeholder(tf.float32, (2,)) for _ in range(3)]
        tf.add_n(terms[:2])
        assert sum_rounding(graph.get_operations()) == 0.0
        tf.add_n(terms)
        assert sum_rounding(graph.get_operations()) == 2.0**-20
    with tf.Graph().as_default() as graph:
        start = tf.compat.v1.placeholder(tf.float32, (2,))
        tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.add_n([x, x, x])), (0, start))
        assert sum_rounding(graph.get_operations()) == 2.0**-20
    near = {"bitwise": False, "overall_relative_error": 1e-7, "plain_rerun_relative_error": 0.0}
    worst = {"worst": {"name": "bias", "relative_error": 1e-4}}
    assert gradients_equal({"exact": {**near, **worst, "sum_rounding": 2.0**-20}})
    assert not gradients_equal({"exact": {**near, **worst, "sum_rounding": 0.0}})
    assert not gradients_equal(
        {"exact": {**near, **worst, "overall_relative_error": 1e-5, "sum_rounding": 2.0**-20}}
    )
