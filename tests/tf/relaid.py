"""Fold the traced step as TensorFlow's layout pass leaves it for a card.

This is another way to keep a schedule, for comparison. The folded step already has the data formats that the
pass would choose, so the pass changes nothing in the emitted step.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.trace import TracedStep
from checkmate.ir.graph import Phase
from tests.tf.virtual_gpu import optimized, with_variables

_END = "end_of_step_"
_MADE = "-LayoutOptimizer"


def relaid(traced: TracedStep, architecture: str) -> TracedStep:
    """Return ``traced`` after the layout pass alone. The card has compute capability ``architecture``."""
    results = [
        traced.loss,
        *traced.predictions,
        *(t for tensors in traced.gradients.values() for t in tensors),
    ]
    definition, ends = _after_the_pass(traced, results, architecture)
    inside = {inner.name: external for external, inner in private.captures(traced.graph)}
    arguments = [t for t in traced.function.inputs if t.name not in inside]
    found: list[tf.Tensor] = []

    def body(*tensors: tf.Tensor) -> tf.Tensor:
        graph = tf.compat.v1.get_default_graph()
        private.copy_functions(traced.graph, graph)
        given = {old.name: new for old, new in zip(arguments, tensors, strict=True)}
        given |= {name: private.capture(graph, external) for name, external in inside.items()}
        for variable in traced.variables:
            graph.watch_variable(variable)
        found[:] = tf.import_graph_def(definition, input_map=given, return_elements=ends, name="")
        return tf.identity(found[0])

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in arguments]
    function = tf.function(body, autograph=False).get_concrete_function(*specs)
    names = {node.name for node in definition.node}
    ops = [op for op in function.graph.get_operations() if op.name in names or op.type == "Placeholder"]
    rest = iter(found[1 + len(traced.predictions) :])
    return dataclasses.replace(
        traced,
        function=function,
        ops=tuple(ops),
        phases=_phases(traced, ops),
        loss=found[0],
        predictions=tuple(found[1 : 1 + len(traced.predictions)]),
        gradients={path: tuple(next(rest) for _ in tensors) for path, tensors in traced.gradients.items()},
    )


def _after_the_pass(traced: TracedStep, results: list[tf.Tensor], architecture: str) -> tuple[Any, list[str]]:
    """Return the rewritten ops, and the names of ``results`` in them.

    Inputs are left out; ``results`` are given by name.
    """
    inputs = {tensor.op.name for tensor in traced.function.inputs}
    wanted = inputs | {op.name for op in traced.ops}
    before = graph_pb2.GraphDef()
    before.CopyFrom(with_variables(traced.graph))
    kept = [node for node in before.node if node.name in wanted]
    del before.node[:]
    before.node.extend(kept)
    for number, tensor in enumerate(results):  # the pass does not change ops that are asked for by name
        end = before.node.add(
            name=f"{_END}{number}", op="Identity", input=[tensor.name], device=kept[0].device
        )
        end.attr["T"].type = tensor.dtype.as_datatype_enum
    effects = [op.name for op in traced.ops if private.is_stateful(op) and op.name not in inputs]
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.optimizers.append("layout")
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewrite.min_graph_nodes = -1
    asked = [f"{_END}{number}:0" for number in range(len(results))]
    rewritten = optimized(before, [*asked, *effects], config, architecture, 16 * 2**30)
    after = graph_pb2.GraphDef(versions=rewritten.versions)
    ends: dict[str, str] = {}
    for node in rewritten.node:
        node.device = ""
        if node.name.startswith(_END):
            ends[node.name] = node.input[0] if ":" in node.input[0] else f"{node.input[0]}:0"
        elif node.name not in inputs:
            after.node.add().CopyFrom(node)
    return after, [ends[f"{_END}{number}"] for number in range(len(results))]


def _phases(traced: TracedStep, ops: list[tf.Operation]) -> tuple[Phase, ...]:
    """Return the phases of the trace for the rewritten ops.

    An op that the pass made has the phase of the op whose name it begins with.
    """
    phases = {op.name: phase for op, phase in zip(traced.ops, traced.phases, strict=True)}

    def phase(name: str) -> Phase:
        while name not in phases and "-" in name:
            name = name.rpartition("-")[0]
        return phases.get(name, Phase.FORWARD)

    return tuple(phase(op.name) for op in ops)
