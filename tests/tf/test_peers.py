"""Test the ways of others that the benchmark ``peers`` measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from checkmate.request import ModelRequest
from tests.benchmarks import peers
from tests.benchmarks.peer_tasks import compare_peers, measure_peer, times_updated
from tests.benchmarks.segments import NotApplicableError, cuts_for, layer_calls, segmented_forward, segments
from tests.tf.conftest import load

MODELS, SMALL = Path(__file__).with_name("models.py"), Path(__file__).with_name("small_models.py")
CUTS = ("blocks", "sqrt_cuts", "sqrt_layers")

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


def asked(spec: str) -> dict[str, Any]:
    return ModelRequest(spec, batch_size=4, allow_code=True).to_json()


@pytest.mark.parametrize("kind", CUTS)
@pytest.mark.parametrize(
    "spec",
    [f"{SMALL}:convnet", f"{MODELS}:dict_inputs_outputs", f"{MODELS}:nested", f"{MODELS}:shared_embedding"],
    ids=lambda spec: spec.rpartition(":")[2],
)
def test_the_segments_together_are_the_model(spec: str, kind: Any) -> None:
    loaded = load(spec, allow_code=True)
    model = loaded.model
    made = layer_calls(model)
    try:
        parts = segments(model, made, cuts_for(model, made, kind))
    except NotApplicableError:
        assert kind != "sqrt_layers"  # always possible
        return
    assert len(parts) > 1
    for part in parts:  # every layer in one segment, and shared, not copied
        assert {id(each) for each in part.model.trainable_weights} <= {
            id(each) for each in model.trainable_weights
        }
    wrapped_bodies: list[Any] = []
    forward, wrapped = segmented_forward(model, parts, lambda body: wrapped_bodies.append(body) or body)
    assert wrapped == len(wrapped_bodies) < len(parts)
    x = loaded.pack(loaded.make_batch(3))[0]
    keras.utils.set_random_seed(1)  # dropout
    before = [variable.numpy() for variable in model.variables]
    got = forward(x)
    for variable, value in zip(model.variables, before, strict=True):
        variable.assign(value)
    wanted = model(x, training=True)
    keras.tree.assert_same_structure(got, wanted)
    for found, expected in zip(keras.tree.flatten(got), keras.tree.flatten(wanted), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.heavy
def test_what_trains_otherwise_is_found_out(code_file: Any) -> None:
    """``tf.recompute_grad`` runs everything inside again, assignments too, and drops losses added inside."""
    models = code_file(PLAIN_CHAIN)
    straight = compare_peers(asked(f"{models}:make"), ["remat-blocks", "recompute-sqrt-layers"])
    for found in straight.values():
        assert "WRONG" not in peers.gradients(found) and peers.state(found) == "none"
        assert found["loss_difference"] < 1e-5
    forgetful = compare_peers(asked(f"{models}:forgetful"), ["recompute-blocks", "scope-activations"])
    assert "WRONG" in peers.gradients(forgetful["recompute-blocks"])
    assert "TWICE" in peers.state(forgetful["recompute-blocks"])
    assert peers.state(forgetful["scope-activations"]) == "right"
    penalized = compare_peers(asked(f"{models}:penalized"), ["recompute-blocks"])["recompute-blocks"]
    assert penalized["loss_difference"] < 1e-5 and "WRONG" in peers.gradients(penalized)


def test_a_peer_that_raises_is_an_answer(code_file: Any) -> None:
    answer = measure_peer(asked(f"{code_file(PLAIN_CHAIN)}:make"), "scope-full")
    assert set(answer) == {"failed"} and answer["failed"].startswith("ValueError: Exception encountered")
    assert "keywords arguments" in answer["failed"] and "\x1b" not in answer["failed"]
    plain = measure_peer(asked(f"{code_file(PLAIN_CHAIN)}:make"), "plain")
    assert len(plain["layers"]) == 4  # the convolutions
    assert "subclassed model" in measure_peer(asked(f"{MODELS}:subclassed"), "recompute-sqrt-cuts")["failed"]


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


def test_targets_are_the_peaks_that_peers_reached() -> None:
    rows = [{"peak_bytes": peak} for peak in (100, 99.5, 80, 50, 52, 84)]
    assert peers.targets(rows) == [50, 80]
