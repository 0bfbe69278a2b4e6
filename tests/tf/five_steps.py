"""Train models five steps plainly, and with the forward pass recomputed.

Run as a script with Eigen kernels: ``python five_steps.py ANSWER.json MODEL...`` writes for each model
whether each variable and each metric ended up with the same bits, which types of ops were computed again, and
how often state is assigned in the trace and in the emitted step."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import schedules
import tensorflow as tf
from keras import layers

from checkmate.backends.tf.models.batch import flatten
from checkmate.backends.tf.models.load import load_model
from checkmate.backends.tf.models.model import LoadedModel
from checkmate.ir import SolveResult, SolveStatus
from checkmate.memory.simulate import simulate
from checkmate.planning.plan_request import PlanRequest
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions
from checkmate.training.keras_model import replace_training
from checkmate.training.search import PlanSearch
from checkmate.training.trials import Trials
from checkmate.units import Budget

BATCH, STEPS = 8, 5


def batch_norm() -> Any:
    """Return a model with moving statistics, one of them frozen. It has them with and without scale."""
    inputs = x = keras.Input((32, 32, 3))
    for momentum, scale, trainable in ((0.9, True, True), (0.5, False, True), (0.9, True, False)):
        x = layers.Conv2D(16, 3, padding="same")(x)
        x = layers.BatchNormalization(momentum=momentum, scale=scale, trainable=trainable)(x)
        x = layers.ReLU()(x)
    model = keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)), name="batch_norm")
    model.compile("adam", "mean_squared_error")
    return model


def metrics() -> Any:
    """Return a model with metrics for each output. They are weighted and not, count and keep histograms. Each
    output has a loss tracker."""
    inputs = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    x = layers.Conv2D(16, 3, padding="same", activation="gelu")(x)
    mask = layers.Conv2D(1, 1, activation="sigmoid", name="mask")(x)
    kind = layers.Dense(4, activation="softmax", name="kind")(layers.GlobalMaxPooling2D()(x))
    model = keras.Model(inputs, {"mask": mask, "kind": kind}, name="metrics")
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        {"mask": "binary_crossentropy", "kind": "categorical_crossentropy"},
        metrics={
            "mask": [keras.metrics.BinaryIoU(name="iou"), keras.metrics.AUC(20, name="auc")],
            "kind": "accuracy",
        },
        weighted_metrics={"kind": keras.metrics.MeanSquaredError()},
    )
    return model


class Statics(layers.Layer):
    """Count calls, and keep a running mean and a metric. The mean is of what passes, in a big variable."""

    def build(self, shape: tuple[int, ...]) -> None:
        self.calls = self.add_weight(
            shape=(), dtype="int64", initializer="zeros", trainable=False, name="calls"
        )
        self.average = self.add_weight(shape=shape[1:], initializer="zeros", trainable=False, name="average")
        self.size = keras.metrics.Mean(name="size")

    def call(self, x: Any) -> Any:
        self.calls.assign_add(1)
        self.average.assign(0.9 * self.average + 0.1 * keras.ops.mean(x, axis=0))
        self.size.update_state(keras.ops.mean(keras.ops.abs(x)))
        return x - self.average


def statics() -> Any:
    """Return a model with counters, big assignments and metrics inside layers."""
    inputs = keras.Input((64, 64))
    x = Statics()(layers.Dense(128, activation="relu")(inputs))
    x = Statics()(layers.Dense(128, activation="tanh")(x))
    model = keras.Model(inputs, layers.Dense(2)(x), name="statics")
    model.compile(keras.optimizers.RMSprop(1e-3), "mean_squared_error")
    return model


def built(name: str) -> LoadedModel:
    """Return the model, always with the same weights and seeds."""
    keras.utils.set_random_seed(7)
    here = Path(__file__)
    file = here if name in globals() else here.with_name("models.py")
    return load_model(ModelRequest(f"{file}:{name}", batch_size=BATCH, device="cpu", allow_code=True))


def data_for(loaded: LoadedModel) -> tf.data.Dataset:
    """Return five batches. The examples have weights if the model has one output with a label each."""
    batches = []
    for seed in range(STEPS):
        batches.append(loaded.pack(loaded.make_batch(seed)))
    # Keras would take a list for one tensor.
    batches = [keras.tree.lists_to_tuples(batch) for batch in batches]
    stacked = keras.tree.map_structure(lambda *each: tf.concat(each, 0), *batches)
    if [len(output.shape) for output in getattr(loaded.model, "outputs", None) or ()] == [2]:
        stacked = (*stacked, tf.linspace(0.0, 2.0, STEPS * BATCH))
    # Where Keras does not know the batch size beforehand, it weighs the losses of several outputs by
    # batches, not examples.
    return tf.data.Dataset.from_tensor_slices(stacked).batch(BATCH, drop_remainder=True)


class Recomputing(ScheduleSolver):
    """A solver that computes the whole forward pass again."""

    def solve(self, graph: Any, budget_bytes: int, **_: Any) -> SolveResult:
        schedule = schedules.recompute_forward(graph)
        ran, status = simulate(graph, schedule), SolveStatus.FEASIBLE
        return SolveResult(status, "test", budget_bytes, graph.base_cost, schedule, ran.cost, ran.peak_bytes)

    def bound_bytes(self, graph: Any) -> int:
        return 0


@dataclass(frozen=True, eq=False)
class Noting(PlanRequest):
    """A request that notes what is told."""

    told: list[str] = field(default_factory=list)

    def tell(self, sentence: str) -> None:
        self.told.append(sentence)


def state(model: Any) -> dict[str, np.ndarray]:
    variables = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return {f"{i} {variable.path}": variable.numpy() for i, variable in enumerate(variables)}


def compare(name: str) -> dict[str, Any]:
    loaded = built(name)
    plain, scheduled = loaded.model, built(name).model
    before = state(plain)
    data = data_for(loaded)
    PlanSearch.plain = lambda self: (
        None
    )  # the scheduled step is what is compared, also where the plain one fits
    Trials.run_plain = lambda self, what: None
    Trials.time_plain = lambda self: None
    request = Noting(Budget(bytes_=2**30), Recomputing("auto", SolveOptions()), quiet=True)
    replace_training(scheduled, request)
    expected = plain.fit(data, verbose=0).history
    found = scheduled.fit(data, verbose=0).history
    want, got = state(plain), state(scheduled)
    plan = scheduled.train_function.training.planner.planned(flatten(next(iter(data)))[0])
    again = Counter(plan.schedule.steps.tolist())
    structure = plan.step.folded.structure
    recomputed = {
        structure.ops[op].type
        for node, runs in again.items()
        if runs > 1
        for op in plan.step.folded.nodes[node]
    }
    return {
        "different": [
            key for (key, a), b in zip(want.items(), got.values(), strict=True) if not np.array_equal(a, b)
        ],
        "changed": [key for key, value in before.items() if not np.array_equal(value, want[key])],
        "state": list(want),
        "history": [expected, found],
        "examples": float(
            next(v.numpy() for v in scheduled.metrics_variables if v.path.endswith("loss/count"))
        ),
        "counts": {key: int(value) for key, value in got.items() if key.endswith("/calls")},
        "told": request.told,
        "recomputed": sorted(recomputed),
        "assigned": assigned_once(plan),
    }


def assigned_once(plan: Any) -> list[int]:
    """Return how often state is assigned in the trace and in the emitted step."""

    @tf.function(autograph=False)
    def emitted(*tensors: tf.Tensor) -> tf.Tensor:
        return plan.step.run(plan.schedule, tensors)[0]

    graphs = (plan.step.folded.traced.graph, emitted.get_concrete_function(*plan.layout.specs).graph)
    ops = [[op for op in graph.get_operations() if op.type.startswith("Assign")] for graph in graphs]
    # A variable that lets go of its buffer is assigned nothing; its value comes later.
    return [sum("/let_go" not in op.name for op in found) for found in ops]


if __name__ == "__main__":
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    # Recompute, although the plain step would fit.
    PlanSearch.plain = lambda search: None  # type: ignore[method-assign]
    answer = {name: compare(name) for name in sys.argv[2:]}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(answer, file)
