"""What writes a file, and how its old and its new content are told apart by the program's own reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.errors import CheckmateError
from checkmate.formats import read_graph, read_schedule, write_graph, write_matrices, write_schedule
from checkmate.formats.exploration import SavedExploration, read_exploration, write_exploration
from checkmate.formats.files import put_in_place, staging
from checkmate.formats.schedule import read_certificate, write_certificate
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.machine.cost_store import CostStore, KnownCost
from checkmate.machine.plan_store import KeptPlan, PlanStore
from checkmate.sweeps.journal import open_journal
from tests.graphs_strategies import training_chain
from tests.unit.sweeps.counting import read_entries

OLD, NEW = "old", "new"


@dataclass(frozen=True)
class Operation:
    """``do(folder, which)`` writes the content; ``read(folder)`` says which is there, or "" for none."""

    do: Callable[[Path, str], None]
    read: Callable[[Path], str]


def _graph(which: str) -> Graph:
    return replace(training_chain(30), name=which)


def _result(which: str) -> SolveResult:
    graph = training_chain(30)
    plain = Schedule.plain(graph)
    found = planning.check_schedule(graph, plain.steps.tolist(), budget=9999)
    return SolveResult(
        SolveStatus.FEASIBLE, which, 9999, graph.base_cost, plain, found.cost, found.peak_bytes, None, 0.0
    )


def _there(path: Path, read: Callable[[], str]) -> str:
    return read() if path.exists() else ""


def _file(name: str, write: Callable[[Path, str], Any], read: Callable[[Path], str]) -> Operation:
    return Operation(
        lambda folder, which: write(folder / name, which),
        lambda folder: _there(folder / name, lambda: read(folder / name)),
    )


def _explored(which: str) -> SavedExploration:
    return SavedExploration(_graph(which), 99, (), ((5, 1.0),))


def _write_matrices(path: Path, which: str) -> None:
    graph = training_chain(30 if which == OLD else 31)
    write_matrices(path, graph, Schedule.plain(graph))


def _read_matrices(path: Path) -> str:
    import numpy as np

    with np.load(path) as found:
        return OLD if len(found["order"]) == 60 else NEW


def _write_journal(path: Path, which: str) -> None:
    with open_journal(path) as journal:
        journal.add(which, which, {"which": "x" * 300})


def _read_journal(path: Path) -> str:
    found = list(read_entries(path))
    assert found in ([], [OLD], [OLD, NEW], [NEW]), found
    return found[-1] if found else ""


def _cost(which: str) -> KnownCost:
    return KnownCost(0.5, 0.1, 5, 0, 1.0, which, "2.21", "2026-01-01", 0.1, 2, 0.1, 1)


def _write_costs(path: Path, which: str) -> None:
    store = CostStore(path)
    load = 0.1 if which == OLD else 0.0
    costs = {f"op {i}": replace(_cost(which), load=load) for i in range(40)}
    if not store.keep(costs):
        raise CheckmateError(store.problem)


def _read_costs(path: Path) -> str:
    store = CostStore(path)
    found = {cost.device for cost in store.look_up([f"op {i}" for i in range(40)]).values()}
    assert len(found) <= 1 and not store.problem, (found, store.problem)
    return found.pop() if found else ""


def _write_plan(path: Path, which: str) -> None:
    store = PlanStore(path)
    if not store.keep("key", KeptPlan(tuple(range(300)), 9, 1, 20, "", 0, 1.0, which, "2026-01-01")):
        raise CheckmateError(store.problem)


def _read_plan(path: Path) -> str:
    store = PlanStore(path)
    found = store.look_up("key")
    assert not store.problem, store.problem
    return "" if found is None else found.sentence


def _write_export(path: Path, which: str) -> None:
    with staging(path) as staged:
        for name in ("schedule.json", "graph.json", "report.json"):
            write_graph(staged / name, _graph(which))
        put_in_place(staged, path)


def _read_export(path: Path) -> str:
    found = {read_graph(path / name).name for name in ("schedule.json", "graph.json", "report.json")}
    assert len(found) == 1, found
    return found.pop()


def _certificate(which: str) -> dict[str, Any]:
    graph = training_chain(30)
    return {"graph_fingerprint": graph.fingerprint, "budget_bytes": 9, "claim": "cost",
            "cost": 0.0, "cuts": [], "graph": which, "proof": [{"sum": []}]}  # fmt: skip


OPERATIONS: dict[str, Operation] = {
    "graph": _file(
        "g.json", lambda path, which: write_graph(path, _graph(which)), lambda p: read_graph(p).name
    ),
    "graph.gz": _file(
        "g.json.gz", lambda path, which: write_graph(path, _graph(which)), lambda p: read_graph(p).name
    ),
    "schedule": _file(
        "s.json",
        lambda path, which: write_schedule(path, training_chain(30), _result(which)),
        lambda path: read_schedule(path, training_chain(30)).solver,
    ),
    "matrices": _file("m.npz", _write_matrices, _read_matrices),
    "certificate": _file(
        "c.json",
        lambda path, which: write_certificate(path, _certificate(which)),
        lambda path: str(read_certificate(path, training_chain(30))["graph"]),
    ),
    "exploration": _file(
        "e.json.gz",
        lambda path, which: write_exploration(path, _explored(which)),
        lambda path: read_exploration(path).graph.name,
    ),
    "journal": _file("j.jsonl", _write_journal, _read_journal),
    "cost cache": _file("costs/c.sqlite", _write_costs, _read_costs),
    "kept plan": _file("plans", _write_plan, _read_plan),
    "export": _file("out", _write_export, _read_export),
}
