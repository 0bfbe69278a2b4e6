"""Test the measuring of peers: training, updates of statics, errors.

One test runs them in real fresh processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from checkmate import planning
from checkmate.backends.tf.peers.measure import (
    compare_peers,
    comparison,
    error_sentence,
    measure_peer,
    result_or_sentence,
    state_verdict,
    times_updated,
)
from checkmate.bench.peers import rows as bench
from checkmate.catalog.peers import PEERS, PLAIN, find_method
from checkmate.errors import NotApplicableError, WorkerDiedError
from checkmate.planning.report import peer_rows
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions

SMALL = Path(__file__).parents[1].joinpath("small_models.py")
MIB = 2**20

PLAIN_CHAIN = """
def make():
    inputs = keras.Input((16, 16, 3))
    x = inputs
    for _ in range(4):
        x = layers.MaxPooling2D(2, strides=1)(layers.Conv2D(8, 3, padding="same", activation="relu")(x))
    model = keras.Model(inputs, layers.Dense(3)(layers.Flatten()(x)), name="straight")
    model.compile("sgd", "mean_squared_error", jit_compile=False)
    return model

def penalized():
    inputs = keras.Input((64,))
    x = inputs
    for _ in range(3):
        y = layers.Dense(64, activation="relu", activity_regularizer=keras.regularizers.L2(0.1))(x)
        x = layers.Add()([x, y])
    model = keras.Model(inputs, layers.Dense(3)(x), name="penalized")
    model.compile("sgd", "mean_squared_error", jit_compile=False)
    return model

def forgetful():
    inputs = keras.Input((64,))
    x = inputs
    for _ in range(3):
        x = layers.Dropout(0.5)(layers.BatchNormalization()(layers.Dense(64, activation="relu")(x)))
        x = layers.Add()([x, layers.Dense(64)(x)])
    model = keras.Model(inputs, layers.Dense(3)(x), name="forgetful")
    model.compile("sgd", "mean_squared_error", jit_compile=False)
    return model
