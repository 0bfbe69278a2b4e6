"""Say how the costs of a step are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from checkmate.backends.tf.costs.cached import KnownCosts
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.errors import UsageError
from checkmate.ir.graph import Graph
from checkmate.machine.cost_store import CostStore
from checkmate.machine.load import LoadMeter


@dataclass(frozen=True)
class CostOptions:
    """Hold how the costs of a step are found.

    ``kind``: ``measured`` or ``analytic``. ``store``: earlier costs are looked up there, and new ones are
    kept there; None: neither. ``refresh``: nothing is looked up. ``estimated``: called with the graph with
    analytic costs before anything is measured, because that takes a while; not called if all costs are known.
    ``meter``: tells how busy the machine is. Costs that were read on a busy machine are measured again when
    it is quiet.

    Raises:
        UsageError: ``kind`` is neither.
    """

    kind: str
    store: CostStore | None = None
    refresh: bool = False
    estimated: Callable[[Graph], object] | None = None
    meter: LoadMeter = field(default_factory=LoadMeter)

    def __post_init__(self) -> None:
        if self.kind not in ("analytic", "measured"):
            raise UsageError(f"unknown costs {self.kind!r}", hint="use measured or analytic")

    def look_up(self, folded: FoldedStep) -> KnownCosts:
        """Return what the store knows about the nodes of ``folded``."""
        return KnownCosts.look_up(folded, self.store, refresh=self.refresh, is_quiet=self.meter.is_quiet)
