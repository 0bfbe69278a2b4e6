"""Test that a schedule keeps its memory under the layout pass for a GPU (see ``virtual_gpu``)."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from checkmate import SolveOptions
from checkmate.backends.outcomes import relative_error, total_norm
from checkmate.backends.tf import private
from checkmate.backends.tf.costs.profile import analytic_costs
from checkmate.backends.tf.emit.saved_model import save_step
from checkmate.backends.tf.emit.side_by_side import in_turn
from checkmate.backends.tf.live.trace import live_step
from checkmate.backends.tf.measure.concrete import compiled_step, run_step
from checkmate.backends.tf.models.batch import flatten
from checkmate.backends.tf.models.load import load_model
from checkmate.backends.tf.restoring import restored
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir import Device, Schedule
from checkmate.memory.simulate import simulate
from checkmate.planning import solve
from tests.tf.conv_models import ALL
from tests.tf.prepared import prepared, request_of
from tests.tf.schedules import recompute_forward
from tests.tf.virtual_gpu import Rewritten, live_peak, placed, rewritten

CARD = Device("a virtual card", "gpu", 16 * 2**30)
MARK = "_grappler_do_not_remove"
HALF = "mixed_float16"


def heavy(*cases: Any) -> list[Any]:
    """Mark the cases that plain ``pytest`` leaves out."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.heavy)
        for case in cases
    ]


@cache
def scheduled(name: str, policy: str | None = None) -> tuple[FoldedStep, Schedule]:
    """Return the step and a schedule for 55 % of its bytes, or for as near as possible."""
    folded = prepared(request_of("conv_models", name, 16, mixed_precision=policy, kernels="cuda"))
    graph = analytic_costs(folded)
    everything = simulate(graph, Schedule.plain(graph)).peak_bytes - graph.fixed_bytes
    for share in (0.55, 0.6, 0.65, 0.7):
        budget = int(graph.fixed_bytes + share * everything)
        found = solve(graph, budget, solver="greedy", options=SolveOptions(time_limit_s=5.0))
        if found.schedule is not None:
            return dataclasses.replace(folded, graph=graph), found.schedule
    raise AssertionError(name)


def on_device(folded: FoldedStep, device: Device | None) -> FoldedStep:
    return dataclasses.replace(folded, graph=dataclasses.replace(folded.graph, device=device))


@cache
def emitted(name: str, policy: str | None = None, *, device: Device | None = CARD) -> Rewritten:
    """Return the scheduled step as emitted for ``device``. Every op is on the virtual GPU."""
    folded, schedule = scheduled(name, policy)
    folded = on_device(folded, device)
    return placed(compiled_step(in_turn(folded), schedule.steps.tolist()))


@cache
def plain(name: str, policy: str | None = None) -> Rewritten:
    return placed(compiled_step(scheduled(name, policy)[0], None))


CASES = [*((name, policy) for name in ALL for policy in (None, HALF)), (ALL[0], "mixed_bfloat16")]


@pytest.mark.parametrize(("name", "policy"), [CASES[0], *heavy(*CASES[1:])])
def test_a_schedule_keeps_its_peak_under_the_layout_pass(name: str, policy: str | None) -> None:
    before = emitted(name, policy)
    assert live_peak(before) < 0.75 * live_peak(plain(name, policy))
    after = rewritten(before)
    assert live_peak(after) <= 1.05 * live_peak(before)
    assert after.count("Transpose") == before.count("Transpose")


OTHERS = heavy(
    "convolutions",
    "shared_gradient",
    "standardised",
    "products",
    "arithmetic",
    "transposed",
    "small_gradients",
)


@pytest.mark.parametrize("name", ["padded", *heavy("depthwise", "normalised"), *OTHERS])
def test_whatever_is_fused_keeps_its_peak_and_makes_no_cycle(name: str) -> None:
    folded = on_device(prepared(request_of("fusable_models", name, 8)), CARD)
    before = placed(compiled_step(folded, recompute_forward(folded.graph).steps.tolist()))
    assert live_peak(rewritten(before)) <= 1.05 * live_peak(before)


@pytest.mark.heavy
@pytest.mark.parametrize("architecture", ["6.1", "7.5", "9.0"])
def test_on_every_generation_of_cards(architecture: str) -> None:
    for policy in (None, HALF):
        before = emitted("residual", policy)
        assert live_peak(rewritten(before, architecture=architecture)) <= 1.05 * live_peak(before)


def test_on_a_card_that_the_plain_step_does_not_fit() -> None:
    """Test a card too small for the plain step. TensorFlow then rewrites for memory too."""
    before, without = emitted("chain"), plain("chain")
    small = (live_peak(before) + live_peak(without)) // 2
    assert live_peak(rewritten(before, memory_bytes=small)) <= 1.05 * live_peak(before)


