"""Compile each kernel once, with one set of types, in the order of need.

numba compiles a kernel anew for every set of types that it is called with: a 32-bit number here, a 64-bit one
there. Left to itself it makes most kernels two to five times. Here each is compiled once, for the types that
its annotations name, and closed after that, so a caller's numbers are converted. Kernels that others need
come first, so several processes can share the work through the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, get_type_hints

import numba
import numpy as np
from numba.core.registry import CPUDispatcher
from numpy.typing import NDArray

# Each package with kernels names those that Python calls. The rest is found by following the calls.
_ROOMS = ("checkmate.solvers.sequence.kernel_types", "checkmate.solvers.chain.kernel_types")


@dataclass(frozen=True)
class KernelParts:
    """The kernels by name, in the order of need, and what each calls."""

    kernels: dict[str, Any]
    needs: dict[str, frozenset[str]]
    entries: tuple[str, ...]

    @cached_property
    def heights(self) -> dict[str, int]:
        """Return the length of the longest chain of kernels waiting for each."""
        heights = dict.fromkeys(self.kernels, 0)
        for name in reversed(self.kernels):
            for needed in self.needs[name]:
                heights[needed] = max(heights[needed], heights[name] + 1)
        return heights

    def compile(self, name: str) -> None:
        """Compile a kernel and what it needs, or load them from the cache."""
        kernel = self.kernels[name]
        if kernel.signatures:
            return
        for needed in self.needs[name]:
            self.compile(needed)
        self._compile_alone(kernel)

    def load(self) -> None:
        """Load what Python calls from the cache; the parts are inside it."""
        for name in self.entries:
            if not self.kernels[name].signatures:
                self._compile_alone(self.kernels[name])

    def _compile_alone(self, kernel: Any) -> None:
        """Compile a kernel whose parts are compiled already."""
        kernel.compile(self._types(kernel.py_func))
        # a second set of types would be compiled again, with all the kernels it needs
        kernel.disable_compile()

    def _types(self, function: Callable[..., Any]) -> tuple[Any, ...]:
        """Return numba's type of each argument."""
        hints = get_type_hints(function)
        hints.pop("return", None)
        own = function.__name__
        given = self._examples
        return tuple(given.get(f"{own}.{name}") or given[hint] for name, hint in hints.items())

    @cached_property
    def _examples(self) -> dict[Any, Any]:
        """Return numba's type for each annotation.

        If an annotation leaves the number of dimensions open, the key is the function and the argument's
        name.
        """
        found: dict[Any, Any] = {
            int: numba.int64,
            float: numba.float64,
            bool: numba.boolean,
            NDArray[np.int64]: numba.int64[::1],
        }
        for room in _ROOMS:
            found |= import_module(room).examples()
        return found


def find_parts() -> KernelParts:
    """Return all kernels; this loads numba and compiles nothing."""
    kernels: dict[str, Any] = {}
    needs: dict[str, frozenset[str]] = {}

    def visit(kernel: Any) -> None:
        if _name(kernel) in kernels:
            return
        called = list(_called(kernel))
        for needed in called:
            visit(needed)
        kernels[_name(kernel)] = kernel
        needs[_name(kernel)] = frozenset(_name(needed) for needed in called)

    entries = [entry for room in _ROOMS for entry in import_module(room).ENTRIES]
    for entry in entries:
        visit(entry)
    return KernelParts(kernels, needs, tuple(_name(entry) for entry in entries))


def _name(kernel: Any) -> str:
    """Return the kernel's name with its package and file."""
    return f"{kernel.py_func.__module__.removeprefix('checkmate.solvers.')}.{kernel.py_func.__name__}"


def _called(kernel: Any) -> Iterator[Any]:
    """Yield the kernels that ``kernel`` calls, also through inlined ones."""
    function = kernel.py_func
    for name in function.__code__.co_names:
        found = function.__globals__.get(name)
        if not isinstance(found, CPUDispatcher):
            continue
        if found.targetoptions.get("inline") == "always":
            yield from _called(found)
        else:
            yield found
