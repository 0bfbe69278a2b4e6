"""What the primitives of JAX cost, and which of them XLA fuses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr

from checkmate.backends.jax.program import aval_bytes

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
    """Return about how many operations an equation takes.

    ``weight`` says what one counts for, by the primitive and the first operand.
    """
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
    """Return the functions inside an equation: loops, branches."""
    found: list[Jaxpr] = []
    for value in params.values():
        for entry in value if isinstance(value, tuple | list) else (value,):
            if isinstance(entry, ClosedJaxpr):
                found.append(entry.jaxpr)
            elif isinstance(entry, Jaxpr):
                found.append(entry)
    return found


def jaxpr_operations(jaxpr: Jaxpr, weight: Callable[[str, Any], float]) -> float:
    """Return about how many operations one run of ``jaxpr`` takes, weighted."""
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
    """Return the bytes that one run of ``jaxpr`` holds at most.

    What goes in and out is not counted: it is an operand of the loop.
    """
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
