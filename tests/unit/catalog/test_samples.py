"""Test the samples: their names, which need no TensorFlow, and what the start page shows of graphs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checkmate.catalog.bundled import find_graph, graph_files, graph_name
from checkmate.catalog.model_names import require_named
from checkmate.catalog.samples import SAMPLES, ShownSample, find_sample, shown_samples
from checkmate.errors import LoadError
from checkmate.formats import read_any_graph
from checkmate.graphs.by_name import read_or_build
from checkmate.ir import Schedule
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.request import ModelRequest
from resources.make_samples import SHOWN


def test_samples_are_named_and_described() -> None:
    assert [sample.name for sample in SAMPLES] == ["unet", "resnet", "mobilenet", "transformer", "lstm"]
    assert all(sample.description and sample.batch_size <= 32 for sample in SAMPLES)


def test_find_sample() -> None:
    found = find_sample("unet")
    assert found is not None and found.name == "unet"
    assert find_sample("UNet") is None


def test_naming_samples_loads_no_tensorflow() -> None:
    code = "import sys, checkmate.catalog.samples; print(sorted({'tensorflow', 'keras'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SHOWN_SAMPLES = shown_samples()


def test_every_bundled_graph_is_shown() -> None:
    assert sorted(sample.graph for sample in SHOWN_SAMPLES) == [graph_name(path) for path in graph_files()]
    words = [(shown.title, shown.shows, shown.share) for shown in SHOWN]
    assert [(sample.title, sample.shows, sample.share) for sample in SHOWN_SAMPLES] == words


@pytest.mark.parametrize("sample", SHOWN_SAMPLES, ids=lambda sample: sample.graph)
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
    """Compare both; make it anew by ``resources.make_graphs`` if this fails. The command is ``python -m
    resources.make_graphs resnet50``."""
    built, bundled = read_or_build("paper.resnet50"), read_or_build("resnet50-b256.graph")
    assert built.fingerprint == bundled.fingerprint


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("def make(): ...\ndef other(size=3, *, deep=True): ...\n", "one of: {0}:make, {0}:other"),
        ("def of(size): ...\ndef by(*, size): ...\ndef _own(): ...\n", "write {0}:function"),
        ("x = (\n", "write {0}:function"),
        ("import no_such_module\ndef make(): ...\n", "one of: {0}:make"),  # it is not run
    ],
)
def test_code_without_a_function_names_those_that_are_there(tmp_path: Path, code: str, hint: str) -> None:
    path = tmp_path / "net.py"
    path.write_text(code)
    with pytest.raises(LoadError, match="is Python code; name the function in it") as caught:
        require_named(ModelRequest(str(path)))
    assert caught.value.hint == hint.format(path)
