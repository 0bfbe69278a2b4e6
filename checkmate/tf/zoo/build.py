"""From a name of ``checkmate.zoo`` to the compiled model, its weights random."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from checkmate.errors import LoadError
from checkmate.tf.zoo import segmentation, sequence, training, vision
from checkmate.zoo import ZOO

_BUILDERS: dict[str, Callable[[], Any]] = {
    **vision.BUILDERS,
    **segmentation.BUILDERS,
    **sequence.BUILDERS,
    **training.BUILDERS,
}


def build_zoo_model(name: str) -> Any:
    """The compiled model ``name``.

    Raises:
        LoadError: there is no such model.
    """
    builder = _BUILDERS.get(name)
    if builder is None:
        names = [model.name for model in ZOO]
        close = get_close_matches(name, names, n=1)
        hint = f"did you mean zoo.{close[0]}?" if close else f"there are: {', '.join(names)}"
        raise LoadError(f"the zoo has no model {name!r}", hint=hint)
    return builder()
