"""Read off a traced graph which part of the step each op belongs to.

A step of the user's own does not tell where its backward pass begins, and it may have several. A tape's
gradients carry a name scope, and assignments are ops of their own. Everything else follows from what reads
what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import tensorflow as tf

from checkmate.ir.graph import Phase

# ``tf.GradientTape`` makes the first scope, ``tf.gradients`` the second.
_GRADIENT_SCOPE = re.compile(r"(^|/)(gradient_tape|gradients)(_\d+)?/")
_RESOURCE_WRITE = re.compile(
    r"^(Assign.*VariableOp|Resource(Sparse)?(Apply|Scatter).*|ResourceStridedSlice.*)$"
)


def is_gradient(op: tf.Operation) -> bool:
    """Return whether ``op`` was made while gradients were taken."""
    return _GRADIENT_SCOPE.search(op.name) is not None


def writes_variable(op: tf.Operation) -> bool:
    """Return whether ``op`` changes the value of a variable."""
    return _RESOURCE_WRITE.match(op.type) is not None


def phases_of(ops: Sequence[tf.Operation]) -> tuple[Phase, ...]:
    """Return the phase of each of ``ops``, which are in a valid order.

    A gradient, and what is computed from gradients for other gradients (a penalty on their norm), is of the
    backward pass. An update is what serves assignments and no gradient: optimizers, averages of weights,
    metrics. What computes from gradients for an output alone is of the backward pass too. The rest is the
    forward pass, loss included.
    """
    index = {op.name: i for i, op in enumerate(ops)}
    sources = [[index[t.op.name] for t in op.inputs if t.op.name in index] for op in ops]
    gradient = [is_gradient(op) for op in ops]
    for_gradients = _sources_of((i for i, found in enumerate(gradient) if found), sources)
    for_writes = _sources_of((i for i, op in enumerate(ops) if writes_variable(op)), sources)
    from_gradients = gradient[:]
    phases: list[Phase] = []
    for i in range(len(ops)):
        from_gradients[i] = from_gradients[i] or any(from_gradients[source] for source in sources[i])
        if gradient[i]:
            phases.append(Phase.BACKWARD)
        elif i in for_writes and i not in for_gradients:
            phases.append(Phase.UPDATE)
        else:
            phases.append(Phase.BACKWARD if from_gradients[i] else Phase.FORWARD)
    return tuple(phases)


def _sources_of(ends: Iterable[int], sources: Sequence[Sequence[int]]) -> set[int]:
    """Return ``ends`` and all ops that they read, directly or not."""
    found: set[int] = set()
    stack = list(ends)
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack.extend(sources[op])
    return found
