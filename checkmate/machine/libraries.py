"""Which versions of libraries are installed; nothing is imported for it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata


def versions(libraries: Sequence[str]) -> dict[str, str]:
    """By name, of those of ``libraries`` (as the package index names them) that are there."""
    found = {}
    for name in libraries:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
