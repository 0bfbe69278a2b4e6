"""The memory figures of one step, as ``fit`` logs them."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class MemoryFigures:
    """Bytes, and the share of time that recomputing costs. None: not known."""

    peak: int | None = None
    budget: int | None = None
    activations: int | None = None
    recompute_overhead: float | None = None

    @property
    def logs(self) -> dict[str, int | float]:
        return {f"memory/{name}": value for name, value in asdict(self).items() if value is not None}
