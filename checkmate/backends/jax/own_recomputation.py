"""Take the user's own recomputation out of a step: XLA may then merge what ``jax.checkpoint`` computes again
with the first, as ``program.py`` does. Inside of loops and branches it stays.
"""

from __future__ import annotations

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from checkmate.backends.jax.program import CALLS


def without_recomputation(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` without the barriers of ``jax.checkpoint``; itself where it has none."""
    found = [_freed(equation) for equation in jaxpr.eqns]
    changed = any(new is not old for new, old in zip(found, jaxpr.eqns, strict=True))
    return jaxpr.replace(eqns=found) if changed else jaxpr


def _freed(equation: JaxprEqn) -> JaxprEqn:
    params, name = dict(equation.params), CALLS.get(str(equation.primitive.name), "")
    body = params.get(name)
    inner = body.jaxpr if isinstance(body, ClosedJaxpr) else body
    if not isinstance(inner, Jaxpr):
        return equation
    freed = without_recomputation(inner)
    delayed = params.get("differentiated") and params.get("prevent_cse")
    if freed is inner and not delayed:
        return equation
    params[name] = body.replace(jaxpr=freed) if isinstance(body, ClosedJaxpr) else freed
    return equation.replace(params=params | ({"prevent_cse": False} if delayed else {}))
