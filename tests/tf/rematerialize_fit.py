"""Test the one line in user code: ``fit`` works as before, in the budget.

Everything around ``fit`` works as before too.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import checkmate
from checkmate.backends.tf.live.trace import KerasStep
from checkmate.backends.tf.profiler import trace_run
from tests.tf.rematerialized import FAST, assert_close, conv_model, data, plans, recomputations, within


@pytest.fixture(scope="module")
def trained() -> tuple[Any, Any, Any, Any, list[str]]:
    """Return a model trained plainly and the same one within a budget.

    They train two epochs with a smaller last batch, validation and class weights.
    """
    x, y = data(16 * 2 + 6)
    heard: list[str] = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: heard.append(f"{batch} {sorted(logs)}"),
        on_epoch_end=lambda epoch, logs: heard.append(f"epoch {epoch} {sorted(logs)}"),
    )
    found = []
    for model in (conv_model(), within(conv_model())):
        heard.clear()
        history = model.fit(
            x, y, batch_size=16, epochs=2, shuffle=False, verbose=0, validation_data=(x[:8], y[:8]),
            class_weight={0: 1.0, 1: 2.0, 2: 0.5, 3: 1.0}, callbacks=[callback],
        )  # fmt: skip
        found += [model, history.history]
    return (*found, heard)


def test_fit_is_as_before(trained: Any) -> None:
    plain, expected, model, found, heard = trained
    assert recomputations(model) > 0
    assert set(found) == set(expected) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-2)
    assert found["accuracy"] == pytest.approx(expected["accuracy"])
    assert heard[:3] == [f"{batch} ['accuracy', 'loss']" for batch in range(3)]
    assert heard[3] == "epoch 0 ['accuracy', 'loss', 'val_accuracy', 'val_loss']"
    assert int(model.optimizer.iterations.numpy()) == int(plain.optimizer.iterations.numpy()) == 6
    assert_close(model, plain)


def test_each_layout_has_one_plan_and_the_small_batch_stays_plain(trained: Any) -> None:
    model = trained[2]
    assert [(plan.layout.batch_size, plan.schedule is None) for plan in plans(model)] == [
        (16, False),
        (6, True),
    ]


def test_the_measured_peak_is_within_the_budget(trained: Any) -> None:
    model = trained[2]
    planner = model.train_function.training.planner
    assert 0 < max(plan.peak_bytes for plan in plans(model)) <= planner.allowed_bytes


def test_saving_and_loading(trained: Any, tmp_path: Path) -> None:
    model = trained[2]
    x, y = data(16)
    model.save(tmp_path / "m.keras")
    model.save_weights(tmp_path / "m.weights.h5")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert np.array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))
    assert "make_train_function" not in vars(loaded)
    other = within(conv_model())
    other.load_weights(tmp_path / "m.weights.h5")
    assert other.evaluate(x, y, verbose=0) == model.evaluate(x, y, verbose=0)
    # Weights and slots continue from their saved values, with a schedule or without.
    plain = keras.models.load_model(tmp_path / "m.keras")
    losses = [[each.train_on_batch(x, y)[0] for _ in range(2)] for each in (plain, within(loaded))]
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
    assert int(loaded.optimizer.iterations.numpy()) == 8
    assert recomputations(loaded) > 0


def test_compiling_again_starts_anew() -> None:
    x, y = data(16)
    model, plain = within(conv_model()), conv_model()
    for each in (model, plain):
        each.train_on_batch(x, y)
        each.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        assert each.train_function is None
        each.train_on_batch(x, y)
    assert recomputations(model) > 0
    assert_close(model, plain)
    assert isinstance(model.optimizer, keras.optimizers.SGD) and int(model.optimizer.iterations.numpy()) == 1


def test_an_example_is_planned_at_once_and_changes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = data(16)
    model = conv_model()
    before = model.get_weights()
    assert checkmate.rematerialize(model, "75%", example=(x, y), options=FAST, solver="greedy") is model
    err = capfd.readouterr().err
    lines = [line for line in err.splitlines() if line.startswith("checkmate: ")]
    assert len(lines) == 1 and "batch of 16: " in lines[0] and " recomputations, " in lines[0]
    assert recomputations(model) > 0
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    assert all(not variable.numpy().any() for variable in model.optimizer.variables[2:])
    model.fit(x, y, batch_size=16, verbose=0)
    assert len(plans(model)) == 1 and "checkmate: " not in capfd.readouterr().err


def test_a_slightly_smaller_batch_takes_the_schedule_that_is_known() -> None:
    model = within(conv_model())
    x, y = data(16)
    model.train_on_batch(x, y)
    model.train_on_batch(x[:15], y[:15])
    first, second = plans(model)
    assert (first.layout.batch_size, second.layout.batch_size) == (16, 15)
    assert "an earlier schedule fits" in second.sentence
    assert second.schedule.steps.tolist() == first.schedule.steps.tolist()
    assert second.peak_bytes <= model.train_function.training.planner.allowed_bytes


@pytest.mark.parametrize("compiled", [False, True])
def test_a_schedule_is_traced_once_though_there_are_metrics(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that their variables are there before.

    TensorFlow traces a function anew that creates variables.
    """
    metrics = ["accuracy", keras.metrics.MeanIoU(4, sparse_y_pred=False)]
    model, plain = (conv_model(metrics=metrics, jit_compile=compiled) for _ in range(2))
    x, y = data(16)
    within(model, example=(x, y))
    traced, run = [], KerasStep.run

    def noted(*arguments: Any, **words: Any) -> Any:
        traced.append(arguments)
        return run(*arguments, **words)

    monkeypatch.setattr(KerasStep, "run", noted)
    found, expected = (each.fit(x, y, batch_size=16, verbose=0).history for each in (model, plain))
    assert len(traced) == 1
    assert {key: value[0] for key, value in found.items()} == pytest.approx(
        {key: value[0] for key, value in expected.items()}, rel=1e-3
    )


