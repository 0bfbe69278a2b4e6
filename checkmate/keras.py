"""Memory figures for Keras users: ``MemoryReport``, a callback of ``fit``.

Only this package imports Keras, and only where something of it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkmate.training.memory_report import MemoryReport as MemoryReport

__all__ = ["MemoryReport"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("checkmate.training.memory_report"), name)
