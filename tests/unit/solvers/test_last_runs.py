"""Last runs against exact search over all orders."""

from __future__ import annotations

from random import Random

from checkmate import planning
from checkmate.ir import Graph, GraphBuilder, SolveStatus
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.last_runs import LastRunProver
from checkmate.solvers.problem import SolveOptions
from tests.generated_graphs import random_dag
from tests.graphs_strategies import random_graph
from tests.oracles import least_budget


def proved(graph: Graph) -> int:
    """The least budget that last runs leave open."""
    prover, least = LastRunProver(graph), 0
    while (found := prover.proof(least)) is not None:
        assert found.bytes > least
        least = found.bytes
    return least


def test_no_proof_contradicts_exact_search() -> None:
    graphs = [random_graph(Random(seed), least_ops=3, most_ops=5) for seed in range(60)]
    graphs = [graph for graph in graphs if graph.m < 12]  # exact search takes seconds for more values
    graphs += [random_dag(seed, 5 + seed % 2) for seed in range(60)]
    above, below = 0, 0
    for graph in graphs:
        least, known, truth = proved(graph), run_once_bound(graph).bytes, least_budget(graph)
        assert least <= truth
        below += known < truth
        above += known < least
    assert above >= 0.5 * below > 0


def heavy(builder: GraphBuilder, name: str) -> int:
    """An op that needs 30 bytes for an output of 10."""
    made = builder.value(name, 10)
    builder.op(name, [], [made], cost=1.0, workspace_bytes=20)
    return made


def with_gradients() -> Graph:
    """Three heavy ops, and of each a gradient: whichever runs last, the gradients of the others are held."""
    builder = GraphBuilder("gradients")
    for number in range(3):
        gradient = builder.value(f"gradient{number}", 5, keep=True)
        builder.op(f"op{number}", [heavy(builder, f"heavy{number}")], [gradient], cost=1.0)
    return builder.build()


def with_two_inputs() -> Graph:
    """Two heavy ops whose outputs one op reads: whichever runs last, the output of the other is held."""
    builder = GraphBuilder("inputs")
    inputs = [heavy(builder, "one"), heavy(builder, "other")]
    builder.op("both", inputs, [builder.value("small", 1, keep=True)], cost=1.0)
    return builder.build()


def test_the_reason_names_the_ops_and_the_moment() -> None:
    for graph, names, moment in (
        (with_gradients(), {"heavy0", "heavy1", "heavy2"}, "before the end"),
        (with_two_inputs(), {"one", "other"}, "before op 'both' first runs"),
    ):
        assert run_once_bound(graph).bytes == 30
        result = planning.solve(graph, 39, options=SolveOptions(time_limit_s=10))
        assert result.status is SolveStatus.INFEASIBLE and result.solve_seconds < 5
        assert "budget 39 B is below the 40 B that are held" in result.message and moment in result.message
        assert all(repr(name) in result.message for name in names)
        assert planning.solve(graph, 40).schedule is not None
        assert planning.least_memory(graph, options=SolveOptions(time_limit_s=1)).proved


def test_a_proof_ends_when_it_is_over() -> None:
    assert LastRunProver(with_gradients()).proof(39, over=lambda: True) is None
