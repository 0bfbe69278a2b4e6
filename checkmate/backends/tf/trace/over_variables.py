"""Find updates that are computed in the memory of their variable.

``variable.assign(factor * variable + change)`` makes a tensor, and the variable takes that tensor's buffer
over and gives its own back. So a momentum lies elsewhere after each step, and the holes that large variables
leave behind wander through the allocator's memory: one step by a schedule for VGG16 needs 540 MiB, a later
one 760. The ops in between write over an input that dies with them. They write over the variable's own
buffer, if nothing else holds it. The emission has the variable let go of it after the last read
(``backends.tf.emit.copies.let_go``), and gets it back with the new value in it. Which ops run, and what they
compute, stays the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from checkmate.backends.tf.trace.op_kinds import is_view
from checkmate.backends.tf.trace.walks import source
from checkmate.ir.graph import Phase

_MOST = 64  # ops between the read and the assignment
_HELD = frozenset({"ReadVariableOp", "Const", "Placeholder"})  # something else holds what they return


@dataclass(frozen=True)
class OverVariable:
    """One update that is computed in its variable's memory.

    ``reads``: the ops that read the variable before. ``ops``: those that compute the new value, in order, by
    their index in the trace. The first one reads the variable last. ``assign``: the op that assigns it.
    """

    reads: tuple[int, ...]
    ops: tuple[int, ...]
    assign: int


def over_variables(
    ops: Sequence[tf.Operation],
    phases: Sequence[Phase],
    index: Mapping[str, int],
    needed: Collection[str],
    written_over: Collection[int],
) -> tuple[OverVariable, ...]:
    """Return the updates among ``ops`` that need no buffer of their own.

    ``index``: of each op, by name. ``needed``: names of the ops that run. ``written_over``: the ops that
    write over an input that dies with them.
    """
    search = _WrittenOver(ops, phases, index, needed, written_over)
    assigns = (i for i, op in enumerate(ops) if op.type == "AssignVariableOp" and phases[i] is Phase.UPDATE)
    return tuple(found for assign in assigns if (found := search.update_of(assign)) is not None)


@dataclass(frozen=True, eq=False)
class _WrittenOver:
    ops: Sequence[tf.Operation]
    phases: Sequence[Phase]
    index: Mapping[str, int]
    needed: Collection[str]
    written_over: Collection[int]

    def update_of(self, assign: int) -> OverVariable | None:
        """Return what op ``assign`` assigns, if it can be computed in place."""
        handle, value = self.ops[assign].inputs
        touched = {self.index[op.name] for op in handle.consumers() if op.name in self.needed}
        reads = tuple(sorted(i for i in touched if self.ops[i].type == "ReadVariableOp" and i < assign))
        if any(self.ops[i].type != "ReadVariableOp" for i in touched - {assign}):
            return None
        chain = self._chain(source(value), handle)
        if chain is None or any(self._reads_later(self.ops[read].outputs[0], chain[0]) for read in reads):
            return None
        return OverVariable(reads, tuple(chain), assign)

    def _chain(self, value: tf.Tensor, handle: tf.Tensor) -> list[int] | None:
        """Return the ops that hand the variable's buffer on to ``value``."""
        found: list[int] = []
        wanted = value
        while len(found) < _MOST:
            op = wanted.op
            if op.type == "ReadVariableOp":
                return found[::-1] if found and op.inputs[0].name == handle.name else None
            here = self.index.get(op.name, -1)
            if here not in self.written_over or self.phases[here] is not Phase.UPDATE:
                return None
            if found and self._readers(wanted) != {found[-1]}:
                return None
            found.append(here)
            following = self._written_over_by(op, handle)
            if following is None:
                return None
            wanted = following
        return None

    def _written_over_by(self, op: tf.Operation, handle: tf.Tensor) -> tf.Tensor | None:
        # TensorFlow writes over the first input of the output's size that nothing else holds.
        for tensor in map(source, op.inputs):
            if tensor.shape != op.outputs[0].shape or tensor.dtype != op.outputs[0].dtype:
                continue
            read = tensor.op.type == "ReadVariableOp"
            if tensor.op.type not in _HELD or (read and tensor.op.inputs[0].name == handle.name):
                return tensor
        return None

    def _readers(self, tensor: tf.Tensor) -> set[int]:
        """Return the ops that read ``tensor``, some of them through views."""
        found: set[int] = set()
        stack = [tensor]
        while stack:
            looked_at = stack.pop()
            for op in looked_at.consumers():
                if op.type == "IdentityN":
                    stack.extend(op.outputs[n] for n, t in enumerate(op.inputs) if t.name == looked_at.name)
                elif op.type == "Identity" or (op.name in self.needed and is_view(op)):
                    stack.extend(op.outputs)
                elif op.name in self.needed:
                    found.add(self.index[op.name])
        return found

    def _reads_later(self, tensor: tf.Tensor, last: int) -> bool:
        readers = self._readers(tensor)
        return any(reader > last or self.phases[reader] is not Phase.UPDATE for reader in readers)
