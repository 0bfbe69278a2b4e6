"""Reuse costs that an earlier profile of this machine measured.

Nodes of a step with the same signature are one entry with the mean of their costs, so that the total of a
step stays the same. What was read on a busy machine counts as not known once the machine is quiet.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import tensorflow as tf

from checkmate.backends.tf.costs.signatures import signatures
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir.graph import Graph
from checkmate.machine.cost_store import ENOUGH_RUNS, CostStore, KnownCost
from checkmate.machine.load import Reading

NOISY = 0.1  # spread over the median


@dataclass(frozen=True)
class NodeCosts:
    """Hold what one profile found per node, from ``runs`` runs.

    ``seconds``; ``spread``: over the median; ``workspace``: bytes. ``slack``: bytes that the allocator showed
    per byte requested.
    ``reading``: how this profile read them. ``older``: how the nodes were read whose costs are not of this
    profile alone.
    ``reserves``: per node the bytes of outputs whose size no shape tells; 0: none, or not learned.
    ``pieces``: per node the requests that its workspace is made of, where they are known.
    """

    seconds: tuple[float, ...]
    spread: tuple[float, ...]
    workspace: tuple[int, ...]
    runs: int
    slack: float
    reading: Reading = field(default_factory=Reading)
    older: Mapping[int, Reading] = field(default_factory=dict)
    reserves: tuple[int, ...] = ()
    pieces: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def reading_facts(self) -> dict[str, Any]:
        """Return how far the costs can be trusted, for the graph's metadata.

        This is the most doubtful reading that matters, how many ops are doubtful, and their share of the
        cost.
        """
        total = sum(self.seconds)
        readings = [self.older.get(node, self.reading) for node in range(len(self.seconds))]
        doubtful = [node for node, reading in enumerate(readings) if reading.is_doubtful]
        costly = [
            reading for reading, cost in zip(readings, self.seconds, strict=True) if cost > 1e-3 * total
        ]
        worst = max(costly or readings or [self.reading], key=lambda reading: reading.doubt)
        return {
            "load": worst.load,
            "cores": worst.cores,
            "spread": worst.spread,
            "doubtful_ops": len(doubtful),
            "doubtful_share": sum(self.seconds[node] for node in doubtful) / total if total > 0 else 0.0,
        }

    @property
    def noisy(self) -> int:
        """Return how many nodes have costs that differ from run to run.

        Nodes that hardly matter are left out.
        """
        least = 1e-3 * sum(self.seconds)
        return sum(s > NOISY and c > least for s, c in zip(self.spread, self.seconds, strict=True))


@dataclass(frozen=True, eq=False)
class KnownCosts:
    """Hold what ``store`` knows about the nodes of a step.

    ``entries``: per signature, those of too few runs included. ``again``: doubtful entries are measured
    again, so they count as not known.
    """

    keys: tuple[str, ...]
    entries: Mapping[str, KnownCost]
    store: CostStore | None
    again: bool = False

    @classmethod
    def look_up(
        cls,
        folded: FoldedStep,
        store: CostStore | None,
        *,
        refresh: bool,
        is_quiet: Callable[[], bool] = lambda: False,
    ) -> KnownCosts:
        """Look every node up in ``store``.

        Nothing is known without a store, or with ``refresh``: then all is measured anew. ``is_quiet``: asked
        only if entries are doubtful; if it returns true, those are measured again.
        """
        if store is None:
            return cls((), {}, None)
        keys = tuple(signatures(folded))
        entries = {} if refresh else store.look_up(keys)
        return cls(
            keys, entries, store, any(entry.is_worth_another for entry in entries.values()) and is_quiet()
        )

    def entry(self, node: int) -> KnownCost | None:
        """Return the entry of ``node`` if it need not be measured, else None."""
        found = self.entries.get(self.keys[node]) if self.keys else None
        if found is None or not found.is_complete or (self.again and found.is_worth_another):
            return None
        return found

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(node for node in range(len(self.keys)) if self.entry(node) is not None)

    @property
    def is_all(self) -> bool:
        """Return whether nothing is left to measure."""
        return bool(self.keys) and len(self.nodes) == len(self.keys)

    @property
    def runs_wanted(self) -> int:
        """Return how many more runs the other nodes need, at least 1.

        The other nodes are those that are not known well enough.
        """
        unknown = [
            self.entries.get(self.keys[node]) for node in range(len(self.keys)) if self.entry(node) is None
        ]
        had = [0 if entry is None or entry.is_complete else entry.runs for entry in unknown]
        return max(1, ENOUGH_RUNS - min(had, default=0))

    def costs(self) -> NodeCosts:
        """Return the costs of all nodes; all must be known."""
        found = [self.entries[key] for key in self.keys]
        return NodeCosts(
            seconds=tuple(entry.seconds for entry in found),
            spread=tuple(entry.spread for entry in found),
            workspace=tuple(entry.workspace_bytes for entry in found),
            runs=min(entry.runs for entry in found),
            slack=max(entry.slack for entry in found),
            older={node: entry.reading for node, entry in enumerate(found)},
            reserves=tuple(entry.reserve_bytes for entry in found),
            pieces={node: _pieces_in(entry) for node, entry in enumerate(found) if entry.pieces},
        )

    def merged(self, measured: NodeCosts) -> NodeCosts:
        """Return ``measured`` with the known costs in place of new ones.

        What the known nodes took in all, then and now, tells how much busier the machine was. A busy machine
        only adds to the time of a step, so the quicker of the two is believed, and the other is scaled to it.
        The costs of an interrupted profile are weighted by its runs. A node that is measured again on purpose
        takes its new cost, unless that was read worse.
        """
        if not self.entries:
            return measured
        had = [self._entry_to_merge(node, measured.reading) for node in range(len(self.keys))]
        before = sum(entry.seconds for entry in had if entry is not None)
        now = sum(cost for entry, cost in zip(had, measured.seconds, strict=True) if entry is not None)
        if before <= 0 or now <= 0:
            return measured
        quicker = min(before, now)
        total = sum(measured.seconds) * quicker / now
        seconds = [cost * quicker / now for cost in measured.seconds]
        spread, workspace = list(measured.spread), list(measured.workspace)
        older: dict[int, Reading] = {}
        reserves = list(measured.reserves) or [0] * len(seconds)
        pieces = dict(measured.pieces)
        for node, entry in enumerate(had):
            if entry is not None:
                known = entry.is_complete
                older[node] = entry.reading if known else entry.reading.with_worse(measured.reading)
                weight = 1.0 if known else entry.runs / (entry.runs + measured.runs)
                seconds[node] += weight * (entry.seconds * quicker / before - seconds[node])
                spread[node] += weight * (entry.spread - spread[node])
                workspace[node] = entry.workspace_bytes if known else workspace[node]
                reserves[node] = entry.reserve_bytes if known else reserves[node]
                if known:
                    pieces |= {node: _pieces_in(entry)}
        scale = total / sum(seconds)
        return replace(
            measured,
            seconds=tuple(scale * cost for cost in seconds),
            spread=tuple(spread),
            workspace=tuple(workspace),
            older=older,
            reserves=tuple(reserves),
            pieces={node: held for node, held in pieces.items() if held},
        )

    def _entry_to_merge(self, node: int, now: Reading) -> KnownCost | None:
        """Return the entry of ``node`` to merge, or None.

        None: nothing is known, or the new reading ``now`` replaces it.
        """
        entry = self.entries.get(self.keys[node])
        measured_again = entry is not None and entry.is_complete and self.entry(node) is None
        return None if entry is None or (measured_again and now.replaces(entry.reading)) else entry

    def keep(self, costs: NodeCosts, graph: Graph, *, ended: bool) -> bool:
        """Keep the merged ``costs`` of the nodes that were not known.

        Without ``ended`` they are kept as unfinished, for a later profile to continue. Returns whether any
        cost was kept: the store keeps what was read better before.
        """
        if self.store is None:
            return False
        sharing: dict[str, list[int]] = defaultdict(list)
        for node, key in enumerate(self.keys):
            if self.entry(node) is None:
                sharing[key].append(node)
        return self.store.keep(
            {key: self._new_entry(key, nodes, costs, graph, ended) for key, nodes in sharing.items()}
        )

    def _new_entry(
        self, key: str, nodes: Sequence[int], costs: NodeCosts, graph: Graph, ended: bool
    ) -> KnownCost:
        mean = sum(costs.seconds[node] for node in nodes) / len(nodes)
        largest = max(nodes, key=lambda node: costs.workspace[node])
        spread = math.sqrt(sum(costs.spread[node] ** 2 for node in nodes) / len(nodes))
        before = self.entries.get(key)
        unended = before if before is not None and not before.is_complete else None
        runs = costs.runs + (0 if unended is None else unended.runs)
        reading = costs.reading if unended is None else costs.reading.with_worse(unended.reading)
        return KnownCost(
            seconds=float(mean),
            spread=float(spread),
            # An interrupted profile never counts as complete: workspace is only known at the end.
            runs=runs if ended else min(runs, ENOUGH_RUNS - 1),
            workspace_bytes=costs.workspace[largest],
            slack=float(costs.slack),
            device="" if graph.device is None else graph.device.name,
            version=str(tf.__version__),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            load=float(reading.load),
            cores=reading.cores,
            step_spread=float(reading.spread),
            quiet=int(ended and not reading.is_busy),
            reserve_bytes=max((costs.reserves[node] for node in nodes), default=0) if costs.reserves else 0,
            pieces=",".join(map(str, costs.pieces.get(largest, ()))),
        )

    def facts(self) -> dict[str, Any]:
        """Return how many costs were known, for the graph's metadata.

        It also holds how many ops were measured now, and the dates of the known costs.
        """
        dates = sorted(self.entries[self.keys[node]].date for node in self.nodes)
        facts: dict[str, Any] = {"ops": len(dates), "measured_now": len(self.keys) - len(dates)}
        if dates:
            facts |= {"oldest": dates[0][:10], "newest": dates[-1][:10]}
        if self.store is not None and self.store.problem:
            facts["problem"] = self.store.problem
        return facts


def _pieces_in(entry: KnownCost) -> tuple[int, ...]:
    return tuple(int(number) for number in entry.pieces.split(",") if number)
