"""Build the models of ``checkmate.catalog.zoo`` with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkmate.catalog.model_names import require_zoo_model
from checkmate.models.builtin import segmentation, sequence, training_variants, vision

_BUILDERS: dict[str, Callable[[], Any]] = {
    **vision.BUILDERS,
    **segmentation.BUILDERS,
    **sequence.BUILDERS,
    **training_variants.BUILDERS,
}


def build_zoo_model(name: str) -> Any:
    """Return the compiled model ``name``.

    Raises:
        LoadError: there is no such model.
    """
    require_zoo_model(name)
    return _BUILDERS[name]()