@pytest.mark.parametrize("name", [ALL[0], *heavy(*ALL[1:])])
def test_the_layout_pass_undoes_a_schedule_that_is_not_marked(name: str) -> None:
    before = emitted(name, device=None)
    assert live_peak(rewritten(before)) > 1.1 * live_peak(before)
    assert live_peak(rewritten(before, layout=False)) <= 1.01 * live_peak(before)


@pytest.mark.parametrize("name", [ALL[0], *heavy(*ALL[1:])])
def test_the_replay_counts_what_the_simulation_counts(name: str) -> None:
    folded, schedule = scheduled(name)
    graph = folded.graph
    everything = Schedule.plain(graph)
    # TensorFlow runs the plain step in an order of its own. Small tensors, which are not scheduled, count
    # in the replay.
    for steps, shown in ((everything, plain(name)), (schedule, emitted(name))):
        assert live_peak(shown) == pytest.approx(
            simulate(graph, steps).peak_bytes - graph.fixed_bytes, rel=0.08
        )


@pytest.mark.heavy
def test_only_a_step_for_a_gpu_is_marked() -> None:
    cpu = Device("a CPU", "cpu")
    assert not any(MARK in node.attr for node in emitted("vgg", device=cpu).definition.node)
    marked = {node.op for node in emitted("vgg").definition.node if MARK in node.attr}
    assert marked == {
        "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "BiasAdd", "BiasAddGrad", "MaxPool",
        "MaxPoolGrad",
    }  # fmt: skip
    biases = [MARK in node.attr for node in emitted("vgg").definition.node if node.op == "BiasAdd"]
    assert biases.count(False) == 2, "a dense layer's bias is left to be fused"


@pytest.mark.heavy
def test_the_saved_step_keeps_the_marks(tmp_path: Path) -> None:
    folded, schedule = scheduled("residual")
    save_step(on_device(folded, CARD), schedule, tmp_path / "saved")
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    function = loaded.train_step.concrete_functions[0]
    before = placed(function)
    assert any(MARK in node.attr for node in before.definition.node)
    assert live_peak(before) == pytest.approx(live_peak(emitted("residual")), rel=0.05)
    assert live_peak(rewritten(before)) <= 1.05 * live_peak(before)


@pytest.mark.heavy
def test_the_step_of_a_live_model_is_marked() -> None:
    model = load_model(request_of("conv_models", "chain", 16)).model
    layout, tensors = flatten((np.ones((16, 32, 32, 3), np.float32), np.zeros((16, 1), np.int32), None))
    step = live_step(model, layout)
    step = step.with_folded(on_device(step.folded, CARD))
    function = tf.function(lambda *batch: step.run(step.everything, batch)[0], autograph=False)
    before = placed(function.get_concrete_function(*tensors))
    assert live_peak(rewritten(before)) <= 1.05 * live_peak(before)
    assert rewritten(before).count("Transpose") == 0


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["chain", "vgg"])
def test_a_marked_step_computes_the_same(name: str) -> None:
    folded, schedule = scheduled(name)
    batch = folded.traced.loaded.make_batch()
    found: list[list[np.ndarray]] = []
    for device in (CARD, Device("a CPU", "cpu")):
        step = compiled_step(on_device(folded, device), schedule.steps.tolist(), with_gradients=True)
        with restored(folded.traced.variables):
            _, _, gradients = run_step(step, batch)
        found.append([tensor.numpy() for group in gradients for tensor in group])
    scale = total_norm(found[1])
    assert max(relative_error(a, b, scale) for a, b in zip(*found, strict=True)) < 1e-3


@pytest.mark.parametrize("kind", ["Conv2DBackpropInput", "Conv2DBackpropFilter", "MaxPool"])
def test_channels_first_costs_what_channels_last_costs(kind: str) -> None:
    """Check the count for channels first, which TensorFlow lacks."""

    def count(data_format: str) -> float | None:
        last = data_format == "NHWC"
        image, grads = ((4, 8, 6, 3), (4, 4, 3, 5)) if last else ((4, 3, 8, 6), (4, 5, 4, 3))
        square = [1, 2, 2, 1] if last else [1, 1, 2, 2]
        options = {"strides": square, "padding": "SAME", "data_format": data_format}
        with tf.Graph().as_default() as graph:
            x, kernel = tf.ones(image), tf.ones((3, 3, 3, 5))
            if kind == "MaxPool":
                made = tf.raw_ops.MaxPool(input=x, ksize=square, **options)
            elif kind == "Conv2DBackpropInput":
                made = tf.raw_ops.Conv2DBackpropInput(
                    input_sizes=image, filter=kernel, out_backprop=tf.ones(grads), **options
                )
            else:
                made = tf.raw_ops.Conv2DBackpropFilter(
                    input=x, filter_sizes=(3, 3, 3, 5), out_backprop=tf.ones(grads), **options
                )
            return private.flops(graph, made.op)

    assert count("NHWC") == count("NCHW") > 0
