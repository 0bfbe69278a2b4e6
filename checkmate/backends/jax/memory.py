"""What XLA holds for a compiled step, read without running it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StepMemory:
    """Bytes of one compiled step, by XLA's own buffer assignment.

    ``arguments`` and ``results`` are there before and after the step; ``shared`` of them are both, where
    arguments are donated. ``temporary`` is what it holds in between.
    """

    arguments: int
    results: int
    shared: int
    temporary: int

    @property
    def fixed(self) -> int:
        """Return the bytes that no schedule changes."""
        return self.arguments + self.results - self.shared

    @property
    def whole(self) -> int:
        return self.fixed + self.temporary


def memory_of(compiled: Any) -> StepMemory:
    """Return the memory of what ``jitted.lower(…).compile()`` gave."""
    found = compiled.memory_analysis()
    return StepMemory(
        int(found.argument_size_in_bytes),
        int(found.output_size_in_bytes),
        int(found.alias_size_in_bytes),
        int(found.temp_size_in_bytes),
    )
