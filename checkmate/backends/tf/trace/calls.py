"""Replace the calls of a traced step by what they call.

A call is one op: nothing inside it could be scheduled. So the graph is copied op by op, with the body where
the call was, ordered as TensorFlow orders it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.own_recomputation import fold_recomputation
from checkmate.backends.tf.trace.trace import TracedStep
from checkmate.backends.tf.trace.walks import execution_order
from checkmate.errors import TraceError
from checkmate.ir import Phase

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


def called(op: tf.Operation) -> str | None:
    """Return the name of the function that ``op`` calls; None: it is no call."""
    return str(op.node_def.attr["f"].func.name) if op.type in _CALLS else None


def without_calls(traced: TracedStep, *, for_xla: bool = False) -> TracedStep:
    """Return ``traced`` without calls, but for those that XLA compiles. ``for_xla``: it compiles all of the
    step, and so may compile a part."""
    if not any(_is_replaced(op, for_xla) for op in traced.ops):
        return traced
    phases = {op.name: phase for op, phase in zip(traced.ops, traced.phases, strict=True)}
    made: dict[str, tf.Tensor] = {}
    results = [traced.loss, *traced.predictions, *(one for each in traced.gradients.values() for one in each)]
    copied: list[tuple[_Inliner, bool]] = []

    def step(*tensors: tf.Tensor) -> Any:
        inliner = _Inliner(tf.compat.v1.get_default_graph(), for_xla)
        given = private.given_inputs(traced.function, inliner.target, tensors)
        made.update({inner.name: one for inner, one in zip(traced.function.inputs, given, strict=True)})
        # A small tensor from outside, such as a table's default, is a constant here.
        inliner.phases.update(dict.fromkeys((tensor.op.name for tensor in given), Phase.FORWARD))
        inliner.copy(traced.graph, traced.ops, made, "", [], phases)
        stays = traced.loaded.as_written
        copied[:] = [(inliner, not stays and fold_recomputation(inliner.target.get_operations()))]
        structure = traced.function.structured_outputs  # the loss alone, or all
        found = [made[tensor.name] for tensor in results[: len(tf.nest.flatten(structure))]]
        return tf.nest.pack_sequence_as(structure, found)

    function = tf.function(step, autograph=False).get_concrete_function(*traced.loaded.specs)
    ((inliner, taken_out),) = copied
    # What comes later is TensorFlow's own: identities that make the outputs wait for the assignments.
    created = [op for op in function.graph.get_operations() if op.name in inliner.phases]
    ops = tuple(created[i] for i in execution_order(created))
    return dataclasses.replace(
        traced,
        function=function,
        ops=ops,
        phases=tuple(inliner.phases[op.name] for op in ops),
        loss=made[traced.loss.name],
        predictions=tuple(made[tensor.name] for tensor in traced.predictions),
        gradients={path: tuple(made[t.name] for t in found) for path, found in traced.gradients.items()},
        held=traced.variables,
        unsplit=function if taken_out else traced.as_traced,
        as_written=traced.as_written or (traced.as_traced if taken_out else None),
    )


def _is_replaced(op: tf.Operation, for_xla: bool) -> bool:
    return op.type in _CALLS and (for_xla or not op.node_def.attr["_XlaMustCompile"].b)


@dataclass(frozen=True, eq=False)
class _Inliner:
    """Copies ops into ``target``, with called functions inlined. ``phases``: of the new ops, by name."""

    target: Any
    for_xla: bool
    phases: dict[str, Phase] = field(default_factory=dict)

    def copy(
        self,
        graph: Any,
        ops: Sequence[tf.Operation],
        made: dict[str, tf.Tensor],
        prefix: str,
        before: Sequence[tf.Operation],
        phases: Mapping[str, Phase],
    ) -> list[tf.Operation]:
        """Copy ``ops``, with side effects after ``before``; return the ops that end the copy. ``made``: each
        tensor's copy, by name. It begins with the inputs' copies, and the rest is added."""
        private.copy_functions(graph, self.target)
        ends: dict[str, list[tf.Operation]] = {inner.op.name: [] for inner in graph.inputs}
        effects: list[tf.Operation] = []
        for op in (ops[index] for index in execution_order(ops)):
            if op.name in ends:
                continue
            controls = [each for control in op.control_inputs for each in ends[control.name]]
            if private.is_stateful(op):
                controls += before
            ends[op.name] = self._copied(graph, op, made, controls, f"{prefix}{op.name}", phases[op.name])
            if private.is_stateful(op):
                effects += ends[op.name]
        return effects

    def _copied(
        self,
        graph: Any,
        op: tf.Operation,
        made: dict[str, tf.Tensor],
        controls: Sequence[tf.Operation],
        name: str,
        phase: Phase,
    ) -> list[tf.Operation]:
        """Copy ``op``, or the body of the function that it calls; return the ops that end the copy."""
        if not _is_replaced(op, self.for_xla):
            copy = private.copy_op(self.target, op, made, controls, name)
            self.phases[copy.name] = phase
            return [copy]
        function = str(called(op))
        body = private.called_body(graph, function, len(op.inputs), len(op.outputs))
        if body is None:
            raise TraceError(f"the step calls {function!r}, whose body is not known")
        before = [self._barrier(controls, f"{name}/begin", phase)] if controls else []
        # The names inside say more than the name of the call. TensorFlow makes the gradient of a call without
        # the name scope that tells gradients.
        scope = name.removesuffix(name.rsplit("/", 1)[-1])
        if function.startswith("__backward_"):
            scope = f"gradient_tape/{scope}"
        inside = {inner.name: made[given.name] for inner, given in zip(body.inputs, op.inputs, strict=True)}
        ops = body.get_operations()
        phases = dict.fromkeys((each.name for each in ops), phase)
        effects = self.copy(body, ops, inside, scope, before, phases) or before
        private.stand_for(op.outputs, [inside[tensor.name] for tensor in body.outputs], made)
        return [self._barrier(effects, f"{name}/end", phase)] if len(effects) > 1 else effects

    def _barrier(self, controls: Sequence[tf.Operation], name: str, phase: Phase) -> tf.Operation:
        with self.target.control_dependencies(None), self.target.control_dependencies(list(controls)):
            made = tf.no_op(name=name)
        self.phases[made.name] = phase
        return made
