"""Test the private parts of TensorFlow that this program uses.

If a release changes them, this fails before anything else does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tensorflow.python.framework import ops
from tensorflow.python.util import deprecation

from checkmate.tf import private


def graph_of(body: Any, *specs: tf.TensorSpec) -> Any:
    return tf.function(body, autograph=False).get_concrete_function(*specs).graph


def of_type(graph: Any, kind: str) -> list[tf.Operation]:
    return [op for op in graph.get_operations() if op.type == kind]


def run_in_new_graph(build: Any, value: list[float]) -> np.ndarray:
    """Return what ``build(graph, input)`` computes in a new graph.

    The ops come from another graph.
    """

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


def test_captures_are_listed_and_made() -> None:
    variable, outside = tf.Variable([1.0, 2.0]), tf.constant([[3.0]])
    graph = graph_of(lambda x: x * variable + outside[0, 0], tf.TensorSpec((2,), tf.float32))
    found = {inside.name: external for external, inside in private.captures(graph)}
    assert len(found) == 2
    assert any(external is variable.handle for external in found.values())

    def build(new: Any, given: tf.Tensor) -> tf.Tensor:
        stands_for = private.capture(new, outside)
        assert stands_for.graph is new and private.capture(new, outside) is stands_for
        return given + stands_for[0, 0]

    assert run_in_new_graph(build, [1.0]).tolist() == [4.0]


def test_a_loop_is_made_again_in_another_graph_one_iteration_at_a_time() -> None:
    def body(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda i, _: i < 3, lambda i, y: (i + 1, tf.sin(y)), (0, x), parallel_iterations=7
        )[1]

    first = graph_of(body, tf.TensorSpec((1,), tf.float32))
    (loop,) = [op for op in first.get_operations() if op.type in ("While", "StatelessWhile")]
    inner = private.function_body(first, loop.get_attr("body").name)
    assert len(of_type(inner, "Sin")) == 1
    assert private.function_body(first, "no_such_function") is None
    made: list[tf.Operation] = []

    def build(graph: Any, given: tf.Tensor) -> tf.Tensor:
        private.copy_functions(first, graph)
        fed = [given if source.dtype == tf.float32 else tf.constant(value) for source, value in fed_by(loop)]
        made.append(private.create_op(graph, loop, fed, [], "again"))
        return next(out for out in made[0].outputs if out.dtype == tf.float32)

    found = run_in_new_graph(build, [0.5])
    assert np.allclose(found, np.sin(np.sin(np.sin(0.5))))
    assert made[0].get_attr("parallel_iterations") == 1 and loop.get_attr("parallel_iterations") == 7


def fed_by(loop: tf.Operation) -> list[tuple[tf.Tensor, Any]]:
    """Return the loop's inputs, with the value of those that are constants."""
    return [(tensor, tf.get_static_value(tensor)) for tensor in loop.inputs]


def test_operations_are_counted_where_tensorflow_counts_them() -> None:
    graph = graph_of(lambda x: tf.sin(tf.matmul(x, x)), tf.TensorSpec((4, 4), tf.float32))
    assert private.flops(graph, of_type(graph, "MatMul")[0]) == 2 * 4**3
    assert private.flops(graph, of_type(graph, "Sin")[0]) is None


def test_keras_builds_what_it_builds_on_a_gpu() -> None:
    layer = layers.LSTM(3)
    layer.build((2, 4, 5))

    def has_cudnn() -> bool:
        graph = graph_of(lambda x: layer(x), tf.TensorSpec((2, 4, 5), tf.float32))
        return any(op.type.startswith("CudnnRNN") for op in graph.get_operations())

    assert has_cudnn() == bool(tf.config.list_physical_devices("GPU"))
    with private.keras_sees_gpu():
        assert has_cudnn()


def test_kernels_say_for_which_device_they_are_and_what_they_keep_on_the_host() -> None:
    found = private.registered_kernels("GatherV2")
    assert {"CPU"} <= {kernel.device_type for kernel in found}
    on_gpu = [kernel for kernel in found if kernel.device_type == "GPU"]
    assert all(list(kernel.host_memory_arg) == ["axis"] for kernel in on_gpu)
    assert {rule.name for kernel in found for rule in kernel.constraint} >= {"Tparams", "Tindices"}
    assert private.registered_kernels("ThereIsNoSuchOp") == []


def test_forbidding_nondeterminism_can_be_taken_back() -> None:
    tf.random.set_seed(None)  # from another test: with a seed, random ops are deterministic
    private.forbid_nondeterminism(True)
    try:
        with pytest.raises(RuntimeError, match="determinism"):
            tf.random.uniform((2,))
    finally:
        private.forbid_nondeterminism(False)
    assert tf.random.uniform((2,)).shape == (2,)


def test_counting_operations_warns_of_nothing_and_leaves_other_warnings_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(deprecation.logging, "warning", lambda *words: warned.append(str(words)))
    monkeypatch.setattr(deprecation, "_PRINTED_WARNING", {})  # TensorFlow warns of each place once
    first = tf.TensorSpec((1, 4, 6, 6))
    graph = graph_of(lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME", data_format="NCHW"), first)
    (pooling,) = of_type(graph, "MaxPool")
    assert private.flops(graph, pooling)  # TensorFlow itself raises an error for channels first
    graph = graph_of(lambda x: tf.matmul(x, x), tf.TensorSpec((4, 4)))
    (product,) = of_type(graph, "MatMul")
    assert private.flops(graph, product) == 128 and warned == []
    ops.get_stats_for_node_def(graph, product.node_def, "flops")
    assert any("deprecated" in words for words in warned)  # so it warns where we do not ask


def test_functions_for_each_layout_do_not_warn_of_retracing(caplog: pytest.LogCaptureFixture) -> None:
    def body(x: tf.Tensor) -> tf.Tensor:
        return x + 1

    for size in range(1, 12):
        private.without_retracing_warning(tf.function(body, autograph=False))(tf.zeros((size,)))
    assert "retracing" not in caplog.text
    for size in range(1, 12):
        tf.function(body, autograph=False)(tf.zeros((size,)))
    assert "retracing" in caplog.text


def test_the_object_of_a_method_is_known_until_it_is_gone() -> None:
    class Trainer(tf.Module):  # type: ignore[misc]
        @tf.function
        def step(self, x: tf.Tensor) -> tf.Tensor:
            return x

    trainer = Trainer()
    step = trainer.step
    assert private.method_owner(step) == (True, trainer)
    del trainer
    assert private.method_owner(step) == (True, None)
    assert private.method_owner(tf.function(lambda x: x)) == (False, None)


def test_a_variable_that_is_only_written_is_found() -> None:
    last = tf.Variable(0.0, name="last")

    @tf.function
    def step(x: tf.Tensor) -> None:
        last.assign(x)

    concrete = step.get_concrete_function(tf.TensorSpec(()))
    assert [id(variable) for variable in private.captured_variables(concrete)] == [id(last)]


def test_variables_that_are_only_written_are_found_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    written = [tf.Variable(tf.zeros((n,))) for n in range(1, 6)]

    @tf.function
    def step(x: tf.Tensor) -> None:
        for n, variable in enumerate(written, 1):
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tf.fill((n,), x))

    concrete = step.get_concrete_function(tf.TensorSpec(()))
    assert not concrete.variables, "TensorFlow lists them"
    passes: list[int] = []
    objects = private.gc.get_objects
    monkeypatch.setattr(private.gc, "get_objects", lambda: passes.append(1) or objects())
    assert {id(variable) for variable in private.captured_variables(concrete)} == set(map(id, written))
    assert len(passes) == 1
