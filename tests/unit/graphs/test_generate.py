"""Test that generated graphs depend on the seed and resemble models."""

from __future__ import annotations

import pytest

from checkmate import planning
from tests.generated_graphs import random_layered


def edges(ops: int, seed: int) -> int:
    return sum(len(op.inputs) for op in random_layered(seed, ops).ops)


def test_a_seed_decides_a_layered_graph() -> None:
    one, same, other = random_layered(3, 60), random_layered(3, 60), random_layered(4, 60)
    assert (one.ops, one.values) == (same.ops, same.values)
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize("ops", [1, 2, 3, 4, 5, 12, 57])
def test_a_layered_graph_has_so_many_ops_one_first_and_one_last(ops: int) -> None:
    for seed in range(20):
        graph = random_layered(seed, ops)
        assert graph.n == graph.m == ops
        assert [v.name for v in graph.values if v.keep] == [f"v{ops - 1}"]
        assert [i for i, row in enumerate(graph.predecessors.lists()) if not row] == [0]
        assert [i for i, row in enumerate(graph.successors.lists()) if not row] == [ops - 1]


@pytest.mark.parametrize(
    ("ops", "published_edges"),
    [(100, 236), (250, 944), (500, 2461), (1000, 5875)],
    ids=["RL1", "RL2", "RL3", "RL4"],
)
def test_layered_graphs_resemble_the_published_ones(ops: int, published_edges: int) -> None:
    """Compare edges, sizes, costs, and the share of values live at the peak.

    The peak is that of the given order; the published graphs have a share of 0.23 to 0.31.
    """
    graphs = [random_layered(seed, ops) for seed in range(5)]
    assert sum(edges(ops, seed) for seed in range(5)) / 5 == pytest.approx(published_edges, rel=0.15)
    sizes = [value.bytes for graph in graphs for value in graph.values]
    assert min(sizes) >= 10 and max(sizes) < 10_000
    assert sum(sizes) / len(sizes) == pytest.approx(2000, rel=0.1)
    assert sum(graph.base_cost for graph in graphs) / len(sizes) == pytest.approx(500, rel=0.1)
    shares = [planning.keep_everything_peak(graph) / sum(v.bytes for v in graph.values) for graph in graphs]
    assert 0.2 < sum(shares) / 5 < 0.36


def test_edges_per_op_are_as_requested() -> None:
    assert sum(len(op.inputs) for op in random_layered(0, 200, edges_per_op=5).ops) == pytest.approx(
        1000, rel=0.05
    )
