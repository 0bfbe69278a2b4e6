"""Look up installed versions of libraries without importing them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata


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
