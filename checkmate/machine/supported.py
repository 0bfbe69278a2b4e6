"""Name the releases of TensorFlow and Keras that this program supports.

Neither is imported. The limits are those of ``pyproject.toml``, and ``.ci/nightly`` runs the oldest and the
newest. pip keeps to them. An environment made in another way is detected here, before TensorFlow takes
seconds to load.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import metadata

from checkmate.errors import UnsupportedVersionError

OLDEST, NEWEST = (2, 19), (2, 21)  # of TensorFlow, both included
OLDEST_KERAS = (3, 12)
# A variant replaces the plain package under the same import name; the first one found counts.
_TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu", "tensorflow-macos")
TENSORFLOW_RANGE = f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"
KERAS_RANGE = f">={OLDEST_KERAS[0]}.{OLDEST_KERAS[1]},<{OLDEST_KERAS[0] + 1}"
_COMMAND = f"pip install 'tensorflow{TENSORFLOW_RANGE}' 'keras{KERAS_RANGE}'"


def why_unsupported() -> str:
    """Return which release is unsupported and which is needed, or "". What is not installed is not judged."""
    found = versions((*_TENSORFLOWS, "keras"))
    name, tensorflow = next(((name, found[name]) for name in _TENSORFLOWS if name in found), ("", ""))
    if name and not OLDEST <= _release(tensorflow) <= NEWEST:
        also = "" if name == "tensorflow" else f" ({name})"
        return f"needs TensorFlow {_words(OLDEST)} to {_words(NEWEST)}; found {tensorflow}{also}"
    keras = found.get("keras", "")
    if keras and not OLDEST_KERAS <= _release(keras) < (OLDEST_KERAS[0] + 1,):
        return f"needs Keras {_words(OLDEST_KERAS)} or a later Keras {OLDEST_KERAS[0]}; found {keras}"
    return ""


def require_supported() -> None:
    """Raise unless the installed TensorFlow and Keras are supported.

    Raises:
        UnsupportedVersionError: one is not; the hint is the command that repairs it.
    """
    problem = why_unsupported()
    if problem:
        raise UnsupportedVersionError(f"Checkmate {problem}", hint=_COMMAND)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _words(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


def versions(libraries: Sequence[str]) -> dict[str, str]:
    """Return the versions of the installed ones of ``libraries``, by name.

    Names are those of the package index.
    """
    found = {}
    for name in libraries:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
