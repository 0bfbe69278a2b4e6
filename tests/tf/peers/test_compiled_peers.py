"""Test peers under XLA: the bytes read from it, and what steps train.

One test runs all of them in real fresh processes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkmate import planning
from checkmate.backends.tf.costs.session import prepare
from checkmate.backends.tf.measure.compiled_memory import compiled_memory
from checkmate.backends.tf.peers.compiled import compare_compiled_peers, compile_peer, time_compiled_peers
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.emission import XlaEmission
from checkmate.backends.tf.xla.ties import WaitPolicy
from checkmate.bench.peers import rows as bench
from checkmate.catalog.peers import PEERS
from checkmate.errors import CancelledError, WorkerDiedError
from checkmate.ir.schedule import Schedule
from checkmate.planning.compiled.search import CompiledSearch
from checkmate.planning.compiled.step import TracedForXla
from checkmate.planning.compiled.verify import begun
from checkmate.planning.report import peer_rows
from checkmate.planning.solving import StepSolver
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions

MIB = 2**20
MODELS = """
import tensorflow as tf

def forgetful():
    inputs = keras.Input((64,))
    x = inputs
    for _ in range(3):
        h = layers.Dropout(0.5)(layers.BatchNormalization()(layers.Dense(64, activation="gelu")(x)))
        x = layers.Add()([x, layers.Dense(64)(h)])
    model = keras.Model(inputs, layers.Dense(3)(x), name="forgetful")
    model.compile("sgd", "mean_squared_error")
    return model

class InPython(layers.Layer):
    def call(self, x):
        same = tf.numpy_function(lambda value: value, [x], tf.float32)
        return x + tf.stop_gradient(tf.reshape(same, tf.shape(x)))

def in_python():
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dense(3)(InPython()(inputs)), name="in_python")
    model.compile("sgd", "mean_squared_error")
    return model
