"""``python without_keras.py PROGRAM ARGUMENT …``: run a program without Keras and without this project.

TensorFlow does not rewrite its graphs, so that bits can be compared.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Refused(Loader):
    # TensorFlow asks where Keras is without importing it.
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        raise ImportError(f"{spec.name} is not there", name=spec.name)


class _Refusing(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        refused = name.split(".")[0] in ("keras", "tf_keras", "checkmate", "app", "tests")
        return ModuleSpec(name, _Refused()) if refused else None


if __name__ == "__main__":
    sys.meta_path.insert(0, _Refusing())
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
