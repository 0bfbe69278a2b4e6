"""A JAX step as one flat list of equations, and what its primitives cost.

Calls are inlined, what nobody reads is left out, and equal equations are one, as XLA would have it. Where
the barriers of a ``jax.checkpoint`` were taken out, it so leaves no trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

Atom: TypeAlias = int | Literal  # a value's number, or a constant

# Calls whose body is inlined, and the parameter that holds it.
CALLS: Mapping[str, str] = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
}


@dataclass(frozen=True, eq=False)
class Equation:
    """One equation. ``source``: JAX's equation; ``inputs`` and ``outputs``: numbers of this program's
    values."""

    source: JaxprEqn
    inputs: tuple[Atom, ...]
    outputs: tuple[int, ...]
    stack: str

    @property
    def name(self) -> str:
        return str(self.source.primitive.name)

    @property
    def has_effects(self) -> bool:
        return bool(self.source.effects)

    @property
    def reads(self) -> tuple[int, ...]:
        return tuple(atom for atom in self.inputs if isinstance(atom, int))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        primitive = self.source.primitive
        with self.source.ctx.manager:
            found = primitive.bind(*inputs, **primitive.get_bind_params(self.source.params))
        return list(found) if primitive.multiple_results else [found]


@dataclass(frozen=True, eq=False)
class Program:
    """Equations in a valid order. ``avals``: shape and type of each value. ``constants``: captured arrays, by
    value. ``results``: what the step returns."""

    arguments: tuple[int, ...]
    constants: Mapping[int, Any]
    equations: tuple[Equation, ...]
    results: tuple[Atom, ...]
    avals: tuple[Any, ...]

    def bytes_of(self, value: int) -> int:
        return aval_bytes(self.avals[value])

    def given(self, arguments: Sequence[Any]) -> dict[int, Any]:
        """The values known before the first equation: arguments and constants."""
        return {**dict(zip(self.arguments, arguments, strict=True)), **self.constants}

    def returned(self, values: Mapping[int, Any]) -> list[Any]:
        return [read(atom, values) for atom in self.results]


def read(atom: Atom, values: Mapping[int, Any]) -> Any:
    return atom.val if isinstance(atom, Literal) else values[atom]


def aval_bytes(aval: Any) -> int:
    size, dtype = getattr(aval, "size", None), getattr(aval, "dtype", None)
    return 0 if size is None or dtype is None else int(size) * int(dtype.itemsize)


def shape_of(leaf: Any) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    found = jax.typeof(leaf)
    return jax.ShapeDtypeStruct(found.shape, found.dtype, weak_type=found.weak_type)


def read_program(closed: ClosedJaxpr) -> Program:
    reader = _EquationReader()
    arguments = tuple(reader.new(var.aval) for var in closed.jaxpr.invars)
    results = reader.inline(closed.jaxpr, closed.consts, arguments, "")
    equations, wanted = _needed(reader.equations, results)
    constants = {value: array for value, array in reader.constants.items() if value in wanted}
    return Program(arguments, constants, equations, tuple(results), tuple(reader.avals))


@dataclass
class _EquationReader:
    equations: list[Equation] = field(default_factory=list)
    avals: list[Any] = field(default_factory=list)
    constants: dict[int, Any] = field(default_factory=dict)
    _known: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)
    _constant_of: dict[int, int] = field(default_factory=dict)

    def new(self, aval: Any) -> int:
        self.avals.append(aval)
        return len(self.avals) - 1

    def inline(self, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Atom], stack: str) -> list[Atom]:
        values: dict[Any, Atom] = dict(zip(jaxpr.invars, inputs, strict=True))
        values.update(
            (var, self._constant(array)) for var, array in zip(jaxpr.constvars, consts, strict=True)
        )

        def read(atom: Any) -> Atom:
            found: Atom = atom if isinstance(atom, Literal) else values[atom]
            return found

        for equation in jaxpr.eqns:
            here = _joined(stack, str(equation.source_info.name_stack))
            found = self._equation(equation, [read(atom) for atom in equation.invars], here)
            values.update(zip(equation.outvars, found, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: JaxprEqn, inputs: list[Atom], stack: str) -> Sequence[Atom]:
        body = _body_of(equation)
        if body is not None:
            known = self._known
            if equation.params.get("differentiated") and equation.params.get("prevent_cse"):
                self._known = {}
            found = self.inline(body[0], body[1], inputs, stack)
            self._known = known
            return found
        key = _key_of(equation, inputs)
        if key is not None and key in self._known:
            return self._known[key]
        outputs = tuple(self.new(var.aval) for var in equation.outvars)
        self.equations.append(Equation(equation, tuple(inputs), outputs, stack))
        if key is not None:
            self._known[key] = outputs
        return outputs

    def _constant(self, array: Any) -> int:
        if id(array) not in self._constant_of:
            value = self.new(jax.typeof(array))
            self._constant_of[id(array)], self.constants[value] = value, array
        return self._constant_of[id(array)]


def _joined(outer: str, inner: str) -> str:
    return f"{outer}/{inner}" if outer and inner else outer or inner


def _body_of(equation: JaxprEqn) -> tuple[Jaxpr, Sequence[Any]] | None:
    name = CALLS.get(str(equation.primitive.name))
    body = None if name is None else equation.params.get(name)
    if isinstance(body, ClosedJaxpr):
        jaxpr, consts = body.jaxpr, body.consts
    elif isinstance(body, Jaxpr) and not body.constvars:
        jaxpr, consts = body, ()
    else:
        return None
    return (jaxpr, consts) if len(jaxpr.invars) == len(equation.invars) else None


def _key_of(equation: JaxprEqn, inputs: Sequence[Atom]) -> Hashable | None:
    """Return a key that equal equations share; None where equality cannot be told."""
    if equation.effects:
        return None
    atoms = tuple(atom if isinstance(atom, int) else (str(atom.aval), repr(atom.val)) for atom in inputs)
    key = (equation.primitive, atoms, tuple(sorted(equation.params.items(), key=lambda item: item[0])))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _needed(equations: Sequence[Equation], results: Sequence[Atom]) -> tuple[tuple[Equation, ...], set[int]]:
    wanted = {atom for atom in results if isinstance(atom, int)}
    kept: list[Equation] = []
    for equation in reversed(equations):
        if equation.has_effects or wanted.intersection(equation.outputs):
            kept.append(equation)
            wanted.update(equation.reads)
    return tuple(reversed(kept)), wanted


# Operations for an element, of those that take more than one. Counted roughly: what matters is their ratio.
_HEAVY = {
    **dict.fromkeys(
        ("exp", "exp2", "log", "log2", "log1p", "expm1", "logistic", "tanh", "sin", "cos", "tan"), 20
    ),
    **dict.fromkeys(("erf", "erfc", "erf_inv", "pow", "cbrt", "lgamma", "digamma", "atan2"), 30),
    **dict.fromkeys(("div", "rem", "sqrt", "rsqrt"), 4),
    **dict.fromkeys(("random_bits", "threefry2x32", "random_wrap", "random_gamma"), 60),
}
_MANY = 20  # operations for an element: XLA for GPUs rather keeps than repeats what takes so many
DEAR = frozenset(name for name, count in _HEAVY.items() if count >= _MANY)
# fmt: off
ELEMENTWISE = frozenset(
    (
        "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh",
        "bitcast_convert_type", "cbrt", "ceil", "clamp", "clz", "conj", "convert_element_type",
        "copy", "copy_p", "cos", "cosh", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2",
        "expm1", "floor", "ge", "gt", "imag", "integer_pow", "is_finite", "le", "log", "log1p",
        "log2", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "not",
        "one_minus_square", "or", "population_count", "pow", "real", "reduce_precision", "rem",
        "round", "rsqrt", "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical",
        "sign", "sin", "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor",
    )
)
# fmt: on
_MOVING = frozenset(("broadcast_in_dim", "iota", "rev", "slice", "transpose", "pad"))
VIEWS = frozenset(("reshape", "squeeze", "expand_dims"))
REDUCTIONS = frozenset(
    ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "argmax", "argmin")
)
PRODUCTS = frozenset(("dot_general", "conv_general_dilated", "ragged_dot_general"))
FUSIBLE = ELEMENTWISE | _MOVING | VIEWS


def operations(
    name: str,
    params: Any,
    inputs: Iterable[Any],
    outputs: Iterable[Any],
    weight: Callable[[str, Any], float] = lambda name, aval: 1.0,
) -> float:
    """About how many operations an equation takes; ``weight``: what one of them counts for."""
    ins, outs = list(inputs), list(outputs)
    inside = sum(jaxpr_operations(body, weight) for body in bodies(params))
    if inside and not _reduces(name):
        return inside * int(params.get("length", 1))
    return _counted(name, params, ins, outs) * weight(name, ins[0] if ins else None)


def _reduces(name: str) -> bool:
    return name in REDUCTIONS or name.startswith(("reduce_", "cum"))


def _counted(name: str, params: Any, ins: Sequence[Any], outs: Sequence[Any]) -> float:
    made = sum(_size(aval) for aval in outs)
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return 2.0 * made * float(math.prod(ins[0].shape[axis] for axis in contracted))
    if name == "conv_general_dilated":
        kernel = ins[1].shape
        features = kernel[params["dimension_numbers"].rhs_spec[0]]
        return 2.0 * made * float(math.prod(kernel)) / max(1, int(features))
    if _reduces(name):
        return float(sum(_size(aval) for aval in ins))
    return float(_HEAVY.get(name, 0 if name in VIEWS else 1) * made)


def bodies(params: Any) -> list[Jaxpr]:
    found: list[Jaxpr] = []
    for value in params.values():
        for entry in value if isinstance(value, tuple | list) else (value,):
            if isinstance(entry, ClosedJaxpr):
                found.append(entry.jaxpr)
            elif isinstance(entry, Jaxpr):
                found.append(entry)
    return found


def jaxpr_operations(jaxpr: Jaxpr, weight: Callable[[str, Any], float]) -> float:
    return sum(
        operations(
            str(each.primitive.name),
            each.params,
            (atom.aval for atom in each.invars),
            (var.aval for var in each.outvars),
            weight,
        )
        for each in jaxpr.eqns
    )


def body_bytes(jaxpr: Jaxpr) -> int:
    """The bytes that one run of ``jaxpr`` holds at most, beside what goes in and out."""
    last: dict[Any, int] = {}
    for index, each in enumerate(jaxpr.eqns):
        last.update((atom, index) for atom in each.invars if not hasattr(atom, "val"))
    outside = {*jaxpr.invars, *jaxpr.constvars}
    outside.update(var for var in jaxpr.outvars if not hasattr(var, "val"))
    live = peak = 0
    for index, each in enumerate(jaxpr.eqns):
        made = sum(aval_bytes(var.aval) for var in each.outvars if var not in outside)
        inside = max((body_bytes(body) for body in bodies(each.params)), default=0)
        live += made
        peak = max(peak, live + inside)
        dead = {var for var in (*each.invars, *each.outvars) if not hasattr(var, "val")} - outside
        live -= sum(aval_bytes(var.aval) for var in dead if last.get(var, index) == index)
    return peak


def _size(aval: Any) -> int:
    return int(getattr(aval, "size", 0))
