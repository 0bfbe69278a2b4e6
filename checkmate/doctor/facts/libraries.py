"""Compare the wanted versions of libraries with the installed ones.

Nothing is imported for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from checkmate.doctor.facts.values import Library

OWN, TENSORFLOW = "checkmate-explorer", "tensorflow"


def libraries_here() -> tuple[Library, ...]:
    """Return the libraries that the installed program requires.

    Empty where it is not installed, as in a bare checkout.
    """
    return tuple(_wanted_by(OWN, extra=""))


def cuda_packages_here() -> tuple[Library, ...]:
    """Return the CUDA packages that the installed TensorFlow requires. Empty where that is not known."""
    return tuple(_wanted_by(TENSORFLOW, extra="and-cuda"))


def _wanted_by(package: str, *, extra: str) -> Iterator[Library]:
    try:
        from packaging.requirements import InvalidRequirement, Requirement

        lines = metadata.requires(package) or []
    except (ModuleNotFoundError, metadata.PackageNotFoundError):
        return
    for line in lines:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            continue
        marker = wanted.marker
        if marker is not None and not marker.evaluate({"extra": extra}):
            continue
        if extra and (marker is None or marker.evaluate({"extra": ""})):
            continue  # also required without the extra
        installed = _version(wanted.name)
        fits = bool(installed) and wanted.specifier.contains(installed, prereleases=True)
        yield Library(wanted.name, str(wanted.specifier), installed, fits)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
