"""Run pytest as on a machine without TensorFlow and without Qt.

``python -m tests.without_heavy_libraries PYTEST-ARGUMENTS``

The libraries cannot be imported, here and in every process that a test starts. Packages of their names, which
refuse to be imported, come first on the path.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

ABSENT = ("tensorflow", "keras", "h5py", "PySide6", "shiboken6", "pyqtgraph")


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        for name in ABSENT:
            refusal = f"raise ModuleNotFoundError({f'No module named {name!r}'!r}, name={name!r})\n"
            (Path(folder) / f"{name}.py").write_text(refusal)
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
        for name in ABSENT:
            try:
                __import__(name)
            except ModuleNotFoundError:
                continue
            raise SystemExit(f"{name} can still be imported")
        # pytest-qt cannot start without Qt, and strict configuration does not know that plugin's option then.
        lenient = "addopts=--strict-markers --import-mode=importlib -ra -m 'not heavy and not long'"
        return int(pytest.main(["-p", "no:pytest-qt", "-o", lenient, *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
