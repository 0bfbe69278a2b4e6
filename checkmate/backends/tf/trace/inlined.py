"""Put the bodies of called functions in place of their calls.

A step may call ``tf.function`` objects, and their gradients are calls too. A call is one op: nothing inside
it could be scheduled. So the traced graph is copied op by op, with the body where the call was. Loops and
conditions stay ops of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.walks import execution_order
from checkmate.errors import JitCompiledError, TraceError

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


def has_calls(graph: Any) -> bool:
    """Return whether an op of ``graph`` calls a function."""
    return any(op.type in _CALLS for op in graph.get_operations())


def inlined(function: Any, *, for_xla: bool = False) -> Callable[..., list[tf.Tensor]]:
    """Return the concrete ``function`` as a Python function without calls, to be traced.

    It takes the arguments of ``function`` in their flat order, and returns its outputs in theirs. What
    TensorFlow orders inside a function is ordered in the same way there. ``for_xla``: XLA compiles all of it,
    and so may compile a part of it.

    Raises:
        JitCompiledError: (when traced) XLA compiles a called function, and not all.
    """

    def body(*tensors: tf.Tensor) -> list[tf.Tensor]:
        target = tf.compat.v1.get_default_graph()
        given = private.given_inputs(function, target, tensors)
        results, _ = _Inliner(target, for_xla).copied(function.graph, given, "", [])
        return results

    return body


@dataclass(frozen=True, eq=False)
class _Inliner:
    """Copies bodies into the graph ``target``."""

    target: Any
    for_xla: bool

    def copied(
        self, body: Any, given: Sequence[tf.Tensor], prefix: str, before: Sequence[tf.Operation]
    ) -> tuple[list[tf.Tensor], list[tf.Operation]]:
        """Copy ``body``; return its outputs and what ends it.

        ``before``: what must run before its side effects.
        """
        private.copy_functions(body, self.target)
        made = {inner.name: tensor for inner, tensor in zip(body.inputs, given, strict=True)}
        ends: dict[str, list[tf.Operation]] = {inner.op.name: [] for inner in body.inputs}
        effects: list[tf.Operation] = []
        ops = body.get_operations()
        for op in (ops[index] for index in execution_order(ops)):
            if op.name in ends:
                continue
            controls = [each for control in op.control_inputs for each in ends[control.name]]
            if private.is_stateful(op):
                controls += before
            if op.type in _CALLS:
                ends[op.name] = self._called(body, op, made, controls, f"{prefix}{op.name}")
            else:
                ends[op.name] = [private.copy_op(self.target, op, made, controls, f"{prefix}{op.name}")]
            if private.is_stateful(op):
                effects += ends[op.name]
        return [made[tensor.name] for tensor in body.outputs], effects

    def _called(
        self,
        outer: Any,
        op: tf.Operation,
        made: dict[str, tf.Tensor],
        controls: Sequence[tf.Operation],
        name: str,
    ) -> list[tf.Operation]:
        """Copy the body of the function that ``op`` calls; return what ends it."""
        attributes = op.node_def.attr
        called = attributes["f"].func.name
        if attributes["_XlaMustCompile"].b and not self.for_xla:
            raise JitCompiledError(
                f"the step calls {called!r}, which is compiled with jit_compile=True; "
                "a part that XLA compiles is not scheduled on TensorFlow's executor",
                hint="make that function with jit_compile=False, or let XLA compile the whole step: "
                'checkmate.rematerialize_function(step, budget, target="xla")',
            )
        body = private.called_body(outer, called, len(op.inputs), len(op.outputs))
        if body is None:
            raise TraceError(f"the step calls {called!r}, whose body is not known")
        before = [_barrier(self.target, controls, f"{name}/begin")] if controls else []
        # The names inside say more than the name of the call. TensorFlow makes the gradient of a call without
        # the name scope that tells gradients.
        scope = name.removesuffix(name.rsplit("/", 1)[-1])
        if called.startswith("__backward_"):
            scope = f"gradient_tape/{scope}"
        outputs, effects = self.copied(body, [made[tensor.name] for tensor in op.inputs], scope, before)
        private.stand_for(op.outputs, outputs, made)
        effects = effects or before
        return [_barrier(self.target, effects, f"{name}/end")] if len(effects) > 1 else effects


def _barrier(target: Any, controls: Sequence[tf.Operation], name: str) -> tf.Operation:
    with target.control_dependencies(None), target.control_dependencies(list(controls)):
        return tf.no_op(name=name)