"""


@pytest.fixture
def forgetful(code_file: Callable[[str], Path]) -> ModelRequest:
    """Return a model with statics, for a batch at which its memory is large."""
    spec = f"{code_file(MODELS)}:forgetful"
    return ModelRequest(spec, batch_size=1024, allow_code=True, target="xla")


def folded(request: ModelRequest) -> FoldedStep:
    return prepare(request, here=True, report=silent, cancelled=never)


def everything_twice(step: FoldedStep) -> dict[str, Any]:
    """Return a schedule that runs each forward op again before its gradients.

    Ops that may run only once do so.
    """
    graph = step.graph
    backward = next(number for number, op in enumerate(graph.ops) if op.phase.value == "backward")
    again = [number for number in range(backward) if graph.ops[number].recomputable]
    steps = Schedule.of(graph, [*range(backward), *again, *range(backward, graph.n)]).steps.tolist()
    return {"steps": steps, "xla": XlaEmission(WaitPolicy.RECOMPUTED).to_json()}


@pytest.mark.heavy
def test_a_peers_bytes_are_xlas_and_the_plain_step_is_ours(forgetful: ModelRequest) -> None:
    task = {"request": forgetful.to_json()}
    plain = compile_peer({**task, "method": "plain"})
    own = compiled_memory(folded(forgetful), None, XlaEmission()).memory
    parts = {name: plain["assigned"][name] for name in own.facts()}
    assert parts == own.facts() and plain["peak_bytes"] == sum(parts.values())
    assert len(plain["layers"]) == 7  # the dense ones
    blocks = compile_peer({**task, "method": "recompute-blocks"})
    assert blocks["peak_bytes"] < 0.8 * plain["peak_bytes"]
    assert blocks["assigned"]["argument_bytes"] == own.argument_bytes
    refused = compile_peer({**task, "method": "scope-full"})
    assert set(refused) == {"failed"} and refused["failed"].startswith("ValueError: ")


@pytest.mark.heavy
def test_what_trains_otherwise_under_xla_is_found_out(forgetful: ModelRequest) -> None:
    """Check statistics, seeds and masks: ours draws the plain step's masks.

    ``tf.recompute_grad`` draws new ones, and averages twice.
    """
    twice = everything_twice(folded(forgetful))
    task = {"request": forgetful.to_json(), "layers": [], "schedules": [twice]}
    found = compare_compiled_peers(
        {**task, "methods": ["recompute-blocks", "scope-activations", "scope-full"]}
    )
    peer, (ours,) = found["methods"]["recompute-blocks"], found["schedules"]
    assert peer["state"]["twice"] > 0 and not bench.gradients_right(peer)
    assert bench.correct({"compared": found["methods"]["scope-activations"]})
    assert "ValueError" in found["methods"]["scope-full"]["failed"]
    assert bench.correct({"compared": ours}) and ours["state"]["count"] == peer["state"]["count"] > 0
    timed = time_compiled_peers({**task, "methods": ["plain", "scope-full"], "rounds": 2, "limit_s": 60})
    assert timed["clock"] == "processor" and len(timed["methods"]["plain"]) == 2 == len(timed["schedules"][0])
    assert "ValueError" in timed["methods"]["scope-full"]


@pytest.mark.heavy
def test_a_step_that_xla_cannot_compile_says_so(code_file: Callable[[str], Path]) -> None:
    request = ModelRequest(f"{code_file(MODELS)}:in_python", batch_size=4, allow_code=True, target="xla")
    answer = compile_peer({"request": request.to_json(), "method": "plain"})
    assert set(answer) == {"failed"} and answer["failed"].startswith("XLA cannot compile the step")
    rows = pipeline_peers(request)
    assert [row["status"] for row in rows] == ["failed"] and "\n" not in rows[0]["note"]


@pytest.mark.heavy
def test_the_closest_schedule_is_known_where_none_fits(forgetful: ModelRequest) -> None:
    search = searched(forgetful)
    closest = search.closest(search.plain.memory.argument_bytes)
    assert not closest.fit.fits and closest.fit.schedule is not None
    assert closest.fit.memory.peak_bytes < search.plain.memory.peak_bytes


def searched(request: ModelRequest) -> CompiledSearch:
    solver = StepSolver("greedy", SolveOptions(time_limit_s=2.0), silent, never)
    return begun(TracedForXla(request, folded(request), silent, never), solver)


def test_a_process_that_dies_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def dies(task: dict[str, Any], **_: Any) -> dict[str, Any]:
        asked.append(task["do"])
        if task.get("method") == "plain":
            return {"peak_bytes": 100 * MIB, "assigned": {"temp_bytes": 90 * MIB}, "layers": []}
        raise WorkerDiedError("the measuring process ended without an answer")

    monkeypatch.setattr(peer_rows, "run_task", dies)
    kept: list[dict[str, Any]] = []
    rows = pipeline_peers(ModelRequest("zoo.gru", batch_size=16, target="xla"), keep=kept.append, ours=False)
    assert [row["status"] for row in rows] == ["ok"] + ["failed"] * len(PEERS) and len(kept) == len(rows)
    assert rows[0]["label"] == "XLA alone" and rows[0]["assigned"]["temp_bytes"] == 90 * MIB
    assert all("ended without an answer" in row["note"] for row in rows)
    assert set(asked) == {"compile_peer", "time_compiled_peers", "compare_compiled_peers"}


def test_it_can_be_cancelled() -> None:
    with pytest.raises(CancelledError):
        pipeline_peers(ModelRequest("zoo.gru", batch_size=16, target="xla"), cancelled=lambda: True)


def pipeline_peers(request: ModelRequest, **options: Any) -> list[dict[str, Any]]:
    return planning.peers(request, options=SolveOptions(time_limit_s=2.0), **options)


@pytest.mark.long  # every peer and ours, compiled three times each: minutes
def test_everything_in_fresh_processes(forgetful: ModelRequest) -> None:
    rows = [{"model": "forgetful", "batch_size": 1024, **row} for row in pipeline_peers(forgetful)]
    by_name = {row["method"]: row for row in rows}
    assert list(by_name)[: 1 + len(PEERS)] == ["plain", *(method.name for method in PEERS)]
    assert by_name["scope-full"]["status"] == "failed"
    blocks = by_name["recompute-blocks"]
    assert blocks["status"] == "ok" and bench.correct(blocks) is False
    ours = [row for row in rows if row["ours"]]
    assert {"chen-sqrt-ap", "chen-sqrt-linear"} <= {row["method"] for row in ours}
    assert any("budget_bytes" in row for row in ours)
    for row in ours:
        assert row["status"] in ("ok", "over"), row["note"]
        assert bench.correct(row) is True and row["seconds"] > 0
        if row["status"] == "ok" and "budget_bytes" in row:
            assert row["peak_bytes"] <= row["budget_bytes"]
    for row in rows:
        if "peak_bytes" in row:
            parts = ("argument_bytes", "output_bytes", "temp_bytes")
            assert row["peak_bytes"] == sum(row["assigned"][part] for part in parts) and "overhead" in row


@pytest.mark.heavy
def test_16_bit_layers_are_compared_by_a_tolerance_of_their_own() -> None:
    request = ModelRequest("zoo.mixed_bfloat16", batch_size=2, target="xla")
    task = {"request": request.to_json(), "methods": [], "layers": []}
    (ours,) = compare_compiled_peers({**task, "schedules": [everything_twice(folded(request))]})["schedules"]
    assert ours["tolerance"]["each"] > 0.1 and not ours["bitwise"] and bench.correct({"compared": ours})
