"""Train one model on two replicas, plainly and within a budget.

It is trained by ``fit`` and by a custom loop. Run as a script: ``python mirrored.py ANSWER.json``; the two
replicas are logical devices of the one CPU.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np
import small_models
import tensorflow as tf

import checkmate

OPTIONS = checkmate.SolveOptions(time_limit_s=1.0)
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.random((16 * 2 + 5, 64, 64, 3), dtype=np.float32), RANDOM.integers(0, 10, 16 * 2 + 5)


def build(strategy: Any) -> Any:
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = small_models.convnet()
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def by_fit(strategy: Any, budget: str | None) -> dict[str, Any]:
    model = build(strategy)
    if budget:
        checkmate.rematerialize(model, budget, options=OPTIONS, quiet=True)
    history = model.fit(
        X, Y, batch_size=16, shuffle=False, verbose=0, epochs=2, validation_data=(X[:8], Y[:8])
    ).history
    found = {"history": history, "on_batch": model.train_on_batch(X[:8], Y[:8]), "state": state(model)}
    if budget:
        plans = model.train_function.training.planner._plans.values()
        found["plans"] = sorted(
            (plan.layout.batch_size, 0 if plan.schedule is None else plan.schedule.recomputations)
            for plan in plans
        )
    return found


def by_loop(strategy: Any, budget: str | None) -> dict[str, Any]:
    """Run two steps of a loop that shards the batch itself."""
    model = build(strategy)
    step = checkmate.train_step(model, budget or "1TiB", example=(X[:8], Y[:8]), options=OPTIONS, quiet=True)

    @tf.function(autograph=False)
    def train(x: Any, y: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(lambda x, y: step(x, y)[0], args=(x, y)), axis=None)

    data = tf.data.Dataset.from_tensor_slices((X[:32], Y[:32])).batch(16, drop_remainder=True)
    losses = [float(train(x, y)) for x, y in strategy.experimental_distribute_dataset(data)]
    return {"losses": losses, "state": state(model)}


def state(model: Any) -> list[np.ndarray]:
    return [variable.numpy() for variable in (*model.variables, *model.optimizer.variables)]


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    pairs = zip(found.pop("state"), expected.pop("state"), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


if __name__ == "__main__":
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    answer = {}
    for name, train in (("fit", by_fit), ("loop", by_loop)):
        plain, scheduled = train(mirrored, None), train(mirrored, "85%")
        answer[name] = {"same": same(scheduled, plain), "plain": plain, "scheduled": scheduled}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(answer, file)
