"""Test whether a model's file is the one that was profiled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checkmate.ir.graph import Graph, GraphBuilder
from checkmate.machine.cost_origin import changed_since_profiled, file_facts


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
