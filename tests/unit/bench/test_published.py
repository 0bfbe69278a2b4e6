"""Test the published figures.

They are complete, and found for the right graph and budget only.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkmate import planning
from checkmate.bench.solvers.published import FIGURES, GRAPHS, PublishedGraph, figures_for, find_graph
from checkmate.formats import read_any_graph
from checkmate.graphs.generate import random_layered
from checkmate.ir.graph import Graph
from tests.graphs_strategies import SHARED

MOCCASIN = SHARED / "graphs" / "moccasin"


def named(name: str, ops: int = 100) -> Graph:
    return replace(random_layered(0, ops), name=name)


def test_every_figure_is_for_a_known_graph_and_sensible() -> None:
    keys = [graph.key for graph in GRAPHS]
    assert len(set(keys)) == len(keys)
    for figure in FIGURES:
        assert figure.graph in keys and 0 < figure.share < 1 and 0 <= figure.overhead < 1
        assert figure.seconds is None or figure.seconds > 0


@pytest.mark.parametrize("name", ["RL1", "random_layered_n100_w0.27_nlv0.75_ed0.2_scd0.14"])
def test_by_name_and_number_of_ops(name: str) -> None:
    found = find_graph(named(name))
    assert found is not None and found.key == "RL1"
    assert find_graph(named(name, ops=99)) is None
    assert find_graph(named("layered100")) is None


def test_by_fingerprint_and_cost() -> None:
    graph = random_layered(0, 20)
    published = PublishedGraph("X", "x", 20, graph.base_cost, graph.fingerprint)
    assert published.is_graph(replace(graph, name="renamed"))
    assert not published.is_graph(random_layered(1, 20))
    dearer = replace(graph, ops=tuple(replace(op, cost=2 * op.cost) for op in graph.ops))
    assert dearer.fingerprint == graph.fingerprint
    assert not published.is_graph(dearer), (
        "a fingerprint says nothing about costs, and overheads are about costs"
    )


def test_the_best_comes_first() -> None:
    found = figures_for(named("RL1"), 0.8)
    assert [(f.method, f.overhead) for f in found] == [
        ("FastSA", pytest.approx(0.003)),
        ("MOCCASIN", pytest.approx(0.023)),  # as good as the program, and sooner
        ("Checkmate MILP (Gurobi)", pytest.approx(0.023)),
    ]
    assert "NeurIPS 2023" in found[0].source and "ICML 2023" in found[1].source


@pytest.mark.parametrize(("share", "count"), [(0.8, 3), (0.79995, 3), (0.802, 0), (0.5, 0)])
def test_only_at_the_same_budget(share: float, count: int) -> None:
    assert len(figures_for(named("RL1"), share)) == count


@pytest.mark.skipif(not MOCCASIN.is_dir(), reason="the published graphs are not here")
@pytest.mark.parametrize(("ops", "key"), [(100, "RL1"), (500, "RL3")])
def test_the_published_files_themselves(ops: int, key: str) -> None:
    graph = read_any_graph(next(MOCCASIN.glob(f"random_layered_n{ops}_*.json")))
    assert find_graph(replace(graph, name="renamed")) == find_graph(graph)
    found = find_graph(graph)
    assert found is not None and found.key == key
    peak = planning.keep_everything_peak(graph)
    assert figures_for(graph, int(0.8 * peak) / peak)[0].method == "FastSA"
