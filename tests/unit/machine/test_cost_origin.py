from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from app.presenters.wording import doubts, remeasuring_hint
from checkmate.cli.commands.info import elsewhere_note
from checkmate.ir import Device, Graph, GraphBuilder
from checkmate.machine.cost_origin import changed_since_profiled, elsewhere_words, file_facts
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


def graph_of(facts: object) -> Graph:
    builder = GraphBuilder("g")
    builder.op("f", [], [builder.value("a", 1)], cost=1.0)
    return builder.build(metadata={"model_file": facts})


@pytest.mark.parametrize(("name", "model"), [("net.keras", "{}"), ("net.py", "{}:make")])
def test_only_other_content_is_a_change(tmp_path: Path, name: str, model: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"one")
    graph = graph_of(file_facts(model.format(path)))
    assert changed_since_profiled(graph) is None
    os.utime(path, ns=(5, 5))  # touched, or copied
    assert changed_since_profiled(graph) is None
    path.write_bytes(b"two")
    assert changed_since_profiled(graph) == path
    path.unlink()
    assert changed_since_profiled(graph) is None


def test_a_missing_file_has_no_facts(tmp_path: Path) -> None:
    assert file_facts("resnet") is None and file_facts("keras.applications.VGG16") is None
    assert file_facts(str(tmp_path)) is None


@pytest.mark.parametrize(
    "facts", [None, 3, [], {}, {"path": 1}, {"path": "/"}, {"path": "\0"}, {"path": "nowhere"}]
)
def test_damaged_metadata_say_nothing(facts: object) -> None:
    assert changed_since_profiled(graph_of(facts)) is None
