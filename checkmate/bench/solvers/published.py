"""List published results on public graphs.

Who reached which overhead at which budget, in how many seconds. The graphs are those that the authors of
MOCCASIN published with their code (github.com/haoming-codes/moccasin, folder data); the names RL1 to RL4, CM1
and CM2 are the papers'. Budgets are shares of the peak of the graph's given order. Overheads are rounded as
in the papers, and seconds are on their authors' machines: they say how a method scales, not how fast it would
be here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from checkmate.ir.graph import Graph

_SAME_SHARE = 0.001  # budgets that differ by less than this share of the peak are one budget


class Publication(StrEnum):
    """Name the paper that has a figure."""

    MOCCASIN = (
        "Bartan, Li, Teague, Lott, Dilkina: Moccasin: Efficient Tensor Rematerialization for Neural "
        "Networks, ICML 2023 (arXiv 2304.14463), table of results on random layered and Checkmate graphs"
    )
    FASTSA = (
        "Imanishi, Xu, Takagi, Wang, Castillo: A fast heuristic to optimize time-space tradeoff for large "
        "models, NeurIPS 2023, table of results on MOCCASIN's graphs"
    )


@dataclass(frozen=True)
class PublishedGraph:
    """Identify a graph of the papers.

    ``name``: in its file. ``fingerprint``: of the graph that our reader makes of that file. ``base_cost``: of
    every op once, in the file's unit; it belongs to the identity here because a fingerprint covers no costs.
    """

    key: str
    name: str
    ops: int
    base_cost: float
    fingerprint: str

    def is_graph(self, graph: Graph) -> bool:
        """Return whether ``graph`` is this one.

        Either its fingerprint and cost are equal, or its name (the file's or the papers') and its number
        of ops.
        """
        if graph.fingerprint == self.fingerprint and math.isclose(
            graph.base_cost, self.base_cost, rel_tol=1e-9
        ):
            return True
        return graph.name in (self.key, self.name) and graph.n == self.ops


@dataclass(frozen=True)
class Figure:
    """Hold one published result.

    It is on graph ``graph`` at ``share`` of its plain peak. ``overhead``: extra cost over computing
    everything once, as a fraction. ``seconds``: None where the paper does not report them.
    """

    graph: str
    share: float
    method: str
    overhead: float
    seconds: float | None
    source: Publication


GRAPHS: tuple[PublishedGraph, ...] = (
    PublishedGraph(
        "RL1",
        "random_layered_n100_w0.27_nlv0.75_ed0.2_scd0.14",
        100,
        47769.0,
        "sha256:3a4853dd08202d44bbd3acde0d7a117aae42cdeb703f473d6ff1d48fbec58d72",
    ),
    PublishedGraph(
        "RL2",
        "random_layered_n250_w0.43_nlv0.75_ed0.2_scd0.14",
        250,
        125569.0,
        "sha256:83f0896681daa6638ef731632749891021e8f61278d1fb577fd8eb22a573a423",
    ),
    PublishedGraph(
        "RL3",
        "random_layered_n500_w0.36_nlv0.75_ed0.2_scd0.14",
        500,
        255302.0,
        "sha256:cb2f009e472d6e5647fe88fa3e3bd737be50417569d3344ae27785d521aca254",
    ),
    PublishedGraph(
        "RL4",
        "random_layered_n1000_w0.31_nlv0.75_ed0.2_scd0.14",
        1000,
        497270.0,
        "sha256:7b19ad9f5febde36c29d3d3b60ac66cd038ce65644ee3f2d9d387afa806be195",
    ),
    PublishedGraph(
        "CM1",
        "fcn_8_vgg (MLSys)_32_(416, 608, 3)_train",
        73,
        10275337746048.0,
        "sha256:bc5547622b5955cf465b78a49aa20b5d7996815a0a230761776bebc9baf67728",
    ),
    PublishedGraph(
        "CM2",
        "ResNet50 (MLSys)_256_(224, 224, 3)_train",
        353,
        405670.0,
        "sha256:51669fcf3d7ca6d6f24310dbed77f7dbe9b51a91da1302e118bae7904da4875d",
    ),
)

_MILP, _MOCCASIN, _FASTSA = "Checkmate MILP (Gurobi)", "MOCCASIN", "FastSA"


def _figure(graph: str, share: float, method: str, percent: float, seconds: float | None) -> Figure:
    source = Publication.FASTSA if method == _FASTSA else Publication.MOCCASIN
    return Figure(graph, share, method, percent / 100, seconds, source)


FIGURES: tuple[Figure, ...] = (
    _figure("RL1", 0.8, _MILP, 2.3, 22.7),
    _figure("RL1", 0.8, _MOCCASIN, 2.3, 9.5),
    _figure("RL1", 0.8, _FASTSA, 0.3, 11.5),
    _figure("RL2", 0.8, _MOCCASIN, 4.9, 640),
    _figure("RL2", 0.8, _FASTSA, 0.0, 15),
    _figure("RL2", 0.7, _FASTSA, 2.6, 15),
    _figure("RL3", 0.9, _FASTSA, 0.03, 21),
    _figure("RL3", 0.8, _MOCCASIN, 3.4, 1805),
    _figure("RL3", 0.8, _FASTSA, 2.3, 21),
    _figure("RL4", 0.9, _FASTSA, 0.4, 36),
    _figure("RL4", 0.8, _MOCCASIN, 3.4, 3612),
    _figure("RL4", 0.8, _FASTSA, 2.5, 36),
    _figure("RL4", 0.7, _FASTSA, 7.4, 36),
    _figure("CM1", 0.8, _MILP, 0.1, 5.6),
    _figure("CM1", 0.8, _MOCCASIN, 0.1, 3.1),
    _figure("CM1", 0.8, _FASTSA, 0.1, 9.7),
    _figure("CM1", 0.7, _FASTSA, 3.0, None),
    _figure("CM2", 0.8, _MILP, 0.3, 485),
    _figure("CM2", 0.8, _MOCCASIN, 0.3, 69),
    _figure("CM2", 0.8, _FASTSA, 0.4, 11),
    _figure("CM2", 0.7, _FASTSA, 0.8, None),
)


def find_graph(graph: Graph) -> PublishedGraph | None:
    """Return the papers' graph that equals ``graph``, if any."""
    return next((published for published in GRAPHS if published.is_graph(graph)), None)


def shares_of(graph: Graph) -> tuple[float, ...]:
    """Return the budgets with published results for ``graph``.

    They are shares of its plain peak, the largest first.
    """
    published = find_graph(graph)
    found = {f.share for f in FIGURES if published is not None and f.graph == published.key}
    return tuple(sorted(found, reverse=True))


def figures_for(graph: Graph, share: float) -> tuple[Figure, ...]:
    """Return the published results for ``graph`` at a budget.

    The budget is ``share`` of the plain peak. The best result comes first.
    """
    published = find_graph(graph)
    if published is None:
        return ()
    found = [f for f in FIGURES if f.graph == published.key and abs(f.share - share) < _SAME_SHARE]
    return tuple(sorted(found, key=lambda f: (f.overhead, math.inf if f.seconds is None else f.seconds)))
