"""Test that ties, gates and pins change no bit where each op is a kernel: XLA's fusions round otherwise."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.backends.tf.xla.tied import XlaEmission
from checkmate.backends.xla_policy.waits import WaitPolicy, ways_to_tie
from checkmate.progress import never, silent
from checkmate.request import ModelRequest, Target
from tests.benchmarks import xla_networks
from tests.graphs_strategies import random_steps
from tests.tf.task_process import TaskProcess

NETWORKS = Path(xla_networks.__file__)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["resnet", "text"])
def test_no_way_to_wait_changes_a_bit(name: str, process: TaskProcess) -> None:
    request = ModelRequest(
        f"{NETWORKS}:{name}", batch_size=4, device="cpu", allow_code=True, target=Target.XLA.value
    )
    graph = trace_request(request, report=silent, cancelled=never).graph
    assert graph.metadata["fused"]
    ways = ways_to_tie(graph)
    assert {WaitPolicy.GATED, WaitPolicy.VALUES, WaitPolicy.HELD} <= {*ways}
    for seed, tied in enumerate(ways):
        steps = random_steps(Random(seed), graph)
        assert len(steps) > graph.n
        xla = XlaEmission(tied).op_by_op().to_json()
        found = process.ask(
            {"do": "compare", "request": request.to_json(), "steps": steps, "exact": True, "xla": xla}
        )
        assert found["gradients"] > 0
        assert found["bitwise"] and found["state_bitwise"], (tied, found["worst"])
        assert found["loss"]["plain"] == found["loss"]["optimized"]
