"""Barriers, selects and conditionals by which XLA keeps a schedule, as JAX's equations.

XLA merges equal computations, but not a copy whose operand depends on a later value. On GPUs and TPUs an
optimization barrier adds that dependency; it stays until memory is planned, and costs nothing. XLA:CPU
removes barriers before it orders the ops. There a select adds it: its predicate is computed from the later
value, and is always true. A select copies its operand unless it is fused into the reader.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from checkmate.backends.jax.fusions import Fusion
from checkmate.backends.jax.program import ELEMENTWISE, FUSIBLE, PRODUCTS, REDUCTIONS, Equation, Program
from checkmate.backends.xla_policy.for_cpu import Gate, Stage, ends_of_results, small_results, sums_of_large
from checkmate.backends.xla_policy.pooling import Windows, can_compare, compared_slope


def can_anchor(value: Any) -> bool:
    aval = jax.typeof(value)
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and aval.size > 0 and not jnp.issubdtype(dtype, jax.dtypes.extended)


def always(anchor: Any) -> Any:
    """Return a predicate that is true for every value of ``anchor``, which XLA does not find out."""
    element = lax.slice(anchor, (0,) * anchor.ndim, (1,) * anchor.ndim).reshape(())
    if jnp.issubdtype(element.dtype, jnp.complexfloating):
        element = lax.real(element)
    if element.dtype == jnp.bool_:
        bits = element.astype(jnp.uint32)
    elif jnp.issubdtype(element.dtype, jnp.floating):
        bits = lax.bitcast_convert_type(element, jnp.dtype(f"uint{8 * element.dtype.itemsize}"))
    else:
        bits = element
    return (bits | jnp.ones_like(bits)) != jnp.zeros_like(bits)


class Tie:
    """Makes operands depend on ``anchors``, without changing them."""

    def __init__(self, anchors: Sequence[Any]) -> None:
        self._anchors = tuple(anchors)
        self._predicate: Any = None

    def selected(self, value: Any) -> Any:
        if self._predicate is None:
            self._predicate = always(self._anchors[0])
        return jnp.where(self._predicate, value, jnp.zeros_like(value))

    def behind(self, values: Sequence[Any]) -> list[Any]:
        return list(lax.optimization_barrier((*values, *self._anchors))[: len(values)])


class Pin:
    """Makes values stay in memory, without changing them, by a conditional on one of ``arguments``.

    Where no predicate can be computed from any of them, nothing is pinned.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._anchor = next((value for value in arguments if can_anchor(value)), None)
        self._predicate: Any = None

    def value(self, value: Any) -> Any:
        if self._anchor is None:
            return value
        if self._predicate is None:
            self._predicate = always(self._anchor)
        return lax.cond(self._predicate, lambda kept: kept, jnp.zeros_like, value)


@dataclass(frozen=True)
class ForCpu:
    """What XLA:CPU needs for a program: values to pin in memory (``kept``), and values that only lead to
    results, such as weight gradients, to be computed early (``ends``)."""

    program: Program
    stages: Sequence[Stage[int]]
    kept: frozenset[int]
    ends: frozenset[int]

    @staticmethod
    def of(program: Program, fused: Sequence[Fusion]) -> ForCpu:
        stages = [stage_of(fusion) for fusion in fused]
        sizes = {value: program.bytes_of(value) for value in range(len(program.avals))}
        results = frozenset(atom for atom in program.results if isinstance(atom, int))
        kept = small_results(stages, sizes, readers=1) | sums_of_large(stages, sizes)
        return ForCpu(program, stages, kept - results, ends_of_results(stages, sizes, results))


def stage_of(fusion: Fusion) -> Stage[int]:
    names = {each.name for each in fusion.equations}
    made = {value for each in fusion.equations if each.name in ELEMENTWISE for value in each.outputs}
    return Stage(
        fusion.reads,
        fusion.writes,
        product=not names.isdisjoint(PRODUCTS),
        fuses=fusion.root.name not in PRODUCTS,
        cheap=names <= FUSIBLE,
        sums=fusion.root.name in REDUCTIONS,
        convolves="conv_general_dilated" in names,
        light=frozenset(made.intersection(fusion.writes)),
    )


