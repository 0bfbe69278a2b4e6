from __future__ import annotations

import importlib.util
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from checkmate.formats.graph import graph_to_json
from checkmate.ir import Graph, GraphBuilder, Phase
from checkmate.solvers.constraints import Constraints
from tests.generated_graphs import training_dag

SHARED = Path(__file__).resolve().parents[2] / "shared"


def random_graph(random: Random, *, least_ops: int = 1, most_ops: int = 9) -> Graph:
    """A graph with everything that memory depends on: several outputs per op, views (of fixed values, of
    inputs, of sibling outputs), take-overs (also impossible ones), zero sizes, workspace, ops that must run
    once, values nobody reads, values that are kept."""
    builder = GraphBuilder("random")
    available = [builder.value(f"fixed{i}", random.choice([0, 1, 2, 3])) for i in range(random.randint(0, 2))]
    for i in range(random.randint(least_ops, most_ops)):
        inputs = random.sample(available, min(len(available), random.randint(0, 3)))
        outputs: list[int] = []
        pairs: list[tuple[int, int]] = []
        for k in range(random.choice([1, 1, 1, 2, 2, 3])):
            parents = [*inputs, *outputs]
            parent = random.choice(parents) if parents and random.random() < 0.3 else None
            size, keep = random.choice([0, 1, 2, 2, 3]), random.random() < 0.15
            outputs.append(builder.value(f"v{i}.{k}", size, keep=keep, alias_of=parent))
            pairs += [
                (outputs[-1], random.choice(inputs))
                for chance in (0.5, 0.2)
                if inputs and random.random() < chance
            ]
        builder.op(
            f"op{i}",
            inputs,
            outputs,
            cost=float(random.randint(0, 3)),
            workspace_bytes=random.choice([0, 0, 1]),
            recomputable=random.random() < 0.8,
            takes_over=tuple(pairs),
        )
        available += outputs
    return builder.build(fixed_bytes=random.choice([0, 5]))


def tiny_graphs(dags: int = 4) -> list[Graph]:
    """Graphs for exact search in tenths of a second, with everything that memory depends on; some are
    training steps of seven ops."""
    odd = [random_graph(Random(seed), most_ops=4) for seed in (4, 6, 7, 8, 10, 11, 16)]
    return [*odd, *(training_dag(seed, 3) for seed in range(dags))]


def random_constraints(random: Random, graph: Graph) -> tuple[Constraints, set[int]]:
    """Draw constraints; return the ops that may then run only once too."""
    values = random.sample(range(graph.m), min(graph.m, random.randint(0, 2)))
    ops = random.sample(range(graph.n), random.randint(0, min(2, graph.n)))
    constraints = Constraints(
        keep=tuple(graph.values[v].name for v in values),
        never_recompute=tuple(graph.ops[i].name for i in ops),
    )
    return constraints, {*ops, *(int(graph.producer[v]) for v in values if graph.producer[v] >= 0)}


def random_steps(random: Random, graph: Graph) -> list[int]:
    """Every op once, in order, with random recomputations of earlier ops; valid only by luck."""
    steps: list[int] = []
    for op in range(graph.n):
        if op and random.random() < 0.5:
            steps += [random.randrange(op) for _ in range(random.randint(0, 3))]
        steps.append(op)
    return steps


def training_chain(layers: int, *, bytes_: int = 10, cost: float = 1.0) -> Graph:
    """Forward ops ``f0``…, then backward ops, each of which reads its layer's input and output and the
    gradient so far."""
    builder = GraphBuilder("chain")
    activations: list[int] = []
    for i in range(layers):
        out = builder.value(f"a{i}", bytes_)
        builder.op(f"f{i}", activations[-1:], [out], cost=cost)
        activations.append(out)
    gradient: list[int] = []
    for i in reversed(range(layers)):
        out = builder.value(f"g{i}", bytes_, keep=i == 0)
        builder.op(
            f"b{i}", [*activations[max(0, i - 1) : i + 1], *gradient], [out], cost=cost, phase=Phase.BACKWARD
        )
        gradient = [out]
    return builder.build()


def published_graphs() -> list[Path]:
    """The published graph files, if any, which lie beside the repository."""
    return sorted(path for path in (SHARED / "graphs").rglob("*.json"))


def replay_tool() -> ModuleType | None:
    """The plain replay program as a module, if it lies beside the repository."""
    path = SHARED / "tools" / "replay.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("replay_tool", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_file(graph: Graph) -> dict[str, Any]:
    """The graph as its file describes it."""
    return graph_to_json(graph)
