from __future__ import annotations

from typing import Any

import keras
import pytest
from keras import layers

import checkmate


def nested() -> Any:
    wide, slim = layers.Dense(64, name="wide", activation="relu"), layers.Dense(32, name="slim")
    inner = keras.Sequential([wide, slim], name="inner")
    inputs = keras.Input((32,), name="numbers")
    model = keras.Model(inputs, layers.Dense(4, name="answer")(inner(inputs)), name="net")
    model.compile("adam", "mse")
    return model


def cells(lines: list[str]) -> dict[str, list[str]]:
    return {line.split()[0]: line.split() for line in lines}


def test_the_table_has_the_layers_and_adds_up() -> None:
    model, lines = nested(), list[str]()
    checkmate.summary(model, 1024, print_fn=lines.append)
    assert lines[0] == "net, batch of 1024: what a training step holds, predicted"
    found = cells(lines)
    assert found["inner"][1:5] == ["(Sequential)", "(None,", "32)", "4,192"]
    graph = checkmate.profile(model, batch_size=1024, costs="analytic", quiet=True)
    peak = checkmate.info(graph).keep_everything_peak_bytes
    assert f"{peak / 2**10:.0f} KiB" in " ".join(found["in"])
    assert any("parameters, optimizer, inputs" in line for line in lines)
    assert f"op {checkmate.info(graph).timeline.peak_step + 1} of {graph.n} ops" in lines[-1]

    nested_lines: list[str] = []
    checkmate.summary(model, 1024, expand_nested=True, print_fn=nested_lines.append)
    wide, slim = (" ".join(cells(nested_lines)[f"inner/{name}"]) for name in ("wide", "slim"))
    assert "256 KiB" in wide and "128 KiB" in slim  # floats for 1024 samples
    assert "384 KiB" in " ".join(found["inner"])


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(checkmate.CheckmateError, match="is no Keras model"):
        checkmate.summary("unet", 8)
