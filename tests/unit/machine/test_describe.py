"""Test that a graph profiled on another machine says so.

The command line and the window both say it.
"""

from __future__ import annotations

import dataclasses

from app.presenters.wording import doubts, remeasuring_hint
from checkmate.cli.commands.info import elsewhere_note
from checkmate.ir import Graph
from checkmate.ir.graph import Device
from checkmate.machine.cost_origin import elsewhere_words
from checkmate.machine.processor import processor_name, this_processor


def on(graph: Graph, name: str, kind: str = "cpu") -> Graph:
    return dataclasses.replace(graph, device=Device(name, kind, 0))


def test_this_machine_has_a_processor() -> None:
    assert processor_name() == this_processor().name != ""
    assert this_processor().avx in (True, False, None)


def test_a_graph_of_this_machine_says_nothing(chain: Graph) -> None:
    for graph in (chain, on(chain, processor_name()), on(chain, ""), on(chain, "Card 16", "gpu")):
        assert elsewhere_words(graph) == elsewhere_note(graph) == doubts(graph) == ""


def test_a_graph_of_another_machine_says_which_and_what_that_means(chain: Graph) -> None:
    graph = on(chain, "Abacus 3000")
    assert (
        elsewhere_words(graph)
        == f"profiled on another machine (Abacus 3000); this one has {processor_name()}"
    )
    assert elsewhere_note(graph).endswith("may differ; export and verify work both out again")
    assert doubts(graph).startswith("Profiled on another machine (Abacus 3000)")
    assert remeasuring_hint(graph) == "Profile it again to measure the ops on this machine."
