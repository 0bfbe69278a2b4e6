"""Costs that an earlier profile of this machine measured: what of a step is known, and what a new profile adds.

Nodes of one signature in a step are one entry, with the mean of their costs, so that a step's total stays what it was.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import tensorflow as tf

from checkmate.cost_store import ENOUGH_RUNS, CostStore, KnownCost
from checkmate.ir.graph import Graph
from checkmate.tf.fold import FoldedStep
from checkmate.tf.signatures import signatures

NOISY = 0.1  # spread over the median


@dataclass(frozen=True)
class NodeCosts:
    """What one profile found, per node: seconds, spread over the median, workspace; from ``runs`` runs.

    ``slack``: bytes the allocator showed per byte requested.
    """

    seconds: tuple[float, ...]
    spread: tuple[float, ...]
    workspace: tuple[int, ...]
    runs: int
    slack: float

    @property
    def noisy(self) -> int:
        """How many nodes' costs differ from run to run, those that hardly matter left out."""
        least = 1e-3 * sum(self.seconds)
        return sum(s > NOISY and c > least for s, c in zip(self.spread, self.seconds, strict=True))


@dataclass(frozen=True, eq=False)
class Known:
    """What ``store`` knows of a step's nodes. ``entries``: per signature, those of too few runs included."""

    keys: tuple[str, ...]
    entries: Mapping[str, KnownCost]
    store: CostStore | None

    @classmethod
    def of(cls, folded: FoldedStep, store: CostStore | None, *, refresh: bool) -> Known:
        """Look every node up; nothing is known where there is no store, or where all is to be measured anew."""
        if store is None:
            return cls((), {}, None)
        keys = tuple(signatures(folded))
        return cls(keys, {} if refresh else store.look_up(keys), store)

    def entry(self, node: int) -> KnownCost | None:
        """What is known of ``node`` well enough not to be measured."""
        found = self.entries.get(self.keys[node]) if self.keys else None
        return found if found is not None and found.runs >= ENOUGH_RUNS else None

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that need not be measured."""
        return tuple(node for node in range(len(self.keys)) if self.entry(node) is not None)

    @property
    def is_all(self) -> bool:
        """Whether nothing is left to measure."""
        return bool(self.keys) and len(self.nodes) == len(self.keys)

    @property
    def runs_wanted(self) -> int:
        """How many runs the nodes that are not known well enough still need, at least 1."""
        had = [self.entries[key].runs if key in self.entries else 0 for key in self.keys]
        return max(1, ENOUGH_RUNS - min((runs for runs in had if runs < ENOUGH_RUNS), default=0))

    def costs(self) -> NodeCosts:
        """All costs, where all are known."""
        found = [self.entries[key] for key in self.keys]
        return NodeCosts(
            seconds=tuple(entry.seconds for entry in found),
            spread=tuple(entry.spread for entry in found),
            workspace=tuple(entry.workspace_bytes for entry in found),
            runs=min(entry.runs for entry in found),
            slack=max(entry.slack for entry in found),
        )

    def merged(self, measured: NodeCosts) -> NodeCosts:
        """``measured``, with what is known in the place of what was just measured of the same nodes.

        What these nodes took together then and now says how much busier the machine was: a busy machine only adds to a
        step's time, so the quicker of the two is believed, and the other is scaled to it. What an interrupted profile left is
        weighed by its runs.
        """
        if not self.entries:
            return measured
        had = [self.entries.get(key) for key in self.keys]
        before = sum(entry.seconds for entry in had if entry is not None)
        now = sum(cost for entry, cost in zip(had, measured.seconds, strict=True) if entry is not None)
        if before <= 0 or now <= 0:
            return measured
        quicker = min(before, now)
        total = sum(measured.seconds) * quicker / now
        seconds = [cost * quicker / now for cost in measured.seconds]
        spread, workspace = list(measured.spread), list(measured.workspace)
        for node, entry in enumerate(had):
            if entry is not None:
                known = self.entry(node) is not None
                weight = 1.0 if known else entry.runs / (entry.runs + measured.runs)
                seconds[node] += weight * (entry.seconds * quicker / before - seconds[node])
                spread[node] += weight * (entry.spread - spread[node])
                workspace[node] = entry.workspace_bytes if known else workspace[node]
        scale = total / sum(seconds)
        return replace(
            measured,
            seconds=tuple(scale * cost for cost in seconds),
            spread=tuple(spread),
            workspace=tuple(workspace),
        )

    def keep(self, costs: NodeCosts, graph: Graph, *, ended: bool) -> bool:
        """Keep ``costs`` (merged) of the nodes that were not known; not ``ended``: as so far, to be gone on from.

        Whether they are kept.
        """
        if self.store is None:
            return False
        sharing: dict[str, list[int]] = defaultdict(list)
        for node, key in enumerate(self.keys):
            if self.entry(node) is None:
                sharing[key].append(node)
        return self.store.keep({key: self._added(key, nodes, costs, graph, ended) for key, nodes in sharing.items()})

    def _added(self, key: str, nodes: Sequence[int], costs: NodeCosts, graph: Graph, ended: bool) -> KnownCost:
        mean = sum(costs.seconds[node] for node in nodes) / len(nodes)
        spread = math.sqrt(sum(costs.spread[node] ** 2 for node in nodes) / len(nodes))
        runs = costs.runs + (self.entries[key].runs if key in self.entries else 0)
        return KnownCost(
            seconds=float(mean),
            spread=float(spread),
            # What an interrupted profile leaves is never enough: workspace is only known in the end.
            runs=runs if ended else min(runs, ENOUGH_RUNS - 1),
            workspace_bytes=max(costs.workspace[node] for node in nodes),
            slack=float(costs.slack),
            device="" if graph.device is None else graph.device.name,
            version=str(tf.__version__),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def facts(self) -> dict[str, Any]:
        """For the graph's metadata: how many ops' costs were known, how many were measured now, and since when."""
        dates = sorted(self.entries[self.keys[node]].date for node in self.nodes)
        facts: dict[str, Any] = {"ops": len(dates), "measured_now": len(self.keys) - len(dates)}
        if dates:
            facts |= {"oldest": dates[0][:10], "newest": dates[-1][:10]}
        if self.store is not None and self.store.problem:
            facts["problem"] = self.store.problem
        return facts
