"""Constraints on a schedule: values always kept, ops never run again.

An op that runs once has its outputs retained from that run to their last use, because nothing else could make
them again. So both are the same to a solver: ``recomputable`` is cleared on the value's producer or on the
op. Solvers know nothing of constraints; what they prove holds for schedules that keep them, and the result's
assumptions say so.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import FormatError, SolverCrashedError, UnknownNameError
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.listeners import ForwardingListener
from checkmate.solvers.problem import Listener
from checkmate.solvers.retention import must_run_once, without_useless

NO_GRADIENT_RECOMPUTE = "no gradient recompute"  # as the paper's program states it
_NEAR = 3  # the most names that are suggested for an unknown one


@dataclass(frozen=True)
class Constraints:
    """Names of what is to be kept or run once; nothing by default.

    A layer is named by its path (``Op.group``). A name also stands for the layers nested in it (``encoder``
    for ``encoder/dense``), and ``*`` in it for any characters (``block1_*``).

    ``keep``: values that, once made, are retained until their last use.
    ``keep_groups``: layers whose ops' values are all kept.
    ``never_recompute``: ops that run once.
    ``never_recompute_groups``: layers whose ops all run once.
    ``recompute_gradients``: whether backward and update ops may run more than once.
    """

    keep: tuple[str, ...] = ()
    keep_groups: tuple[str, ...] = ()
    never_recompute: tuple[str, ...] = ()
    never_recompute_groups: tuple[str, ...] = ()
    recompute_gradients: bool = True

    def __post_init__(self) -> None:
        for name in _NAMED:
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))

    @property
    def is_empty(self) -> bool:
        return self == Constraints()

    @property
    def assumptions(self) -> tuple[str, ...]:
        said = [
            *(f"value {name!r} always kept" for name in self.keep),
            *(f"layer {name!r} always kept" for name in self.keep_groups),
            *(f"op {name!r} never recomputed" for name in self.never_recompute),
            *(f"layer {name!r} never recomputed" for name in self.never_recompute_groups),
        ]
        return tuple(said if self.recompute_gradients else [*said, NO_GRADIENT_RECOMPUTE])

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: list(getattr(self, name)) for name in _NAMED},
            "recompute_gradients": self.recompute_gradients,
        }

    @classmethod
    def from_json(cls, data: Any) -> Constraints:
        """Read what ``to_json`` returned; fields may be left out. A FormatError names a wrong field."""
        if not isinstance(data, Mapping):
            raise FormatError(f"constraints: {data!r} is not an object")
        unknown = sorted(set(data) - {field.name for field in fields(cls)})
        if unknown:
            raise FormatError(f"constraints: there is no field {unknown[0]!r}")
        named: dict[str, tuple[str, ...]] = {}
        for name in _NAMED:
            entries = data.get(name, [])
            if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
                raise FormatError(f"constraints: {name} is {entries!r}, not a list of names")
            named[name] = tuple(entries)
        gradients = data.get("recompute_gradients", True)
        if not isinstance(gradients, bool):
            raise FormatError(f"constraints: recompute_gradients is {gradients!r}, neither true nor false")
        return cls(**named, recompute_gradients=gradients)

    @classmethod
    def named(
        cls,
        graph: Graph,
        *,
        keep: Iterable[str] = (),
        never_recompute: Iterable[str] = (),
        recompute_gradients: bool = True,
    ) -> Constraints:
        """Sort names that a user writes into values, ops and layers; UnknownNameError if one is neither."""
        names = _Names(graph)
        values, kept_layers = _split(keep, names.values, names, "value or layer")
        ops, once_layers = _split(never_recompute, names.ops, names, "op or layer")
        return cls(values, kept_layers, ops, once_layers, recompute_gradients)


_NAMED = ("keep", "keep_groups", "never_recompute", "never_recompute_groups")


class _Names:
    """What a graph's names stand for: ids of values, indices of ops."""

    def __init__(self, graph: Graph) -> None:
        self.values: dict[str, list[int]] = {}
        self.ops: dict[str, list[int]] = {}
        self.groups: dict[str, list[int]] = {}
        for value, entry in enumerate(graph.values):
            self.values.setdefault(entry.name, []).append(value)
        for index, op in enumerate(graph.ops):
            self.ops.setdefault(op.name, []).append(index)
            self.groups.setdefault(op.group, []).append(index)
        self.groups.pop("", None)

    def ops_of_layer(self, name: str) -> list[int]:
        inside, pattern = name.rstrip("/") + "/", name.replace("[", "[[]").replace("?", "[?]")
        return [
            op
            for group, ops in self.groups.items()
            if name
            and (group == name or group.startswith(inside) or ("*" in name and fnmatchcase(group, pattern)))
            for op in ops
        ]


