"""Test that the scratch of TensorFlow's CPU kernels is in the graph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkmate.backends.tf.environment import EXACT, measuring_environment
from tests.quick_start import QUICK

SMALL = Path(__file__).parents[1].joinpath("small_models.py")

# Run in a process that chooses Eigen's kernels, whatever this process runs with.
TRACED = """
import json, sys
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from checkmate.backends.tf.costs.profile import compile_step
from checkmate.backends.tf.measure.concrete import run_step, schedule_of
from tests.tf.requested import predicted_requested
from checkmate.backends.tf.profiler import trace_run
from checkmate.backends.tf.trace.of_request import trace_request
from tests.tf.schedules import recompute_forward
spec, batch = sys.argv[1], int(sys.argv[2])
request = ModelRequest(spec, batch, device="cpu", allow_code=True)
folded = trace_request(request, report=silent, cancelled=never)
found = []
for steps in (list(range(folded.graph.n)), recompute_forward(folded.graph).steps.tolist()):
    # One iteration of a loop at a time: how many run side by side varies, and with it what they hold.
    function = compile_step(folded, schedule_of(folded, steps))
    data = folded.traced.loaded.make_batch()
    run_step(function, data)
    traced = trace_run(lambda: run_step(function, data)[0].numpy(), device="cpu").requested_peak
    found.append((predicted_requested(folded, folded.graph, steps), traced))
print(json.dumps({"kernels": folded.graph.metadata["kernels"], "peaks": found}))
"""


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("spec", "batch"), [(f"{SMALL}:convnet", 16), (f"{SMALL}:convnet", 1), (f"{SMALL}:two_heads", 16)]
)
def test_requested_peak_with_eigen_s_kernels_is_known_before_measuring(spec: str, batch: int) -> None:
    for predicted, traced in peaks(spec, batch):
        assert predicted == pytest.approx(traced, rel=0.01)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["recurrent", "bidirectional"])
def test_what_a_loop_takes_is_known_before_measuring(name: str) -> None:
    for predicted, traced in peaks(f"{SMALL}:{name}", 32):
        # Nothing orders the ops of an iteration, so the most that they hold at once varies.
        assert predicted == pytest.approx(traced, rel=0.02)


def peaks(spec: str, batch: int) -> list[list[int]]:
    environment = {**os.environ, **measuring_environment(), **EXACT, **QUICK}
    command = [sys.executable, "-c", TRACED, spec, str(batch)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    answer = json.loads(ran.stdout.splitlines()[-1])
    assert answer["kernels"] == "eigen"
    found: list[list[int]] = answer["peaks"]
    return found
