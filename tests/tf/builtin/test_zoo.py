"""Test that every model of the zoo can be built, traced and folded.

The quick ones are tested by default. All of them are tested where minutes are allowed."""

from __future__ import annotations

import pytest

from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.ir import Phase
from checkmate.memory.check import check
from checkmate.progress import never, silent
from tests.zoo.names import ZOO, zoo_request

pytestmark = pytest.mark.heavy  # every model of the zoo is built

QUICK = ["encoder_small", "lstm", "gru", "two_io", "subclassed", "regularized", "mixed_float16"]
QUICK += ["mixed_bfloat16", "adamw_clipped", "accumulated"]
SLOW = [name for name in ZOO if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.long) for name in SLOW)])
def test_model_folds(name: str) -> None:
    request = zoo_request(name, device="cpu")
    graph = trace_request(request, report=silent, cancelled=never).graph
    assert check(graph, range(graph.n)).valid
    assert {op.phase for op in graph.ops} >= {Phase.FORWARD, Phase.BACKWARD}
