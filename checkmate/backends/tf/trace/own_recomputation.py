"""Take the user's own recomputation out of a traced step, so that the solver decides what is recomputed.

``tf.recompute_grad``, which ``keras.remat`` and ``keras.RematScope`` call, runs a function again in the
backward pass. To delay that, each argument is replaced by ``argument + zero``, where the zero depends on the
incoming gradient. An op on such a sum that repeats an earlier op on the argument has the same result, so its
readers are made to read the earlier one. Everything else stays: newly drawn random numbers, reads of a
variable that was written in between, loops and branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private

_PASSED_ON = frozenset({"Identity", "IdentityN"})


def fold_recomputation(ops: Sequence[tf.Operation]) -> bool:
    """Make readers of recomputed tensors read the first ones. ``ops`` are in the order of the trace. Return
    whether anything was recomputed."""
    delayed = {op.name: zero for op in ops if (zero := _zero_of(op)) is not None}
    if not delayed:
        return False
    firsts = _Firsts(delayed)
    for op in ops:
        firsts.take(op)
    instead = {t.name: firsts.of(t) for op in ops if op.name in firsts.calls for t in op.outputs}
    instead |= _beside(ops, firsts)
    for op in ops:
        whole = any(private.called_functions(op))  # a recomputed call, which stays, must go on waiting
        for number, tensor in enumerate(op.inputs):
            if tensor.name in instead and not (whole and tensor.op.name in delayed):
                private.read_instead(op, number, instead[tensor.name])
    return bool(firsts.twins)


def may_recompute(ops: Sequence[tf.Operation]) -> bool:
    """Return whether some op waits for a gradient, as all recomputed ops do."""
    return any(_zero_of(op) is not None for op in ops)


def _zero_of(op: tf.Operation) -> str | None:
    """Name the zero that ``op`` adds to wait for a gradient: ``where(a == a, 0., nan)``, maybe cast."""
    if op.type != "AddV2":
        return None
    zero = op.inputs[1].op
    chosen = zero.inputs[0].op if zero.type == "Cast" else zero
    if chosen.type != "SelectV2" or chosen.inputs[0].op.type != "Equal":
        return None
    one, other = chosen.inputs[0].op.inputs
    values = [tf.get_static_value(tensor) for tensor in chosen.inputs[1:]]
    known = one is other and all(value is not None for value in values)
    return str(chosen.name) if known and np.array_equal(values, [0, np.nan], equal_nan=True) else None


def _beside(ops: Sequence[tf.Operation], firsts: _Firsts) -> dict[str, tf.Tensor]:
    """Map tensors that recomputed ops read besides the call's arguments, such as a variable's cast, to the
    tensors that the first ops read in their place: gradients may read them too."""
    order = {op.name: number for number, op in enumerate(ops)}
    twins, found = dict(firsts.twins), dict[str, tf.Tensor]()
    for op in reversed(ops):
        if op.name not in twins:
            continue
        for tensor, first in zip(op.inputs, twins[op.name].inputs, strict=True):
            if tensor.op.name in firsts.calls or order[tensor.op.name] <= order[first.op.name]:
                continue
            found[tensor.name] = first
            if tensor.op.type == first.op.type:
                twins.setdefault(tensor.op.name, first.op)
    return found


@dataclass(eq=False)
class _Firsts:
    """Finds, for each tensor, the first equal one. Everything is keyed by name. ``delayed``: ``argument +
    zero`` op → its zero, one per recomputed call. ``calls``: op that depends on such sums → the zeros of
    these calls. ``twins``: recomputed op → the first op that computed the same."""

    delayed: Mapping[str, str]
    calls: dict[str, frozenset[str]] = field(default_factory=dict)
    twins: dict[str, tf.Operation] = field(default_factory=dict)
    _first: dict[str, tf.Tensor] = field(default_factory=dict)
    _known: dict[Hashable, tf.Operation] = field(default_factory=dict)
    _writes: Counter[str] = field(default_factory=Counter)  # of each variable, so far
    _taken: set[tuple[str, frozenset[str]]] = field(default_factory=set)

    def of(self, tensor: tf.Tensor) -> tf.Tensor:
        return self._first.get(tensor.name, tensor)

    def take(self, op: tf.Operation) -> None:
        equal = [self.of(tensor) for tensor in op.inputs]
        calls = frozenset[str]().union(*(self.calls.get(tensor.op.name, ()) for tensor in op.inputs))
        if op.name in self.delayed:
            equal, calls = equal[:1], calls | {self.delayed[op.name]}
        elif op.type not in _PASSED_ON or op.control_inputs:
            key = self._key(op, equal)
            first = op if key is None else self._known.setdefault(key, op)
            # A second equal op of the same call is the gradient's own, which also exists without
            # recomputation.
            if first is op or (calls and (first.name, calls) in self._taken):
                return
            equal = list(first.outputs)
            if calls:
                self._taken.add((first.name, calls))
                self.twins[op.name] = first
        self._first.update(zip((tensor.name for tensor in op.outputs), equal, strict=True))
        if calls:
            self.calls[op.name] = calls

    def _key(self, op: tf.Operation, inputs: Sequence[tf.Tensor]) -> Hashable | None:
        """Return a key that equal ops share; None where equality cannot be told."""
        names = tuple(tensor.name for tensor in inputs)
        if op.type == "ReadVariableOp":
            return op.type, names, self._writes[names[0]], op.get_attr("dtype")
        if private.is_stateful(op):
            self._writes.update(tensor.name for tensor in inputs if tensor.dtype == tf.resource)
        if private.is_stateful(op) or op.type == "Placeholder":
            return None
        waits = tuple(control.name for control in op.control_inputs)
        return op.type, names, waits, op.device, private.attributes_of(op)
