"""Schedule JAX training steps within a memory budget.

``rematerialize`` is a transform, as ``jax.checkpoint`` is one: it takes a step and returns a step. Only this
package imports JAX, and only where something of it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkmate.backends.jax.exported import JaxExport as JaxExport
    from checkmate.backends.jax.report import JaxReport as JaxReport
    from checkmate.training.jax_function import export as export
    from checkmate.training.jax_function import profile as profile
    from checkmate.training.jax_function import rematerialize as rematerialize
    from checkmate.training.jax_keras import report_of as report_of

_HOMES = {
    "JaxExport": "checkmate.backends.jax.exported",
    "JaxReport": "checkmate.backends.jax.report",
    "export": "checkmate.training.jax_function",
    "profile": "checkmate.training.jax_function",
    "rematerialize": "checkmate.training.jax_function",
    "report_of": "checkmate.training.jax_keras",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
