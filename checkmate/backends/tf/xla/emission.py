"""Say for which target a step is emitted, also to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from checkmate.backends.tf.xla.ties import WaitPolicy


@dataclass(frozen=True)
class XlaEmission:
    """How a step is emitted for XLA.

    ``tied``: which steps of a schedule wait. ``compiled``: False: the same ops run one after the other, to
    compare bits. ``region``: bytes that a CPU's allocator fetches in one piece before the first step.
    """

    tied: WaitPolicy = WaitPolicy.RUNS
    compiled: bool = True
    region: int = 0

    def op_by_op(self) -> XlaEmission:
        return replace(self, compiled=False)

    def to_json(self) -> dict[str, Any]:
        return {"tied": self.tied.name, "compiled": self.compiled, "region": self.region}


def emission_of(task: Mapping[str, Any]) -> XlaEmission | None:
    """Return how the step of a task is emitted; None: for the executor."""
    said = task.get("xla")
    if said is None:
        return None
    return XlaEmission(WaitPolicy[said["tied"]], bool(said["compiled"]), int(said["region"]))
