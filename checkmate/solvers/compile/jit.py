"""Mark the functions that run as machine code.

They are written in the part of Python that numba can translate. Their translation is kept beside this file
(``compile.translate``), and becomes machine code once per machine (``compile.machine_code``); so neither
needs numba. A marked function stays a Python function: ``Kernel.plain`` and the parts run as they are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


class Marks(NamedTuple):
    """``inlined``: it becomes part of its callers. ``sums``: its sums are exact in any order."""

    inlined: bool = False
    sums: bool = False


class Kernel:
    """A kernel that Python calls. It runs without Python's global lock. ``plain``: the function itself."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        functools.update_wrapper(self, plain)
        self.plain = plain
        self.name = f"{plain.__module__.removeprefix('checkmate.solvers.')}.{plain.__name__}"
        self._run: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._run is None:
            from checkmate.solvers.compile.machine_code import machine_code

            self._run = machine_code().function(self.name)
        return self._run(*arguments)


def kernel(function: Function) -> Function:
    """Mark a kernel that Python calls; its first call loads machine code."""
    return cast(Function, Kernel(part(function)))


def part(function: Function) -> Function:
    """Mark a kernel that only kernels call."""
    return _marked(function, Marks())


def summing(function: Function) -> Function:
    """Mark a part that sums whole numbers: several are added at a time."""
    return _marked(function, Marks(sums=True))


def inlined(function: Function) -> Function:
    return _marked(function, Marks(inlined=True))


def marks_of(function: Any) -> Marks | None:
    """How ``function`` is translated; None if it is no kernel."""
    return getattr(function, "kernel_marks", None)


def _marked(function: Function, marks: Marks) -> Function:
    function.__dict__["kernel_marks"] = marks
    return function