"""


def task(spec: str, **more: Any) -> dict[str, Any]:
    return {"request": ModelRequest(spec, batch_size=4, allow_code=True).to_json(), **more}


@pytest.mark.heavy
def test_without_statics_every_wrapper_trains_as_the_plain_step(code_file: Any) -> None:
    spec = f"{code_file(PLAIN_CHAIN)}:make"
    names = [
        "remat-blocks",
        "recompute-blocks",
        "recompute-sqrt-cuts",
        "recompute-sqrt-layers",
        "scope-activations",
    ]
    found = compare_peers(task(spec, methods=names))
    for name in names:
        assert found[name]["relative_error"] < 1e-4, name
        assert found[name]["loss_difference"] < 1e-5 and found[name]["state"]["count"] == 0


@pytest.mark.heavy
def test_statics_updated_twice_and_masks_drawn_anew_are_found_out(code_file: Any) -> None:
    """Check that the comparison sees what ``tf.recompute_grad`` runs again.

    It runs everything inside again, assignments too.
    """
    spec = f"{code_file(PLAIN_CHAIN)}:forgetful"
    found = compare_peers(task(spec, methods=["recompute-blocks", "scope-activations"]))
    state = found["recompute-blocks"]["state"]
    assert state["twice"] > 0 and state["example"]
    assert not bench.statics_right(found["recompute-blocks"]) and not bench.gradients_right(
        found["recompute-blocks"]
    )
    assert found["scope-activations"]["state"]["twice"] == 0 and bench.statics_right(
        found["scope-activations"]
    )


def test_losses_added_inside_a_wrapped_block_have_no_gradient_and_that_is_found_out(code_file: Any) -> None:
    found = compare_peers(task(f"{code_file(PLAIN_CHAIN)}:penalized", methods=["recompute-blocks"]))[
        "recompute-blocks"
    ]
    assert found["loss_difference"] < 1e-5 and not bench.gradients_right(found)


def test_a_peer_that_raises_is_an_answer(code_file: Any) -> None:
    answer = measure_peer(task(f"{code_file(PLAIN_CHAIN)}:make", method="scope-full"))
    assert set(answer) == {"failed"} and answer["failed"].startswith(
        "ValueError: Exception encountered when calling"
    )
    assert "keywords arguments" in answer["failed"] and "\x1b" not in answer["failed"]
    plain = measure_peer(task(f"{code_file(PLAIN_CHAIN)}:make", method="plain"))
    assert len(plain["layers"]) == 4  # the convolutions


def test_a_method_that_does_not_exist_for_a_model_says_why() -> None:
    models = Path(__file__).parents[1].joinpath("models.py")
    answer = measure_peer(task(f"{models}:subclassed", method="recompute-sqrt-cuts"))
    assert "subclassed model" in answer["not_applicable"]
    row = peer_rows.peer_row(find_method("recompute-sqrt-cuts"), answer, 10)
    assert row["status"] == "not applicable" and "peak_bytes" not in row


@pytest.mark.parametrize(
    ("found", "verdict"), [(1.0, "once"), (1.99, "twice"), (2.0, "twice"), (0.0, "differs"), (3.0, "differs")]
)
def test_how_often_a_statistic_moved(found: float, verdict: str) -> None:
    before, step = np.float32([1, -2, 3]), np.float32([0.5, 0.25, -1])
    assert (
        times_updated(before, before + step, (before + np.float32(found) * step).astype(np.float32))
        == verdict
    )
    assert times_updated(before, before + step, before + np.float32([0.5, -0.25, -1])) == "differs"


def test_a_seeds_counter_counts_exactly() -> None:
    before, once, twice = (np.uint32([4_000_000_000, count]) for count in (0, 1, 2))
    assert times_updated(before, once, once) == "once" and times_updated(before, once, twice) == "twice"
    assert times_updated(before, before, twice) == "differs"


def test_a_large_mean_with_a_small_step_is_not_taken_for_different() -> None:
    before = np.full(4, 1000, np.float32)
    once = before + np.float32(0.01)
    assert times_updated(before, once, np.nextafter(once, np.float32(2000))) == "once"


def test_statistics_of_16_bits_may_be_further_apart_and_counters_not() -> None:
    before, once, near = np.zeros(2, np.float32), np.float32([1, 2]), np.float32([1.03, 2])
    assert times_updated(before, once, near) == "differs"
    assert times_updated(before, once, near, 0.05) == "once"
    assert times_updated(before, once, 2 * near, 0.05) == "twice"
    seed = np.uint32([7, 0])
    assert times_updated(seed, seed + np.uint32(100), seed + np.uint32(103), 0.05) == "differs"


def test_state_in_words() -> None:
    found = state_verdict(["mean", "seed", "counter"], ["once", "twice", "differs"])
    assert found == {"count": 3, "twice": 1, "differs": 1, "example": "seed"}


def test_other_gradients_than_the_plain_steps_are_no_comparison() -> None:
    one = {"loss": 1.0, "gradients": [np.ones(2)], "state": []}
    assert "does not have the gradients" in comparison(one, {**one, "gradients": []})["failed"]
    assert comparison(one, one)["bitwise"]


def test_errors_as_they_are() -> None:
    assert error_sentence(ValueError("first\nsecond")) == "ValueError: first"
    assert error_sentence(ValueError()) == "ValueError"
    assert (
        error_sentence(TypeError("in call().\n\n\x1b[1mthe reason\nmore\x1b[0m\n"))
        == "TypeError: in call(). the reason"
    )


def test_an_error_of_this_program_is_not_told_as_a_peers() -> None:
    def peer() -> None:
        tf.reshape(tf.zeros(3), (2, 2))

    def ours() -> None:
        comparison({"gradients": []}, {})

    def none() -> None:
        raise NotApplicableError("no such layers")

    assert result_or_sentence(lambda: 3) == 3
    assert result_or_sentence(peer).startswith("InvalidArgumentError")
    assert result_or_sentence(ours).startswith("in Checkmate itself: KeyError")
    with pytest.raises(NotApplicableError, match="no such layers"):
        result_or_sentence(none)


def test_targets_are_the_peaks_that_peers_reached() -> None:
    def row(name: str, peak: int, status: str = "ok", ours: bool = False) -> dict[str, Any]:
        return {"method": name, "label": name.upper(), "status": status, "ours": ours, "peak_bytes": peak}

    rows = [
        row("plain", 100),
        row("a", 80),
        row("b", 81),
        row("c", 50),
        row("d", 99, "no effect"),
        row("e", 10, ours=True),
    ]
    assert peer_rows.targets(rows) == [(50, ["C"]), (80, ["A", "B"])]
    assert peer_rows.peer_row(PEERS[0], {"peak_bytes": 100}, 100)["status"] == "no effect"
    assert peer_rows.peer_row(PEERS[0], {"peak_bytes": 80}, 100)["status"] == "ok"
    assert peer_rows.peer_row(PLAIN, {"peak_bytes": 80}, None)["status"] == "ok"


def test_a_process_that_dies_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(task: dict[str, Any], **_: Any) -> dict[str, Any]:
        if task.get("method") == "plain":
            return {"peak_bytes": 100 * MIB, "layers": []}
        raise WorkerDiedError("the measuring process ended without an answer")

    monkeypatch.setattr(peer_rows, "run_task", dies)
    kept: list[dict[str, Any]] = []
    rows = pipeline_peers("zoo.gru", keep=kept.append, ours=False)
    assert [row["status"] for row in rows] == ["ok"] + ["failed"] * len(PEERS)
    assert len(kept) == len(rows) and all("ended without an answer" in row["note"] for row in rows)


def pipeline_peers(spec: str, **options: Any) -> list[dict[str, Any]]:
    request = ModelRequest(spec, batch_size=16, allow_code=True)
    return planning.peers(request, options=SolveOptions(time_limit_s=2.0), **options)


@pytest.mark.long  # every peer and ours, each in a process: minutes; ``bench peers`` is for developers
def test_everything_in_fresh_processes() -> None:
    # The plain step's peak differs by a quarter from run to run, with what its executor happens to run at
    # once: less than half of it is a saving in every run.
    rows = [{"model": "residual", "batch_size": 16, **row} for row in pipeline_peers(f"{SMALL}:residual")]
    by_name = {row["method"]: row for row in rows}
    assert list(by_name)[: 1 + len(PEERS)] == ["plain", *(method.name for method in PEERS)]
    blocks = by_name["recompute-blocks"]
    assert blocks["status"] == "ok" and blocks["peak_bytes"] < by_name["plain"]["peak_bytes"]
    assert blocks["compared"]["state"]["twice"] > 0  # BatchNorm's statistics
    assert by_name["scope-full"]["status"] == "failed"
    ours = [row for row in rows if row["ours"]]
    assert {"chen-sqrt-ap", "chen-sqrt-linear"} <= {row["method"] for row in ours}
    for row in ours:
        assert row["status"] in ("ok", "over", "infeasible", "limit"), row["note"]
        if "peak_bytes" in row:
            assert bench.correct(row) is True and row["seconds"] > 0
    assert all("overhead" in row for row in rows if "peak_bytes" in row)
    assert keras.config.floatx() == "float32"
