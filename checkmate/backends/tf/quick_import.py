"""Import TensorFlow with less work, in processes of our own.

TensorFlow makes some 500,000 objects when it is imported, which Python's garbage collector looks at again and
again. Where JAX is installed TensorFlow imports it too, for a converter that is not used here. Without both,
the import takes a third less processor time. (It imports pandas as well, which Keras needs at once.)
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


def import_quickly() -> None:
    """Let a later import of TensorFlow or Keras take less time.

    What it made stays hidden from the garbage collector. That is for processes of our own only.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Find TensorFlow and Keras; hide JAX while one of them is imported."""

    def __init__(self) -> None:
        self._importing = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if self._importing:
            # Keras on JAX needs it, and is refused later, in a sentence.
            if name == "jax" and "keras.src.backend.jax" not in sys.modules:
                raise ModuleNotFoundError("no function of JAX is converted here", name=name)
            return None
        spec = PathFinder.find_spec(name, path) if name in ("tensorflow", "keras") else None
        if spec is not None and spec.loader is not None:
            # Each search makes a new loader, so no other import sees this.
            vars(spec.loader)["exec_module"] = self._without_collector(spec.loader.exec_module)
        return spec

    def _without_collector(self, execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def run(module: ModuleType) -> None:
            collects, self._importing = gc.isenabled(), True
            gc.disable()
            try:
                execute(module)
            finally:
                self._importing = False
                gc.freeze()
                if collects:
                    gc.enable()

        return run