def _split(
    given: Iterable[str], exact: Mapping[str, Any], names: _Names, kind: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    own: list[str] = []
    layers: list[str] = []
    for name in given:
        if name not in exact and not names.ops_of_layer(name):
            raise _unknown(kind, name, [*exact, *names.groups])
        (own if name in exact else layers).append(name)
    return tuple(own), tuple(layers)


def _unknown(kind: str, name: str, known: Sequence[str]) -> UnknownNameError:
    lowered = {entry.lower(): entry for entry in reversed(known)}
    alike = [lowered[entry] for entry in difflib.get_close_matches(name.lower(), lowered, _NEAR, 0.6)]
    inside = [entry for entry in known if name and name.lower() in entry.lower()]
    return UnknownNameError(kind=kind, name=name, near=tuple(dict.fromkeys([*alike, *inside]))[:_NEAR])


def _constrained_ops(graph: Graph, constraints: Constraints) -> Iterator[int]:
    names = _Names(graph)
    for name in constraints.keep:
        if name not in names.values:
            raise _unknown("value", name, list(names.values))
        # A fixed value has no producer: it is always live.
        yield from (int(op) for op in graph.producer[names.values[name]] if op >= 0)
    for name in constraints.never_recompute:
        if name not in names.ops:
            raise _unknown("op", name, list(names.ops))
        yield from names.ops[name]
    for name in (*constraints.keep_groups, *constraints.never_recompute_groups):
        ops = names.ops_of_layer(name)
        if not ops:
            raise _unknown("layer", name, list(names.groups))
        yield from ops


def run_once(graph: Graph, constraints: Constraints) -> NDArray[np.bool_]:
    """bool[n]: whether the graph or a constraint forbids a second run; UnknownNameError for a wrong name."""
    once = must_run_once(graph, recompute_gradients=constraints.recompute_gradients)
    once[list(_constrained_ops(graph, constraints))] = True
    return once


def constrained(graph: Graph, constraints: Constraints) -> Graph:
    """Return ``graph`` with ``recomputable`` cleared for the constraints; ``graph`` itself if none clears it.

    Otherwise the new graph has its own fingerprint, and ``result_for_original`` takes its schedules back.
    Raises what ``run_once`` raises.
    """
    once = run_once(graph, constraints)
    if not (once & graph.recomputable).any():
        return graph
    ops = tuple(replace(op, recomputable=not once[index]) for index, op in enumerate(graph.ops))
    return replace(graph, ops=ops, declared_fingerprint=None)


def start_for_constrained(graph: Graph, limited: Graph, start: Schedule | None) -> Schedule | None:
    """Return ``start``, a schedule of ``graph``, as one of ``limited``; None if it was made for another
    graph.

    What may not run again is held from its first run instead, so it may need more memory than ``start``.
    """
    if start is None or start.graph_fingerprint == limited.fingerprint:
        return start
    if not graph.accepts_fingerprint(start.graph_fingerprint):
        return None
    stays = start.first_occurrence | limited.recomputable[start.steps]
    return Schedule.of(limited, without_useless(limited, start.steps[stays].tolist()))


def result_for_original(
    graph: Graph, limited: Graph, constraints: Constraints, result: SolveResult
) -> SolveResult:
    """Return ``result``, found for ``limited``, for ``graph``, with the constraints among its assumptions.

    Raises SolverCrashedError if the steps are no schedule of ``graph`` within the budget, or break a
    constraint.
    """
    if constraints.is_empty:
        return result
    assumptions = merge_assumptions(result.assumptions, constraints.assumptions)
    if result.schedule is None:
        message = result.message
        if result.status in (SolveStatus.INFEASIBLE, SolveStatus.LIMIT):
            reason = message or "no schedule was found"
            message = f"{reason}, with these constraints: {list_assumptions(constraints.assumptions)}"
        return replace(result, assumptions=assumptions, message=message)
    steps = result.schedule.steps.tolist()
    # The check on the limited graph counts the runs. The check on the original is the one that its owner will
    # make.
    reports = [check(at, steps, budget_bytes=result.budget_bytes) for at in (graph, limited)]
    if not all(report.ok for report in reports):
        said = next(
            (v.message for report in reports for v in report.violations), f"peak {reports[0].peak_bytes}"
        )
        raise SolverCrashedError(f"solver {result.solver!r} broke a constraint: {said}")
    return replace(result, schedule=Schedule.of(graph, steps), assumptions=assumptions)


def merge_assumptions(first: Sequence[str], then: Sequence[str]) -> tuple[str, ...]:
    """Both lists of sentences, each sentence once."""
    return tuple(dict.fromkeys([*first, *then]))


def list_assumptions(assumptions: Sequence[str], most: int = 6) -> str:
    """The assumptions in one line; those beyond ``most`` are counted."""
    left = len(assumptions) - most
    return ", ".join([*assumptions[:most], *([f"and {left} more"] if left > 0 else [])])


class ConstrainedListener(ForwardingListener):
    """Adds the constraints to every bound."""

    def __init__(self, listener: Listener, constraints: Constraints) -> None:
        super().__init__(listener)
        self._added = constraints.assumptions

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        super().bound(lower_bound, merge_assumptions(assumptions, self._added))

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        super().bound_bytes(lower_bound_bytes, merge_assumptions(assumptions, self._added))