class OnCpu:
    def __init__(self, help: ForCpu, arguments: Sequence[Any], *, gates: bool) -> None:
        self._help, self._gates, self._pin = help, gates, Pin(arguments)
        self._gate: Gate[Any] = Gate()

    def operands(self, index: int, values: Mapping[int, Any]) -> dict[int, Any]:
        # Only the smallest operand waits: a select copies that, and no more.
        stage, bytes_of = self._help.stages[index], self._help.program.bytes_of
        if not self._gate.waits(product=stage.product, end=self._help.ends.issuperset(stage.writes)):
            return {}
        sizes = sorted((bytes_of(value), value) for value in stage.reads)
        (least, value), (most, _) = sizes[0], sizes[-1]
        passed = self._gate.opened(least, most) if can_anchor(values[value]) else []
        if not passed:
            return {}
        predicate = reduce(operator.and_, map(always, passed))
        return {value: jnp.where(predicate, values[value], jnp.zeros_like(values[value]))}

    def keep(self, index: int, made: dict[int, Any]) -> None:
        stage = self._help.stages[index]
        kept = self._help.kept.intersection(stage.writes)
        made.update((value, self._pin.value(made[value])) for value in kept)
        if self._gates:
            ends = sorted(self._help.ends.intersection(stage.writes))
            anchors = [made[value] for value in ends if can_anchor(made[value])]
            self._gate.note(anchors, product=stage.product, sums=stage.sums)

    def made_by(self, each: Equation, inputs: Sequence[Any]) -> list[Any] | None:
        if each.name == "select_and_scatter_add" and can_compare(each.source.params["window_dimensions"]):
            slope, operand = inputs
            return [pooling_slope(slope, operand, each.source.params, self._pin)]
        return None


def scattered_late(slope: Any, operand: Any, params: Mapping[str, Any]) -> Any:
    """Return the result of ``select_and_scatter_add``, scattered into zeros that depend on ``slope``.

    XLA:GPU scatters the gradient of max pooling into a constant of zeros. It would share that with any
    earlier zeros of the same shape, for example those that a ReLU compares with, and hold them until the end.
    """
    zero, _ = lax.optimization_barrier((jnp.zeros((), operand.dtype), slope))
    chosen = jax.make_jaxpr(lambda one, other: params["select_prim"].bind(one, other))(zero, zero).jaxpr
    added = jax.make_jaxpr(lax.add)(zero, zero).jaxpr
    return lax.select_and_scatter_p.bind(
        operand,
        slope,
        zero,
        select_jaxpr=chosen,
        select_consts=(),
        scatter_jaxpr=added,
        scatter_consts=(),
        window_dimensions=params["window_dimensions"],
        window_strides=params["window_strides"],
        padding=params["padding"],
    )


def pooling_slope(slope: Any, operand: Any, params: Mapping[str, Any], pin: Pin) -> Any:
    """Return the result of ``select_and_scatter_add``, computed by comparisons."""
    windows = Windows(
        tuple(params["window_dimensions"]),
        tuple(params["window_strides"]),
        tuple(map(tuple, params["padding"])),
        tuple(slope.shape),
        tuple(operand.shape),
    )
    zero = jnp.zeros((), operand.dtype)
    padded = lax.pad(operand, zero, [(before, after, 0) for before, after in windows.padding])
    emit = _Comparing(windows, padded, slope, jnp.zeros((), slope.dtype), params["select_prim"], pin)
    return compared_slope(emit, range(len(windows.offsets)))


@dataclass(frozen=True, eq=False)
class _Comparing:
    windows: Windows
    padded: Any
    slope: Any
    zero: Any
    select: Any
    pin: Pin

    def element(self, place: int) -> Any:
        offset = self.windows.offsets[place]
        return lax.slice(self.padded, offset, self.windows.limits(offset), self.windows.strides)

    def inside(self, place: int) -> Any:
        found = None
        for axis, inside in self.windows.inside(self.windows.offsets[place]):
            whole = lax.broadcast_in_dim(jnp.asarray(inside), self.windows.made, (axis,))
            found = whole if found is None else found & whole
        return found

    def keeps(self, best: Any, other: Any) -> Any:
        return self.select.bind(best, other)

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        return jnp.where(condition, one, other)

    def place(self, number: int) -> Any:
        return jnp.uint8(number)

    def filled(self, number: int) -> Any:
        return jnp.full(self.windows.made, number, jnp.uint8)

    def keep(self, places: Any) -> Any:
        return self.pin.value(places)

    def put_back(self, places: Any, number: int) -> Any:
        chosen = jnp.where(places == number, self.slope, self.zero)
        shape, starts = self.windows.shape, self.windows.starts(self.windows.offsets[number])
        sizes = zip(starts, self.windows.made, self.windows.strides, shape, strict=True)
        room = [
            (start, length - start - ((count - 1) * stride + 1), stride - 1)
            for start, count, stride, length in sizes
        ]
        return lax.pad(chosen, jnp.zeros((), self.slope.dtype), room)
