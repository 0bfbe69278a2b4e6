"""How a notebook shows a value."""

from __future__ import annotations

from importlib import import_module


class Shown:
    """A value that a notebook shows as a picture with its figures."""

    def _repr_html_(self) -> str:
        # By name: what draws knows of all the values, and lies above them.
        return str(import_module("checkmate.notebook").html_of(self))
