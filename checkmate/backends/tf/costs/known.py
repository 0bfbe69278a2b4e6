"""Reuse costs that an earlier profile of this machine measured.

Nodes with the same *signature* run the same kernels on as many bytes, with the same device, TensorFlow
version, threads and graph rewriting. A step's nodes of one signature share one entry, the mean of their
costs, which keeps the step's total. Costs measured on a busy machine are not reused on a quiet one."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.devices import kernels_here
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.errors import UsageError
from checkmate.ir import Graph
from checkmate.machine.cost_store import ENOUGH_RUNS, CostStore, KnownCost
from checkmate.machine.load import LoadMeter, Reading, usable_cores

_NOISY = 0.1  # spread over the median
_MATTERS = 1e-3  # share of a step's cost below which an op hardly matters

# The version of signatures and of how costs are measured. With a higher number older costs are not found.
_LAYOUT = 4
_SMALL = 16  # elements
# Names, hints and seeds: they change from trace to trace, but do not change what is computed.
_NO_MATTER = frozenset({"container", "shared_name", "seed", "seed2", "parallel_iterations", "debug_name"})


@dataclass(frozen=True)
class NodeCosts:
    """What one profile measured per node in ``runs`` runs.

    ``spread``: standard deviation over the median. ``workspace``: scratch bytes beyond the rules.
    ``reserves``: bytes of outputs whose size no shape tells. ``slack``: bytes on the allocator's meter per
    requested byte. ``older``: node → the reading of its cost, if that is not from this profile alone.
    ``pieces``: node → the single requests of its workspace."""

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
        """Return, for the metadata, the worst reading among costly ops, and the share of doubtful costs."""
        total = sum(self.seconds)
        readings = [(self.older.get(node, self.reading), cost) for node, cost in enumerate(self.seconds)]
        doubtful = [cost for reading, cost in readings if reading.is_doubtful]
        costly = [reading for reading, cost in readings if cost > _MATTERS * total]
        every = costly or [reading for reading, _ in readings] or [self.reading]
        worst = max(every, key=lambda reading: reading.doubt)
        return {
            "load": worst.load,
            "cores": worst.cores,
            "spread": worst.spread,
            "doubtful_ops": len(doubtful),
            "doubtful_share": sum(doubtful) / total if total > 0 else 0.0,
        }

    @property
    def noisy(self) -> int:
        least = _MATTERS * sum(self.seconds)
        return sum(s > _NOISY and c > least for s, c in zip(self.spread, self.seconds, strict=True))


@dataclass(frozen=True, eq=False)
class KnownCosts:
    """Stored costs of the nodes of a step. ``keys``: a signature per node. ``entries``: by signature, also
    unfinished ones of too few runs. ``again``: treat doubtful entries as unknown, to measure them again."""

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
        """Look every node up; nothing is known without a store, or with ``refresh``. ``is_quiet``: asked only
        if entries are doubtful."""
        if store is None:
            return cls((), {}, None)
        keys = tuple(signatures(folded))
        entries = {} if refresh else store.look_up(keys)
        again = any(entry.is_worth_another for entry in entries.values()) and is_quiet()
        return cls(keys, entries, store, again)

    def entry(self, node: int) -> KnownCost | None:
        found = self.entries.get(self.keys[node]) if self.keys else None
        if found is None or not found.is_complete or (self.again and found.is_worth_another):
            return None
        return found

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(node for node in range(len(self.keys)) if self.entry(node) is not None)

    @property
    def is_all(self) -> bool:
        return bool(self.keys) and len(self.nodes) == len(self.keys)

    @property
    def runs_wanted(self) -> int:
        unknown = [self.entries.get(key) for node, key in enumerate(self.keys) if self.entry(node) is None]
        had = [0 if entry is None or entry.is_complete else entry.runs for entry in unknown]
        return max(1, ENOUGH_RUNS - min(had, default=0))

    def costs(self) -> NodeCosts:
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
        """Return ``measured`` with stored costs in place of new ones where they are complete. Other programs
        only add to a step's time, so both profiles are scaled to whichever took less time for the stored
        nodes. Entries of an interrupted profile are averaged with the new costs, weighted by runs. A node
        that is measured again on purpose takes its new cost, unless that reading is worse."""
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
            if entry is None:
                continue
            weight, older[node] = 1.0, entry.reading
            if entry.is_complete:
                workspace[node], reserves[node] = entry.workspace_bytes, entry.reserve_bytes
                pieces[node] = _pieces_in(entry)
            else:
                weight = entry.runs / (entry.runs + measured.runs)
                older[node] = entry.reading.with_worse(measured.reading)
            seconds[node] += weight * (entry.seconds * quicker / before - seconds[node])
            spread[node] += weight * (entry.spread - spread[node])
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
        """Return the entry of ``node``; None: nothing is known, or the new reading ``now`` replaces it."""
        entry = self.entries.get(self.keys[node])
        measured_again = entry is not None and entry.is_complete and self.entry(node) is None
        return None if entry is None or (measured_again and now.replaces(entry.reading)) else entry

    def keep(self, costs: NodeCosts, graph: Graph, *, ended: bool) -> bool:
        """Keep the merged ``costs`` of the nodes that were not known; return whether any was kept. Without
        ``ended`` they are kept as unfinished, for a later profile to continue."""
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
        largest = max(nodes, key=lambda node: costs.workspace[node])
        runs, reading = costs.runs, costs.reading
        before = self.entries.get(key)
        if before is not None and not before.is_complete:
            runs, reading = runs + before.runs, reading.with_worse(before.reading)
        return KnownCost(
            seconds=float(sum(costs.seconds[node] for node in nodes) / len(nodes)),
            spread=float(math.sqrt(sum(costs.spread[node] ** 2 for node in nodes) / len(nodes))),
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
        dates = sorted(self.entries[self.keys[node]].date for node in self.nodes)
        facts: dict[str, Any] = {"ops": len(dates), "measured_now": len(self.keys) - len(dates)}
        if dates:
            facts |= {"oldest": dates[0][:10], "newest": dates[-1][:10]}
        if self.store is not None and self.store.problem:
            facts["problem"] = self.store.problem
        return facts


def _pieces_in(entry: KnownCost) -> tuple[int, ...]:
    return tuple(int(number) for number in entry.pieces.split(",") if number)


@dataclass(frozen=True)
class CostOptions:
    """``kind``: ``measured`` or ``analytic``. ``store``: keeps measured costs; they are looked up there
    unless ``refresh``. ``estimated``: called with the graph at analytic costs before anything is measured.
    ``meter``: tells whether the machine is quiet; then doubtful costs are measured again."""

    kind: str
    store: CostStore | None = None
    refresh: bool = False
    estimated: Callable[[Graph], object] | None = None
    meter: LoadMeter = field(default_factory=LoadMeter)

    def __post_init__(self) -> None:
        if self.kind not in ("analytic", "measured"):
            raise UsageError(f"unknown costs {self.kind!r}", hint="use measured or analytic")

    def look_up(self, folded: FoldedStep) -> KnownCosts:
        return KnownCosts.look_up(folded, self.store, refresh=self.refresh, is_quiet=self.meter.is_quiet)


def signatures(folded: FoldedStep) -> list[str]:
    around = json.dumps(_surroundings(folded), sort_keys=True)
    found: list[str] = []
    for node, members in enumerate(folded.nodes):
        facts = [around, str(folded.graph.ops[node].workspace_bytes), *_described(folded, members)]
        if any(_calls_function(folded.structure.ops[member]) for member in members):
            # No shape tells how often a loop runs, so its cost is valid for this very step only.
            facts.append(f"{folded.graph.fingerprint} {node}")
        found.append(hashlib.sha256("\n".join(facts).encode("utf-8")).hexdigest())
    return found


def _surroundings(folded: FoldedStep) -> dict[str, Any]:
    device = folded.graph.device
    return {
        "layout": _LAYOUT,
        "device": "" if device is None else f"{device.kind} {device.name}",
        "tensorflow": tf.__version__,
        "cores": usable_cores(),
        # 0: TensorFlow's own choice, which follows the cores.
        "threads": [
            tf.config.threading.get_intra_op_parallelism_threads(),
            tf.config.threading.get_inter_op_parallelism_threads(),
            os.environ.get("OMP_NUM_THREADS", ""),
        ],
        "kernels": kernels_here("cpu" if device is None else device.kind).value,
        "rewriting": sorted(map(str, tf.config.optimizer.get_experimental_options().items())),
        "jit": str(tf.config.optimizer.get_jit()),
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
    }


def _described(folded: FoldedStep, members: tuple[int, ...]) -> list[str]:
    structure = folded.structure
    places = {member: place for place, member in enumerate(members)}
    lines: list[str] = []
    for member in members:
        op = structure.ops[member]
        reads: list[list[Any]] = []
        for tensor in op.inputs:
            root = structure.root(tensor)
            inside = places.get(root[0], -1) if root is not None else -1
            # A few constant integers say what an op does: an axis, a permutation or a shape.
            value = _small_value(tensor) if tensor.dtype.is_integer else None
            reads.append([_kind(tensor), inside, None if value is None else value.ravel().tolist()])
        lines.append(json.dumps([op.type, _attributes(op), reads, [_kind(tensor) for tensor in op.outputs]]))
    return lines


def described_bodies(op: tf.Operation) -> Iterator[str]:
    """Yield lines on the functions that ``op`` calls, and its small numbers; names change from trace to
    trace."""
    if not _calls_function(op):
        return
    yield json.dumps([_small_numbers(tensor) for tensor in op.inputs])
    for attribute, name in private.called_functions(op):
        yield attribute
        yield from _described_body(private.function_body(op.graph, name))


def _described_body(body: Any) -> Iterator[str]:
    if body is None:
        yield "unknown"
        return
    ops = body.get_operations()
    places = {op.name: place for place, op in enumerate(ops)}
    for op in ops:
        reads = [[places.get(tensor.op.name, -1), tensor.value_index] for tensor in op.inputs]
        values = [_small_numbers(op.outputs[0])] if op.type == "Const" else []
        known = [] if op.type == "Const" else _attributes(op)
        yield json.dumps([op.type, known, reads, values, [_kind(tensor) for tensor in op.outputs]])
        yield from described_bodies(op)
    yield json.dumps([[places.get(tensor.op.name, -1), tensor.value_index] for tensor in body.outputs])


def _kind(tensor: tf.Tensor) -> str:
    seen = None if tensor.shape.is_fully_defined() else private.noted_elements(tensor)
    return f"{tensor.dtype.name} {tensor.shape}" + ("" if seen is None else f" {seen}")


def _attributes(op: tf.Operation) -> list[list[str]]:
    attributes = op.node_def.attr
    wanted = sorted(name for name in attributes if not name.startswith("_") and name not in _NO_MATTER)
    return [
        [name, attributes[name].SerializeToString(deterministic=True).hex()]
        for name in wanted
        if not private.is_function(attributes[name])
    ]


def _calls_function(op: tf.Operation) -> bool:
    return any(map(private.is_function, op.node_def.attr.values()))


def _small_value(tensor: tf.Tensor) -> Any:
    few = tensor.shape.is_fully_defined() and tensor.shape.num_elements() <= _SMALL
    return tf.get_static_value(tensor) if few else None


def _small_numbers(tensor: tf.Tensor) -> str:
    numbers = tensor.dtype.is_integer or tensor.dtype.is_floating or tensor.dtype.is_bool
    value = _small_value(tensor) if numbers else None
    return "" if value is None else str(value.tolist())
