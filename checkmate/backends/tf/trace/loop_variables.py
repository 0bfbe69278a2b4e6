"""Tell which variables a loop reads, also in what it calls, and which op keeps it from taking their values
instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.loop_roles import Loop
from checkmate.backends.tf.trace.walks import without_identities

_OF_VALUES = frozenset({"ReadVariableOp", "VariableShape"})

Use = tuple[tf.Operation, int | None]
"""An op with effects, or that is given a variable; the number of the loop's input that the variable is."""


def reads_of(loop: Loop) -> dict[int, tf.Tensor] | None:
    """Return the variables that a loop's body reads, by input number, each with what is read; None where
    there is a hindrance."""
    return None if hindrance(loop) is not None else _reads_of(loop)


def hindrance(loop: Loop) -> Use | None:
    """Return the first op of a loop's body that has a side effect beside the loop's writes, or by which a
    variable may differ between iterations otherwise."""
    writes, read = {write.name for write in loop.writes.values()}, _reads_of(loop)
    for op, number in _uses(loop.body, _variables_of(loop)):
        if op.graph is loop.body and op.name in writes:
            continue
        known = number in loop.fixed or number in loop.writes
        if op.type in _OF_VALUES and known and op.outputs[0].shape.is_fully_defined():
            continue
        if private.is_stateful(op) or number in read:
            return op, number
    return None


def _reads_of(loop: Loop) -> dict[int, tf.Tensor]:
    uses = _uses(loop.body, _variables_of(loop))
    return {
        number: op.outputs[0] for op, number in uses if op.type == "ReadVariableOp" and number is not None
    }


def _variables_of(loop: Loop) -> dict[int, int]:
    places = enumerate(loop.body.inputs)
    return {number: number for number, place in places if place.dtype == tf.resource}


def _uses(function: Any, variables: Mapping[int, int]) -> Iterator[Use]:
    """Yield the uses in ``function`` and in what it calls. ``variables``: its inputs → the loop's inputs."""
    places = {id(function.inputs[inner]): number for inner, number in variables.items()}
    for op in function.get_operations():
        if op.type in ("Placeholder", "Identity"):
            continue
        behind = enumerate(id(without_identities(tensor)) for tensor in op.inputs)
        given = {inner: places[place] for inner, place in behind if place in places}
        called = private.called_bodies(op) if private.takes_values(op) else {}
        for body in called.values():
            before = len(op.inputs) - len(body.inputs)  # a branch is not given the condition
            yield from _uses(body, {inner - before: number for inner, number in given.items()})
        if not called and (private.is_stateful(op) or given):
            yield op, next(iter(given.values()), None)
