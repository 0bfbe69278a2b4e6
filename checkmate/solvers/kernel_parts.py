"""Compile each kernel once, with one set of types, what is needed first.

numba compiles a kernel anew for every set of types that it is called with: a 32-bit number here, a 64-bit one
there. Left to itself it makes most kernels two to five times. Here each is compiled once, for the types that its
annotations name, and closed after that: a caller's numbers are converted. Kernels that others need come first, so
several processes can share the work through the cache.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints

import numba
import numpy as np
from numba.core.registry import CPUDispatcher
from numpy.typing import NDArray

from checkmate.ir.graph import GraphBuilder

# What Python calls; the rest is found by following the calls.
_ENTRIES = (
    ("sequence_edit", "_load"),
    ("sequence_greedy", "fit"),
    ("sequence_greedy", "trim"),
    ("sequence_anneal", "anneal"),
    ("sequence_kick", "kick"),
    ("chain_kernel", "fill"),
)


@dataclass(frozen=True)
class Parts:
    """Holds the kernels by name, the needed ones first, and what each calls."""

    kernels: dict[str, Any]
    needs: dict[str, frozenset[str]]
    entries: tuple[str, ...]

    @cached_property
    def heights(self) -> dict[str, int]:
        """Count, per kernel, the longest chain of kernels that wait for it."""
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
        """Load what Python calls from the cache; the parts are inside."""
        for name in self.entries:
            if not self.kernels[name].signatures:
                self._compile_alone(self.kernels[name])

    def _compile_alone(self, kernel: Any) -> None:
        kernel.compile(self._types(kernel.py_func))
        kernel.disable_compile()  # a second set of types would be compiled again, with all that it needs

    def _types(self, function: Callable[..., Any]) -> tuple[Any, ...]:
        hints = get_type_hints(function)
        hints.pop("return", None)
        own = function.__name__
        given = self._examples
        return tuple(given.get(f"{own}.{name}") or given[hint] for name, hint in hints.items())

    @cached_property
    def _examples(self) -> dict[Any, Any]:
        """Return numba's type for each annotation.

        By function and name where an annotation leaves the number of dimensions open.
        """
        from checkmate.solvers.chain_kernel import Sizes
        from checkmate.solvers.chain_solver import tiny_table
        from checkmate.solvers.sequence_greedy import Scores, new_scores
        from checkmate.solvers.sequence_model import Model, build_model
        from checkmate.solvers.sequence_state import State, new_state

        tiny = GraphBuilder()
        tiny.op("a", (), (tiny.value("a", 2),), cost=1.0)
        model = build_model(tiny.build()).model
        table = tiny_table()
        return {
            int: numba.int64,
            float: numba.float64,
            bool: numba.boolean,
            Model: numba.typeof(model),
            State: numba.typeof(new_state(model, steps=1, seed=0)),
            Scores: numba.typeof(new_scores(model)),
            Sizes: numba.typeof(table.sizes),
            NDArray[np.int64]: numba.int64[::1],
            "fill.costs": numba.typeof(table.costs),
            "fill.least": numba.typeof(table.least_slots()),
        }


def find_parts() -> Parts:
    """Find all kernels; loads numba, compiles nothing."""
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

    homes = [(importlib.import_module(f"checkmate.solvers.{module}"), name) for module, name in _ENTRIES]
    entries = [getattr(module, name) for module, name in homes]
    for entry in entries:
        visit(entry)
    return Parts(kernels, needs, tuple(_name(entry) for entry in entries))


def _name(kernel: Any) -> str:
    return f"{kernel.py_func.__module__.rpartition('.')[2]}.{kernel.py_func.__name__}"


def _called(kernel: Any) -> Iterator[Any]:
    """Yield what ``kernel`` calls, also through what becomes part of it."""
    function = kernel.py_func
    for name in function.__code__.co_names:
        found = function.__globals__.get(name)
        if not isinstance(found, CPUDispatcher):
            continue
        if found.targetoptions.get("inline") == "always":
            yield from _called(found)
        else:
            yield found
