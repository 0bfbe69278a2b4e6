"""Test that every Python function takes what its command takes.

What is neither a model nor a graph ends in one sentence.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkmate
from checkmate import Graph, ModelRequest, SolveOptions
from checkmate.arguments import request_of
from checkmate.cli.common_options import model_request
from checkmate.cli.main import build_parser
from checkmate.errors import LoadError, UsageError
from checkmate.formats import write_graph
from checkmate.formats.schedule import write_certificate
from checkmate.progress import Progress
from tests.generated_graphs import training_chain

QUICK = SolveOptions(time_limit_s=2.0)
BUNDLED = "unet-b8.graph"
SWEEP = pytest.param("sweep", marks=pytest.mark.heavy)  # it starts processes


@pytest.fixture(scope="module")
def graph() -> Graph:
    return training_chain(7)


@pytest.fixture(scope="module")
def file(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("arguments") / "chain.json"
    write_graph(path, graph)
    return path


@pytest.mark.parametrize("kind", [str, Path, ModelRequest])
def test_a_model_and_its_options_are_those_of_the_command(kind: Callable[[str], Any]) -> None:
    words = ["-b", "8", "--loss", "mse", "--input-shape", "64,64,3", "--device", "cpu", "--allow-code"]
    line = ["profile", "unet", *words, "--target", "xla", "-o", "g.json"]
    asked = request_of(
        kind("unet"),
        batch_size=8,
        loss="mse",
        input_shape=(64, 64, 3),
        device="cpu",
        allow_code=True,
        target="xla",
    )
    assert asked == model_request(build_parser().parse_args(line))
    assert request_of(kind("unet")) == model_request(
        build_parser().parse_args(["profile", "unet", "-o", "g"])
    )


def test_options_replace_what_a_request_says() -> None:
    given = ModelRequest("unet", batch_size=4, loss="mse", allow_code=True)
    assert request_of(given) == given
    found = request_of(given, batch_size=np.int64(8), input_shape="32x32x3", loss=None)
    assert found == ModelRequest(
        "unet", 8, loss="mse", input_shape=(32, 32, 3), allow_code=True, batch_chosen=True
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_size": "8"}, "a batch size cannot be '8'"),
        ({"loss": len}, "a loss cannot be of type builtin_function_or_method"),
        ({"input_shape": 224}, "input_shape=224 is not a shape"),
        ({"input_shape": "wide"}, "'wide' is not a shape"),
        ({"target": "gpu"}, "target='gpu' is not known"),
    ],
)
def test_wrong_options(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        request_of("unet", **options)


OF_MODELS: dict[str, Callable[[Any, Graph], object]] = {
    "profile": lambda model, graph: checkmate.profile(model),
    "run": lambda model, graph: checkmate.run(model, "60%", "out"),
    "verify": lambda model, graph: checkmate.verify(model, graph, "s.json"),
    "export": lambda model, graph: checkmate.export(model, graph, "s.json", "out"),
    "export_within": lambda model, graph: checkmate.export_within(model, graph, "s.json", "60%", "out"),
    "max_batch": lambda model, graph: checkmate.max_batch(model, "1GiB"),
    "plan": lambda model, graph: checkmate.plan(model, ["T4"]),
}
OF_GRAPHS: dict[str, Callable[[Any], object]] = {
    "info": checkmate.info,
    "solve": lambda graph: checkmate.solve(graph, "80%", solver="greedy"),
    "frontier": lambda graph: checkmate.frontier(
        graph, ["80%"], solver="greedy", baselines=[], options=QUICK
    ),
    "sweep": lambda graph: checkmate.sweep([graph], ["80%"], solver="greedy", baselines=[], options=QUICK),
    "least_memory": lambda graph: checkmate.least_memory(graph, max_overhead="50%", options=QUICK),
    "known_minimum": checkmate.known_minimum,
    "keep_everything_peak": checkmate.keep_everything_peak,
    "resolve_budget": lambda graph: checkmate.resolve_budget(graph, "80%"),
    "certify": lambda graph: checkmate.certify(graph, "50%", seconds=2.0),
    "check_schedule": lambda graph: checkmate.check_schedule(graph, range(12), budget="100%"),
}


@pytest.mark.parametrize("name", OF_MODELS)
@pytest.mark.parametrize("wrong", [5, None, ["unet"]])
def test_what_is_no_model_ends_in_one_sentence(name: str, wrong: object, graph: Graph) -> None:
    with pytest.raises(UsageError) as caught:
        OF_MODELS[name](wrong, graph)
    assert str(caught.value) == f"a model cannot be of type {type(wrong).__name__}"
    assert "keras.applications.ResNet50" in caught.value.hint


@pytest.mark.parametrize("name", OF_MODELS)
def test_a_name_reaches_the_look_up(name: str, graph: Graph, file: Path) -> None:
    kind = UsageError if name in ("verify", "export", "export_within") else LoadError
    with pytest.raises(kind, match=r"was not profiled from a Keras model|there is no file or sample 'unett'"):
        OF_MODELS[name]("unett", graph)


@pytest.mark.parametrize("name", OF_GRAPHS)
def test_what_is_no_graph_ends_in_one_sentence(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        OF_GRAPHS[name](5)
    assert str(caught.value) == "a graph cannot be of type int" and "checkmate.profile" in caught.value.hint


@pytest.mark.parametrize("name", [SWEEP if name == "sweep" else name for name in OF_GRAPHS])
def test_a_graph_its_file_or_a_path(name: str, graph: Graph, file: Path) -> None:
    assert OF_GRAPHS[name](graph) is not None
    assert OF_GRAPHS[name](file) is not None
    assert OF_GRAPHS[name](str(file)) is not None


def test_a_bundled_graph_by_its_name() -> None:
    peak = checkmate.keep_everything_peak(BUNDLED)
    assert checkmate.resolve_budget(BUNDLED, "50%") == pytest.approx(peak / 2, abs=1)
    order = range(checkmate.read_graph(BUNDLED).n)
    assert checkmate.check_schedule(BUNDLED, order, budget="100%").ok
    assert not checkmate.check_schedule(BUNDLED, order, budget=f"{peak // 2}B").ok


def test_schedules_and_certificates_of_files(graph: Graph, file: Path, tmp_path: Path) -> None:
    found = checkmate.solve(file, "80%", solver="greedy", quiet=True)
    schedule, proof = tmp_path / "s.json", tmp_path / "c.json"
    checkmate.write_schedule(str(schedule), file, found)
    checkmate.write_matrices(str(tmp_path / "m.npz"), str(file), found.require_schedule())
    checkmate.write_graph(str(tmp_path / "g.json.gz"), str(file))
    assert checkmate.read_graph(tmp_path / "g.json.gz").fingerprint == graph.fingerprint
    assert checkmate.read_schedule(str(schedule), str(file)).cost == found.cost
    checks = [
        checkmate.check_schedule(graph, given, budget="80%").peak_bytes
        for given in (found, found.require_schedule(), schedule, str(schedule))
    ]
    assert set(checks) == {found.peak_bytes}
    made = checkmate.certify(str(file), "80%", seconds=5.0, quiet=True)
    assert made is not None
    write_certificate(proof, made.data)
    assert checkmate.check_certificate(file, proof) == checkmate.check_certificate(graph, dict(made.data))
    with pytest.raises(UsageError, match="a schedule cannot be of type int"):
        checkmate.verify(ModelRequest("unet"), graph, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["solve", "least_memory", "frontier", SWEEP, "certify", "max_batch", "plan", "report"]
)
def test_what_takes_long_says_so_on_standard_error(
    name: str, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"options": QUICK}
    curve = tmp_path / "curve.json"
    checkmate.write_schedule(curve, graph, checkmate.solve(graph, "80%", solver="greedy", quiet=True))
    call: Callable[..., object] = {
        "solve": lambda **how: checkmate.solve(graph, "60%", **options, **how),
        "least_memory": lambda **how: checkmate.least_memory(graph, **options, **how),
        "frontier": lambda **how: checkmate.frontier(graph, ["80%"], **options, **how),
        "sweep": lambda **how: checkmate.sweep([graph], ["80%"], **options, **how),
        "certify": lambda **how: checkmate.certify(graph, "50%", **how),
        "max_batch": lambda **how: checkmate.max_batch(graph, 100, batch_size=1, **options, **how),
        "plan": lambda **how: checkmate.plan("paper.vgg16", ["T4"], **options, **how),
        "report": lambda **how: checkmate.report(curve, tmp_path / "page.html", **how),
    }[name]
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    heard: list[Progress] = []
    call(quiet=True)
    call(report=heard.append)
    assert not log.getvalue() and heard
    call()
    assert re.match(r"checkmate \[ +\d+ s\] ", log.getvalue())


def test_a_listener_hears_in_place_of_standard_error(
    graph: Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    from checkmate.solvers.problem import Listener

    assert checkmate.solve(graph, "60%", options=QUICK, listener=Listener()).schedule is not None
    assert not capsys.readouterr().err
