"""Train models on two replicas, plainly and within a budget.

They are trained by ``fit``, by their own step, and by custom loops. Run as a script: ``python mirrored.py
ANSWER.json``; the two replicas are logical devices of the one CPU."""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import checkmate
from checkmate.memory.simulate import simulate
from tests.tf.own_steps import GAN, IMAGES

BUDGET = "60%"
OPTIONS = checkmate.SolveOptions(time_limit_s=1.0)
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.random((4096 + 500, 64), dtype=np.float32), RANDOM.integers(0, 10, 4096 + 500)


def dense_model() -> Any:
    """Return the same model in each call. Its activations take 1 MiB for 1,024 examples. Its ops need no
    scratch memory."""
    keras.utils.set_random_seed(0)
    inputs = x = keras.Input((64,))
    for _ in range(6):
        x = layers.LayerNormalization()(layers.Dense(256, activation="gelu")(x))
    x = layers.Dropout(0.2, seed=3)(x)
    model = keras.Model(inputs, layers.Dense(10, activation="softmax")(x), name="dense")
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def build(strategy: Any) -> Any:
    with strategy.scope():
        return dense_model()


def by_fit(strategy: Any, budget: str | None) -> dict[str, Any]:
    model = build(strategy)
    if budget:
        checkmate.rematerialize(model, budget, options=OPTIONS, quiet=True, cache=False)
    history = model.fit(
        X, Y, batch_size=2048, shuffle=False, verbose=0, epochs=2, validation_data=(X[:1024], Y[:1024])
    ).history
    found = {"history": history, "on_batch": model.train_on_batch(X[:1024], Y[:1024]), "state": state(model)}
    if budget:
        found["plans"] = facts(model.train_function.training.planner)
    return found


def by_loop(strategy: Any, budget: str | None) -> dict[str, Any]:
    """Run two steps of a loop that shards the batch itself."""
    model = build(strategy)
    step = checkmate.train_step(
        model, budget or "1TiB", example=(X[:1024], Y[:1024]), options=OPTIONS, quiet=True, cache=False
    )

    @tf.function(autograph=False)
    def train(x: Any, y: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(lambda x, y: step(x, y)[0], args=(x, y)), axis=None)

    data = tf.data.Dataset.from_tensor_slices((X[:4096], Y[:4096])).batch(2048, drop_remainder=True)
    losses = [float(train(x, y)) for x, y in strategy.experimental_distribute_dataset(data)]
    return {"losses": losses, "state": state(model), "plans": facts(step._planner)}


def plain_step(model: Any) -> Any:
    """Return a step as people write it for a replica."""

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True), training=True)
        weights = model.trainable_variables
        gradients = tape.gradient(loss, [weight.value for weight in weights])
        model.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return loss

    return step


def by_own_step(strategy: Any, budget: str | None) -> dict[str, Any]:
    """Train a GAN by its own ``train_step``. Of the last batch one replica gets 3 images, the other 2."""
    keras.utils.set_random_seed(0)
    heard: list[dict[str, float]] = []
    with strategy.scope():
        model = GAN()
        model.built = True  # Keras cannot build it by itself, as it has no call
        model.compile(
            *(keras.optimizers.Adam(rate) for rate in (1e-3, 2e-3)), keras.losses.BinaryCrossentropy()
        )
        model.d_optimizer.build(model.discriminator.trainable_weights)
        model.g_optimizer.build(model.generator.trainable_weights)
    if budget:
        checkmate.rematerialize(model, budget, options=OPTIONS, quiet=True, cache=False)
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: heard.append({key: float(logs[key]) for key in logs})
    )
    data = tf.data.Dataset.from_tensor_slices(IMAGES[:37]).batch(16)
    model.fit(data, verbose=0, callbacks=[note])
    found = {"losses": heard, "state": on_replicas(strategy, model.variables)}
    if budget:
        found["plans"] = facts(model.train_function.training.planner)
    return found


def by_function(strategy: Any, budget: str | None) -> dict[str, Any]:
    """Run two steps of a function that each replica calls."""
    model = build(strategy)
    with strategy.scope():
        model.optimizer.build(model.trainable_variables)
        step: Any = plain_step(model)
        if budget:
            step = checkmate.rematerialize_function(
                step, budget, example=(X[:1024], Y[:1024]), options=OPTIONS, quiet=True, cache=False
            )

    @tf.function(autograph=False)
    def train(x: Any, y: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(step, args=(x, y)), axis=None)

    data = tf.data.Dataset.from_tensor_slices((X[:4096], Y[:4096])).batch(2048, drop_remainder=True)
    losses = [float(train(x, y)) for x, y in strategy.experimental_distribute_dataset(data)]
    variables = [*model.variables, *model.optimizer.variables]
    found = {"losses": losses, "state": on_replicas(strategy, variables)}
    if budget:
        found["plans"] = facts(step.planner)
    return found


def on_replicas(strategy: Any, variables: list[Any]) -> list[np.ndarray]:
    """Return the value that each replica has of each variable."""
    return [
        np.asarray(local)
        for variable in variables
        for local in strategy.experimental_local_results(variable.value)
    ]


def refused(strategy: Any) -> str:
    """Return what is said to a function that runs on all replicas."""
    model = build(strategy)
    with strategy.scope():
        model.optimizer.build(model.trainable_variables)
    body = plain_step(model)

    @tf.function(autograph=False)
    def step(x: Any, y: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(body, args=(x, y)), axis=None)

    try:
        checkmate.rematerialize_function(step, BUDGET, example=(X[:1024], Y[:1024]), quiet=True)
    except checkmate.CheckmateError as error:
        return str(error)
    return ""


def facts(planner: Any) -> list[dict[str, Any]]:
    """Return what was planned for each size of a replica's batch."""
    return [
        {
            "batch": plan.layout.batch_size,
            "recomputations": 0 if plan.schedule is None else plan.schedule.recomputations,
            "peak": plan.peak_bytes,
            "everything": simulate(plan.step.graph, plan.step.everything).peak_bytes,
            "allowed": planner.allowed_bytes,
        }
        for plan in planner.plans
    ]


def state(model: Any) -> list[np.ndarray]:
    return [variable.numpy() for variable in (*model.variables, *model.optimizer.variables)]


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    pairs = zip(found.pop("state"), expected.pop("state"), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


PROGRAMS = {"fit": by_fit, "loop": by_loop, "own": by_own_step, "function": by_function}

if __name__ == "__main__":
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    answer = {}
    for name, train in PROGRAMS.items():
        plain, scheduled = train(mirrored, None), train(mirrored, BUDGET)
        answer[name] = {"same": same(scheduled, plain), "plain": plain, "scheduled": scheduled}
    answer["refused"] = refused(mirrored)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(answer, file)
