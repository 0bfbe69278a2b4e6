"""Say why a loop stays one op, and what would help."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.loop_roles import Loop
from checkmate.backends.tf.trace.loop_variables import hindrance
from checkmate.backends.tf.trace.loops import counted_trips
from checkmate.backends.tf.trace.trace import TracedStep
from checkmate.units import plural

_DRAWS = re.compile("Random|Rng|Multinomial|Truncated|^Stateful(Standard|Uniform)")
_WRITES = re.compile("Assign|Resource(Scatter|Apply|Sparse)")
_UNROLL = "a loop of Python, or unroll=True in a recurrent layer, would make ops that are planned one by one"
_SHOWN = 3  # loops that are named
LEAST_TRIPS = 4  # of a loop that is split


def sentences_on(traced: TracedStep, loops: Sequence[Loop]) -> tuple[str, ...]:
    """Return one sentence for each reason why some of ``loops`` are not split."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for loop in loops:
        names[_why(traced, loop)].append(loop.op.name)
    return tuple(f"{_named(found)} {why}" for why, found in names.items())


def _named(names: Sequence[str]) -> str:
    said = ", ".join(map(repr, names[:_SHOWN]))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the loop {said} stays" if len(names) == 1 else f"the loops {said}{more} stay"


def _why(traced: TracedStep, loop: Loop) -> str:
    if traced.whole_loops:
        return 'one op: XLA compiles the step; target="executor" would split it'
    found = hindrance(loop)
    if found is not None:
        return f"one op that runs once: {_why_once(traced, loop, *found)}"
    trips = counted_trips(loop.op)
    trips = private.noted_trips(loop.op) if trips is None else trips
    if trips is None:
        return "one op: nothing tells how often it runs; give it maximum_iterations"
    if trips < LEAST_TRIPS:
        return f"one op: it has {plural(trips, 'iteration')}; {_UNROLL}"
    return f"one op: what its gradient needs is kept in a way that is not recognised; {_UNROLL}"


def _why_once(traced: TracedStep, loop: Loop, op: tf.Operation, number: int | None) -> str:
    if _DRAWS.search(op.type):
        return (
            f"an iteration draws random numbers ({op.type}); "
            "draw them by tf.random.stateless_*, or by a layer of Keras"
        )
    if op.node_def.attr["_XlaMustCompile"].b:
        return f"XLA compiles {op.name!r} inside it; make that function with jit_compile=False"
    name = None if number is None else _variable(traced, loop, number)
    if name is None:
        return f"an iteration runs {op.name!r} ({op.type}); do that outside of the loop"
    if _WRITES.match(op.type):
        helps = "let it read that and then assign it once, such as by two layers in place of one called twice"
        if op.graph is not loop.body:
            helps = "let it assign that itself, not in a function, loop or branch inside it"
        return f"an iteration writes the variable {name!r} in a way that is not followed ({op.type}); {helps}"
    return (
        f"an iteration uses the variable {name!r} by {op.name!r} ({op.type}); "
        "read it before the loop, by tf.identity"
    )


def _variable(traced: TracedStep, loop: Loop, number: int) -> str | None:
    """Return the name of the variable given to ``loop``, Keras's path where it has one; None if it is not a
    variable, but a table, for example."""
    handle = loop.op.inputs[number]
    outside = {inner.name: outer for outer, inner in traced.graph.captures}.get(handle.name)
    known = [*getattr(traced.loaded.model, "variables", ()), *traced.variables]
    found = next((one for one in known if one.handle is outside), None)
    name = getattr(found, "path", getattr(found, "name", None))
    return None if name is None else str(name).removesuffix(":0")