class _CopiesPredictions(keras.metrics.Mean):
    """A metric that needs room for several copies of the predictions."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return super().update_state(tf.sort(tf.sort(y_pred, axis=1), axis=2) + tf.abs(y_pred))


def _painter(metric: Any) -> Any:
    """Return a model whose predictions are its largest tensors: 2 MiB each."""
    keras.utils.set_random_seed(3)
    x = inputs = keras.Input((32, 32, 3))
    for _ in range(8):
        x = keras.layers.Conv2D(16, 3, padding="same", activation="tanh")(x)
    model = keras.Model(inputs, keras.layers.Conv2D(32, 3, padding="same")(x))
    model.compile("adam", "mse", metrics=[metric])
    return model


def _painting() -> tuple[np.ndarray, np.ndarray]:
    return data(16)[0], np.ones((16, 32, 32, 32), np.float32)


def assert_same_histories(model: Any, plain: Any, x: Any, y: Any) -> None:
    found, expected = (each.fit(x, y, batch_size=16, verbose=0).history for each in (model, plain))
    assert found.keys() == expected.keys() and len(found) == 2
    assert {key: value[0] for key, value in found.items()} == pytest.approx(
        {key: value[0] for key, value in expected.items()}, rel=1e-3
    )


def test_metrics_are_a_part_of_what_is_planned() -> None:
    x, y = _painting()
    model, plain = (_painter(_CopiesPredictions()) for _ in range(2))
    within(model, example=(x, y))
    (plan,) = plans(model)
    # Its tensors come when activations are gone, though it could run before the backward pass.
    assert plan.step.with_metrics and "TopK" in plan.step.graph.ops[-1].type
    assert plan.step.graph.ops[-1].workspace_bytes >= 2 * y.nbytes
    assert plan.schedule is not None, plan.sentence
    assert_same_histories(model, plain, x, y)


def _sorted_in_python(y_true: Any, y_pred: Any) -> Any:
    heard = tf.numpy_function(lambda values: np.sort(values, axis=-1), [y_pred], tf.float32)
    return tf.ensure_shape(heard, y_pred.shape)[..., 0]


def test_metrics_that_cannot_be_tried_are_updated_after_the_step() -> None:
    x, y = _painting()
    model, plain = (_painter(_sorted_in_python) for _ in range(2))
    within(model, example=(x, y))
    (plan,) = plans(model)
    assert not plan.step.with_metrics and plan.schedule is not None, plan.sentence
    assert_same_histories(model, plain, x, y)


class _Extent(keras.metrics.Metric):
    """A metric whose result is a dictionary."""

    def __init__(self) -> None:
        super().__init__(name="extent")
        self.least, self.most = (
            self.add_weight(shape=(), initializer="zeros", name=name) for name in ("least", "most")
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.least.assign(tf.minimum(self.least, tf.reduce_min(y_pred)))
        self.most.assign(tf.maximum(self.most, tf.reduce_max(y_pred)))

    def result(self) -> dict[str, Any]:
        return {"least": tf.identity(self.least), "most": tf.identity(self.most)}


def test_a_metric_may_tell_several_numbers() -> None:
    x, y = data(16)
    model, plain = (conv_model(metrics=[_Extent()]) for _ in range(2))
    within(model, example=(x, y))
    assert plans(model)[0].step.with_metrics and recomputations(model) > 0
    found, expected = (each.train_on_batch(x, y, return_dict=True) for each in (model, plain))
    assert found.keys() == expected.keys() >= {"least", "most"}
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(float(value), rel=1e-3)


class TwoHeads(keras.Model):  # type: ignore[misc]
    """A model whose metrics are of one of its two outputs."""

    def compute_loss(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None, training: bool = True
    ) -> Any:
        return super().compute_loss(x, y, y_pred["classes"], sample_weight, training)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return super().compute_metrics(x, y, y_pred["classes"], sample_weight)


def test_a_model_may_compute_its_metrics_in_its_own_way() -> None:
    x, y = data(16)
    top = keras.metrics.SparseTopKCategoricalAccuracy
    found = []
    for planned in (True, False):
        body = conv_model()
        outputs = {"features": body.layers[-2].output, "classes": body.output}
        model = TwoHeads(body.input, outputs)
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy", top(k=2)])
        if planned:
            within(model, example=(x, y))
            assert recomputations(model) > 0
        found.append(model.fit(x, y, batch_size=16, verbose=0).history)
    assert found[0].keys() == found[1].keys() and len(found[0]) == 3
    assert {key: value[0] for key, value in found[0].items()} == pytest.approx(
        {key: value[0] for key, value in found[1].items()}, rel=1e-3
    )


def test_a_scheduled_step_runs_as_it_was_emitted() -> None:
    """Check that TensorFlow rewrites nothing of it, and still rewrites others."""
    model, plain = within(conv_model()), conv_model()
    x, y = data(16)
    fused = {}
    for each in (model, plain):
        each.train_on_batch(x, y)  # plans
        runs = trace_run(partial(each.train_on_batch, x, y), device="cpu").runs
        fused[each] = [run.name for run in runs if "Fused" in run.type]
    assert recomputations(model) > 0
    assert fused[model] == [] and fused[plain]


def test_quiet_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    within(conv_model(), example=data(16))
    assert "checkmate: " not in capfd.readouterr().err


def test_steps_per_execution_and_a_dataset_that_ends_early() -> None:
    x, y = data(16 * 3)
    found = []
    for model in (conv_model(steps_per_execution=2), within(conv_model(steps_per_execution=2), "75%")):
        ended: list[int] = []
        callback = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, ended=ended: ended.append(batch)
        )
        batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
        history = model.fit(batches, verbose=0, callbacks=[callback])
        found.append((ended, int(model.optimizer.iterations.numpy()), history.history["loss"][0]))
    assert found[1][:2] == found[0][:2]
    assert found[1][2] == pytest.approx(found[0][2], rel=1e-2)
