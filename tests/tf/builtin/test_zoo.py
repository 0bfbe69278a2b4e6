"""Test that every model of the zoo can be built, traced and folded.

The quick ones are tested by default. All of them are tested where minutes are allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.catalog.model_names import ZOO, ZOO_PREFIX
from checkmate.errors import LoadError
from checkmate.ir import Phase
from checkmate.memory.check import check
from checkmate.models.zoo_networks import _BUILDERS
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.tf.conftest import load

pytestmark = pytest.mark.heavy  # every model of the zoo is built

QUICK = ["encoder_small", "lstm", "gru", "two_io", "subclassed", "regularized", "mixed_float16"]
QUICK += ["mixed_bfloat16", "adamw_clipped", "accumulated"]
SLOW = [name for name in ZOO if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.long) for name in SLOW)])
def test_model_folds(name: str) -> None:
    request = ModelRequest(ZOO_PREFIX + name, batch_size=ZOO[name], device="cpu")
    graph = trace_request(request, report=silent, cancelled=never).graph
    assert check(graph, range(graph.n)).valid
    assert {op.phase for op in graph.ops} >= {Phase.FORWARD, Phase.BACKWARD}


def test_names_and_builders_agree() -> None:
    assert sorted(_BUILDERS) == sorted(ZOO)


def test_an_unknown_name_is_answered_with_a_similar_one() -> None:
    with pytest.raises(LoadError, match="the zoo has no model 'resnet'") as caught:
        load("zoo.resnet")
    assert "zoo.resnet50" in caught.value.hint


def test_a_file_called_zoo_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LoadError, match=r"there is no file or sample 'zoo\.keras'"):
        load("zoo.keras")
