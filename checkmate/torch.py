"""Schedule PyTorch training steps within a memory budget.

``backend`` is for ``torch.compile``; ``rematerialize`` calls it. Only this package imports PyTorch, and only
where something of it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkmate.training.torch_module import backend as backend
    from checkmate.training.torch_module import rematerialize as rematerialize

__all__ = ["backend", "rematerialize"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("checkmate.training.torch_module"), name)
