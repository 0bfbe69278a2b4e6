"""Test that every model of the zoo can be built, traced and folded.

The quick ones are tested by default. All of them are tested where minutes are allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.catalog.zoo import ZOO, ZooModel
from checkmate.errors import LoadError
from checkmate.ir.graph import Phase
from checkmate.memory.check import check
from checkmate.models.zoo_networks import _BUILDERS
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.tf.conftest import load

pytestmark = pytest.mark.heavy  # every model of the zoo is built

QUICK = [model for model in ZOO if model.quick]
SLOW = [model for model in ZOO if not model.quick]


def assert_folds(model: ZooModel) -> None:
    request = ModelRequest(model.spec, batch_size=model.batch_size, device="cpu")
    graph = trace_request(request, report=silent, cancelled=never).graph
    assert check(graph, range(graph.n)).valid
    assert {op.phase for op in graph.ops} >= {Phase.FORWARD, Phase.BACKWARD}


def test_names_and_builders_agree() -> None:
    assert sorted(_BUILDERS) == sorted(model.name for model in ZOO)


@pytest.mark.parametrize("model", QUICK, ids=lambda model: model.name)
def test_quick_model_folds(model: ZooModel) -> None:
    assert_folds(model)


@pytest.mark.long
@pytest.mark.parametrize("model", SLOW, ids=lambda model: model.name)
def test_model_folds(model: ZooModel) -> None:
    assert_folds(model)


def test_an_unknown_name_is_answered_with_a_similar_one() -> None:
    with pytest.raises(LoadError, match="the zoo has no model 'resnet'") as caught:
        load("zoo.resnet")
    assert "zoo.resnet50" in caught.value.hint


def test_a_file_called_zoo_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LoadError, match=r"there is no file or sample 'zoo\.keras'"):
        load("zoo.keras")
