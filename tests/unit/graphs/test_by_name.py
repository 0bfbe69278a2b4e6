"""Test graphs by name: the batch, refused names, files of that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkmate.errors import FormatError, UsageError
from checkmate.formats import write_graph
from checkmate.graphs.by_name import build_paper_graph, is_graph_file, names_graph, read_or_build
from checkmate.graphs.paper import find_network
from checkmate.largest.scaling import BatchScaling


def test_at_the_papers_batch_or_another() -> None:
    assert read_or_build(Path("paper.unet")).batch_size == find_network("unet").batch_size
    assert read_or_build("paper.unet@5").fingerprint == find_network("unet").graph(5).fingerprint


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("paper.lenet", "no network 'paper.lenet'"),
        ("paper.unet@0", "'0' is not a batch size"),
        ("paper.unet@many", "'many' is not a batch size"),
        ("paper.unet@", "'' is not a batch size"),
        ("paper.unet@9999999", "larger than any device"),
    ],
)
def test_unknown_networks_and_wrong_batches_are_refused(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_or_build(name)


@pytest.mark.parametrize(("name", "first"), [("paper.lenet", "paper.vgg16, "), ("lenet", "vgg16, ")])
def test_the_known_networks_are_named_as_they_can_be_typed(name: str, first: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_network(name)
    assert (refused.value.hint or "").startswith(f"choose one of: {first}")


def test_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = find_network("segnet").graph(2)
    write_graph(tmp_path / "paper.json", graph)
    assert read_or_build(tmp_path / "paper.json").fingerprint == graph.fingerprint
    monkeypatch.chdir(tmp_path)
    assert read_or_build("paper.json").fingerprint == graph.fingerprint
    with pytest.raises(FormatError, match="no file"):
        read_or_build("paper.gone.json")


@pytest.mark.parametrize("name", ["graph.json", "graph.json.gz", "paper.json", "unet-b8.graph"])
def test_a_graph_file_is_told_by_its_name(name: str) -> None:
    assert is_graph_file(name) and names_graph(name) and names_graph(Path(name))


def test_a_network_of_the_paper_is_a_graph_and_no_file() -> None:
    assert names_graph("paper.unet") and not is_graph_file("paper.unet")


@pytest.mark.parametrize("name", ["unet", "model.keras", "keras.applications.ResNet50", "train.py:gpt"])
def test_any_other_name_is_a_models(name: str) -> None:
    assert not names_graph(name)


def test_its_batch_is_scaled_exactly_and_says_so() -> None:
    scaling = BatchScaling(build_paper_graph("paper.fcn8", 3))
    assert "exactly" in scaling.note() and "exactly" in BatchScaling(scaling.at(7)).note()
    assert scaling.at(7).fingerprint == build_paper_graph("paper.fcn8", 7).fingerprint
