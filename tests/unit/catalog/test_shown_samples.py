"""Test that what the start page says of the bundled graphs is so."""

from __future__ import annotations

import pytest

from checkmate.catalog.bundled import find_graph, graph_files, graph_name
from checkmate.catalog.samples import ShownSample, shown_samples
from checkmate.formats import read_any_graph
from checkmate.graphs.by_name import read_or_build
from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from resources.make_samples import SHOWN

SAMPLES = shown_samples()


def test_every_bundled_graph_is_shown() -> None:
    assert sorted(sample.graph for sample in SAMPLES) == [graph_name(path) for path in graph_files()]
    words = [(shown.title, shown.shows, shown.share) for shown in SHOWN]
    assert [(sample.title, sample.shows, sample.share) for sample in SAMPLES] == words


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.graph)
def test_its_curves_and_facts_are_those_of_the_graph(sample: ShownSample) -> None:
    """If this fails, draw them anew: ``python -m resources.make_samples``."""
    graph = read_any_graph(find_graph(sample.graph))
    plain = simulate(graph, Schedule.plain(graph))
    assert plain.live_bytes.tolist() == list(sample.plain_bytes)
    kept = simulate(graph, Schedule.of(graph, list(sample.steps)))
    assert kept.live_bytes.tolist() == list(sample.kept_bytes)
    report = check(graph, list(sample.steps))
    assert report.ok and report.peak_bytes == max(sample.kept_bytes) <= sample.share * plain.peak_bytes
    assert sample.extra_cost == pytest.approx(report.cost / graph.base_cost - 1)
    assert (graph.batch_size, graph.n, graph.cost_origin.value) == (
        sample.batch_size,
        sample.ops,
        sample.cost_origin,
    )


def test_the_bundled_network_is_the_papers() -> None:
    """Compare both; make it anew by ``resources.make_graphs`` if this fails.

    The command is ``python -m resources.make_graphs resnet50``.
    """
    built, bundled = read_or_build("paper.resnet50"), read_or_build("resnet50-b256.graph")
    assert built.fingerprint == bundled.fingerprint
