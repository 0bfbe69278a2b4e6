"""Test the private parts of TensorFlow that this program uses."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.profiler import trace_run


def graph_of(body: Any, *specs: tf.TensorSpec) -> Any:
    return tf.function(body, autograph=False).get_concrete_function(*specs).graph


def of_type(graph: Any, kind: str) -> list[tf.Operation]:
    return [op for op in graph.get_operations() if op.type == kind]


def run_in_new_graph(build: Any, value: list[float]) -> np.ndarray:
    """Return what ``build(graph, input)`` computes in a new graph. The ops come from another graph."""

    def body(given: tf.Tensor) -> tf.Tensor:
        return build(tf.compat.v1.get_default_graph(), given)

    return tf.function(body, autograph=False)(tf.constant(value)).numpy()


def test_an_op_is_made_from_another_with_its_attributes_other_inputs_and_an_order() -> None:
    first = graph_of(
        lambda x: tf.matmul(tf.reshape(x, (2, 2)), tf.eye(2), transpose_a=True),
        tf.TensorSpec((4,), tf.float32),
    )
    (product,) = of_type(first, "MatMul")
    made: list[tf.Operation] = []

    def build(graph: Any, given: tf.Tensor) -> tf.Tensor:
        before = tf.identity(given, name="before").op
        square = tf.reshape(given, (2, 2))
        made.append(private.create_op(graph, product, [square, tf.eye(2)], [before], "again"))
        return made[0].outputs[0]

    found = run_in_new_graph(build, [1.0, 2.0, 3.0, 4.0])
    assert found.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    (op,) = made
    assert (op.name, op.type) == ("again", "MatMul")
    assert op.get_attr("transpose_a") and not op.get_attr("transpose_b")
    assert [other.name for other in op.control_inputs] == ["before"]
    assert op.outputs[0].dtype == tf.float32 and op.outputs[0].shape == (2, 2)


def test_stateful_ops_are_told_from_others() -> None:
    variable = tf.Variable(1.0)

    def body(x: tf.Tensor) -> tf.Tensor:
        return tf.random.uniform((2,)) + variable.assign_add(tf.exp(x))

    graph = graph_of(body, tf.TensorSpec((), tf.float32))
    told = {op.type: private.is_stateful(op) for op in graph.get_operations()}
    assert told["RandomUniform"] and told["AssignAddVariableOp"] and not told["Exp"] and not told["AddV2"]


def test_a_loop_is_made_again_with_functions_of_its_own() -> None:
    graph = graph_of(
        lambda x: tf.while_loop(lambda y: y[0] < 100.0, lambda y: (y * 2.0,), (x,), maximum_iterations=9)[0],
        tf.TensorSpec((1,), tf.float32),
    )
    (loop,) = of_type(graph, "StatelessWhile")
    body = private.function_body(graph, loop.get_attr("body").name)

    def made(target: Any, given: tf.Tensor) -> tf.Tensor:
        def build(inner: Any, *, turn: bool) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
            assert tf.compat.v1.get_default_graph() is inner
            inputs = [private.placeholder_like(place, place.op.name) for place in body.inputs]
            counter, *_, value = inputs
            assert value.shape == (1,)
            return inputs, [counter + 1, *inputs[1:-1], value * 3.0] if turn else [counter < 2]

        functions = {
            "body": private.add_function(target, "turn", lambda inner: build(inner, turn=True)),
            "cond": private.add_function(target, "goes_on", lambda inner: build(inner, turn=False)),
        }
        inputs = [tf.constant(0) for _ in loop.inputs[:-1]] + [given]
        new = private.create_loop(
            target, loop, inputs, [], "again", stateless=True, functions=functions, numbers={"_turns": 2}
        )
        assert (new.name, new.type, new.node_def.attr["_turns"].i) == ("again", "StatelessWhile", 2)
        return new.outputs[-1]

    assert run_in_new_graph(made, [1.0]).tolist() == [9.0]


@pytest.mark.heavy
def test_written_variables_are_found_and_no_other_thread_is_disturbed() -> None:
    written, errors, over = tf.Variable([1.0, 2.0]), list[BaseException](), threading.Event()

    def write(given: tf.Tensor) -> None:
        tf.raw_ops.AssignVariableOp(resource=written.handle, value=given)

    concrete = tf.function(write, autograph=False).get_concrete_function(tf.TensorSpec((2,)))

    def work() -> None:
        while not over.is_set():
            try:
                tuple(number for number in range(100_000))
            except SystemError as error:
                errors.append(error)

    beside = threading.Thread(target=work)
    beside.start()
    try:
        found = [private.captured_variables(concrete) for _ in range(40)]
    finally:
        over.set()
        beside.join()
    assert all(len(each) == 1 and each[0] is written for each in found)
    assert errors == []


def test_one_thread_calls_a_function_whose_constants_alone_are_folded() -> None:
    def layer(x: tf.Tensor, weights: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, weights), bias))

    def fused() -> bool:
        arguments = tf.ones((8, 8)), tf.ones((8, 8)), tf.ones(8)
        function = tf.function(layer, autograph=False).get_concrete_function(*arguments)
        runs = trace_run(lambda: function(*arguments).numpy(), device="cpu").runs
        assert runs
        return any("Fused" in run.type for run in runs)

    beside: list[bool] = []
    assert fused()
    with private.folding_constants():
        assert not fused()
        other = threading.Thread(target=lambda: beside.append(fused()))
        other.start()
        other.join()
    assert fused() and beside == [True]


@pytest.mark.heavy
def test_a_trace_prints_nothing_and_notes_are_printed_again_after_it() -> None:
    code = (
        "import sys, tensorflow as tf\n"
        "from checkmate.backends.tf.profiler import trace_run\n"
        "tf.ones(3) + 1\n"
        "print('before', file=sys.stderr, flush=True)\n"
        "trace_run(lambda: tf.ones(3) + 1, device='cpu')\n"
        "print('after', file=sys.stderr, flush=True)\n"
        "tf.profiler.experimental.start(sys.argv[1])\n"
        "tf.profiler.experimental.stop()\n"
    )
    told = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, folder], env=told, capture_output=True, text=True, check=True
        )
    _, _, rest = done.stderr.partition("before\n")
    within, _, after = rest.partition("after\n")
    assert within == ""
    assert "Profiler session started" in after


def test_a_traced_step_is_let_go_of_with_its_custom_gradients() -> None:
    @tf.custom_gradient
    def doubled(x: tf.Tensor) -> Any:
        return 2 * x, lambda upstream: 2 * upstream

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(doubled(x) * weights)
        return tape.gradient(y, x)

    weights: tf.Variable | None = tf.Variable([1.0, 3.0])
    concrete = tf.function(step, autograph=False).get_concrete_function(tf.TensorSpec((2,), tf.float32))
    variable, graph = weakref.ref(weights), weakref.ref(concrete.graph)
    private.forget_custom_gradients(concrete.graph)
    assert concrete(tf.constant([5.0, 6.0])).numpy().tolist() == [2.0, 6.0]
    del concrete, step
    weights = None
    gc.collect()
    assert graph() is None and variable() is None


def test_a_saved_function_runs_the_first_that_takes_its_tensors(tmp_path: Path) -> None:
    def times(factor: float, size: int | None) -> Any:
        spec = tf.TensorSpec((size,), tf.float32)
        return tf.function(lambda *given: factor * given[0], input_signature=[spec]).get_concrete_function()

    module = tf.Module()
    module.scaled = private.saved_as(lambda *given: given[0], [times(2.0, 3), times(5.0, None)])
    tf.saved_model.save(module, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    assert loaded.scaled(np.ones(3, np.float32)).numpy().tolist() == [2.0] * 3
    assert loaded.scaled(np.ones(2, np.float32)).numpy().tolist() == [5.0] * 2
