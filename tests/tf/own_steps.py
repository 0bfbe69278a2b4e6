"""Train steps that are not Keras's own, plainly and within a budget.

Run as a script in a fresh process: ``python own_steps.py PROGRAM BUDGET|plain ANSWER.npz``. It runs four
steps and writes what each returned, the state after them, the allocator's peak in each and what was planned.
Each program is written as users write them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

import checkmate

STEPS = 4
RANDOM = np.random.default_rng(7)
IMAGES = RANDOM.random((16 * STEPS, 32, 32, 3), dtype=np.float32)


class Sampling(layers.Layer):  # type: ignore[misc]
    """Draw from a normal distribution by its mean and log variance."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seeds = keras.random.SeedGenerator(1337)

    def call(self, inputs: Any) -> Any:
        mean, log_variance = inputs
        noise = keras.random.normal(ops.shape(mean), seed=self.seeds)
        return mean + ops.exp(0.5 * log_variance) * noise


def encoder(name: str, *ends: int, blocks: int = 3) -> Any:
    inputs = x = keras.Input((32, 32, 3))
    for _ in range(blocks):
        x = layers.LeakyReLU()(layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same")(x)))
    x = layers.Flatten()(layers.AveragePooling2D(4)(x))
    outputs = [layers.Dense(end)(x) for end in ends]
    return keras.Model(inputs, outputs if len(ends) > 1 else outputs[0], name=name)


def decoder(name: str) -> Any:
    inputs = keras.Input((8,))
    x = layers.Reshape((16, 16, 8))(layers.Dense(16 * 16 * 8, activation="relu")(inputs))
    x = layers.Conv2DTranspose(16, 4, strides=2, padding="same", activation="relu")(x)
    for _ in range(3):
        x = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, layers.Conv2D(3, 3, padding="same", activation="sigmoid")(x), name=name)


class VAE(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name="vae")
        self.encoder, self.sampling, self.decoder = encoder("encoder", 8, 8), Sampling(), decoder("decoder")
        self.total, self.divergence = keras.metrics.Mean(name="loss"), keras.metrics.Mean(name="kl")

    @property
    def metrics(self) -> list[Any]:
        return [self.total, self.divergence]

    def train_step(self, data: Any) -> dict[str, Any]:
        images = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            mean, log_variance = self.encoder(images, training=True)
            found = self.decoder(self.sampling([mean, log_variance]), training=True)
            error = ops.mean(ops.sum(ops.square(images - found), axis=(1, 2, 3)))
            divergence = -0.5 * ops.mean(
                ops.sum(1 + log_variance - ops.square(mean) - ops.exp(log_variance), 1)
            )
            loss = error + divergence
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        self.total.update_state(loss)
        self.divergence.update_state(divergence)
        return {metric.name: metric.result() for metric in self.metrics}


class GAN(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name="gan")
        self.discriminator, self.generator = encoder("discriminator", 1), decoder("generator")
        self.seeds = keras.random.SeedGenerator(9)

    def compile(self, d_optimizer: Any, g_optimizer: Any, loss: Any) -> None:
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_of = d_optimizer, g_optimizer, loss
        self.d_loss, self.g_loss = keras.metrics.Mean(name="d_loss"), keras.metrics.Mean(name="g_loss")

    @property
    def metrics(self) -> list[Any]:
        return [self.d_loss, self.g_loss]

    def train_step(self, real: Any) -> dict[str, Any]:
        count = ops.shape(real)[0]
        fake = self.generator(keras.random.normal((count, 8), seed=self.seeds))
        images = ops.concatenate([fake, real], axis=0)
        labels = ops.concatenate([ops.ones((count, 1)), ops.zeros((count, 1))], axis=0)
        labels += 0.05 * tf.random.stateless_uniform(tf.shape(labels), (1, 2))
        with tf.GradientTape() as tape:
            d_loss = self.loss_of(labels, self.discriminator(images, training=True))
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights, strict=True))
        noise = keras.random.normal((count, 8), seed=self.seeds)
        with tf.GradientTape() as tape:
            judged = self.discriminator(self.generator(noise, training=True), training=True)
            g_loss = self.loss_of(ops.zeros((count, 1)), judged)
        weights = self.generator.trainable_weights
        self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights, strict=True))
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


class Averaged(keras.Model):  # type: ignore[misc]
    """Denoise images, and keep a slow copy of the network. Diffusion models do so."""

    def __init__(self) -> None:
        super().__init__(name="averaged")
        self.network, self.slow = encoder("network", 512, blocks=4), encoder("slow", 512, blocks=4)
        self.slow.set_weights(self.network.get_weights())
        self.steps = self.add_weight(shape=(), initializer="zeros", dtype="int32", trainable=False)
        self.seeds = keras.random.SeedGenerator(4)

    def train_step(self, data: Any) -> dict[str, Any]:
        images, target = data
        noise = keras.random.normal(ops.shape(images), seed=self.seeds)
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=target, y_pred=self.network(images + 0.1 * noise, training=True))
        gradients = tape.gradient(loss, self.network.trainable_weights)
        clipped, norm = tf.clip_by_global_norm(gradients, 1.0)
        self.optimizer.apply_gradients(zip(clipped, self.network.trainable_weights, strict=True))
        for fast, slow in zip(self.network.weights, self.slow.weights, strict=True):
            slow.assign(0.9 * slow + 0.1 * fast)
        self.steps.assign_add(1)
        return {"loss": loss, "norm": norm, "steps": self.steps}


Training = tuple[Callable[[int], Any], Callable[[], list[Any]], Callable[[], Any]]


def by_fit(model: Any, budget: str, *data: np.ndarray) -> Training:
    """Return what trains ``model`` on one batch, its state and its planner."""
    heard: list[dict[str, Any]] = []
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: heard.append(dict(logs)))

    def batch(number: int) -> Any:
        parts = tuple(part[16 * number : 16 * (number + 1)] for part in data)
        return parts if len(parts) > 1 else parts[0]

    if budget != "plain":
        options = checkmate.SolveOptions(time_limit_s=2)
        checkmate.rematerialize(model, budget, example=batch(0), options=options)

    def run(number: int) -> Any:
        model.fit(tf.data.Dataset.from_tensors(batch(number)), verbose=0, callbacks=[callback])
        return heard[-1]

    def state() -> list[Any]:
        optimizers = [getattr(model, name, None) for name in ("optimizer", "d_optimizer", "g_optimizer")]
        owners = [model, *model.metrics, *(each for each in optimizers if each is not None)]
        return [variable for owner in owners for variable in owner.variables]

    return run, state, lambda: model.train_function.training.planner


def vae(budget: str) -> Training:
    model = VAE()
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    return by_fit(model, budget, IMAGES)


def gan(budget: str) -> Training:
    model = GAN()
    adam = keras.optimizers.Adam
    model.compile(adam(1e-3), adam(2e-3), keras.losses.BinaryCrossentropy(from_logits=True))
    return by_fit(model, budget, IMAGES)


def averaged(budget: str) -> Training:
    model = Averaged()
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    return by_fit(model, budget, IMAGES, RANDOM.random((16 * STEPS, 512), dtype=np.float32))


def by_call(function: Any, variables: list[Any], budget: str, *data: np.ndarray) -> Training:
    """Return what calls ``function`` on one batch, its state and its planner."""
    parts = [tuple(tf.constant(part[16 * n : 16 * (n + 1)]) for part in data) for n in range(STEPS)]
    step = function
    if budget != "plain":
        options = checkmate.SolveOptions(time_limit_s=2)
        step = checkmate.rematerialize_function(function, budget, example=parts[0], options=options)
    return lambda number: step(*parts[number]), lambda: variables, lambda: step.planner


def kernels(count: int, width: int = 16) -> list[tf.Variable]:
    sizes = [3, *[width] * count]
    make = tf.random.Generator.from_seed(3)
    return [
        tf.Variable(0.1 * make.normal((3, 3, sizes[i], sizes[i + 1])), name=f"kernel_{i}")
        for i in range(count)
    ]


def plain_tensorflow(budget: str) -> Training:
    """Return a tf.function of plain variables. Dropout and momentum are written by hand."""
    weights, seeds = kernels(5), tf.random.Generator.from_seed(5)
    slots, loss_before = [tf.Variable(tf.zeros_like(weight)) for weight in weights], tf.Variable(0.0)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            x = images
            for weight in weights:
                x = tf.nn.elu(tf.nn.conv2d(x, weight, 1, "SAME"))
                kept = tf.random.stateless_uniform(tf.shape(x), seeds.make_seeds(1)[:, 0]) < 0.9
                x = tf.where(kept, x / 0.9, 0.0)
            logits = tf.reduce_mean(x, axis=(1, 2))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        for weight, slot, gradient in zip(weights, slots, tape.gradient(loss, weights), strict=True):
            slot.assign(0.9 * slot + gradient)
            weight.assign_sub(0.1 * slot)
        loss_before.assign(loss)
        return {"loss": loss, "logits": (logits, None)}

    labels = RANDOM.integers(0, 16, 16 * STEPS)
    return by_call(step, [*weights, *slots, loss_before, seeds.state], budget, IMAGES, labels)


def penalty(budget: str) -> Training:
    """Return a critic whose loss holds the gradient of its own output."""
    weights, optimizer = kernels(4), keras.optimizers.Adam(1e-2)
    optimizer.build(weights)

    def critic(x: tf.Tensor) -> tf.Tensor:
        for weight in weights:
            x = tf.nn.softplus(tf.nn.conv2d(x, weight, 1, "SAME"))
        return tf.reduce_mean(x, axis=(1, 2, 3))

    def step(real: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        fake = tf.reverse(real, [0])
        with tf.GradientTape() as outer:
            between = 0.5 * (real + fake)
            with tf.GradientTape() as inner:
                inner.watch(between)
                judged = critic(between)
            slope = tf.sqrt(tf.reduce_sum(tf.square(inner.gradient(judged, between)), axis=(1, 2, 3)))
            extra = tf.reduce_mean(tf.square(slope - 1.0))
            loss = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(real)) + 10.0 * extra
        optimizer.apply_gradients(zip(outer.gradient(loss, weights), weights, strict=True))
        return loss, extra

    return by_call(step, [*weights, *optimizer.variables], budget, IMAGES)


def accumulation(budget: str) -> Training:
    """Return a sum of the gradients of half batches. Its functions call functions."""
    weights, optimizer = kernels(5), keras.optimizers.SGD(0.1)
    optimizer.build(weights)
    sums, count = [tf.Variable(tf.zeros_like(weight)) for weight in weights], tf.Variable(0)

    @tf.function
    def add(images: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            x = images
            for weight in weights:
                x = tf.nn.softplus(forward(x, weight))
            loss = tf.reduce_mean(tf.square(x - 1.0))
        for total, gradient in zip(sums, tape.gradient(loss, weights), strict=True):
            total.assign_add(gradient)
        return loss

    @tf.function
    def forward(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        return tf.nn.conv2d(x, weight, 1, "SAME")

    @tf.function
    def step(images: tf.Tensor) -> list[tf.Tensor]:
        losses = [add(half) for half in tf.split(images, 2)]
        count.assign_add(1)
        if count % 2 == 0:
            optimizer.apply_gradients(zip(sums, weights, strict=True))
            for total in sums:
                total.assign(tf.zeros_like(total))
        return losses

    return by_call(step, [*weights, *sums, count, *optimizer.variables], budget, IMAGES)


class Network(tf.Module):  # type: ignore[misc]
    """A network as Sonnet's: it makes its variables when it is first called."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[tf.Variable] = []

    @tf.function
    def train(self, images: tf.Tensor) -> tf.Tensor:
        """Update the same variables three times."""
        if not self.kernels:
            random = np.random.default_rng(1)
            for width in (3, 16, 16, 16):
                first = 0.1 * random.standard_normal((3, 3, width, 16), dtype=np.float32)
                self.kernels.append(tf.Variable(first))
        loss = tf.zeros(())
        for number in range(3):
            with tf.GradientTape() as tape:
                x = images * (1.0 + number)
                for kernel in self.kernels:
                    x = tf.nn.tanh(tf.nn.conv2d(x, kernel, 1, "SAME"))
                loss = tf.reduce_mean(tf.square(x - 0.5))
            for kernel, gradient in zip(self.kernels, tape.gradient(loss, self.kernels), strict=True):
                kernel.assign_sub(0.1 * gradient)
        return loss


def module(budget: str) -> Training:
    network = Network()
    run, _, planner = by_call(network.train, [], budget, IMAGES)
    return run, lambda: network.kernels, planner


PROGRAMS = {
    each.__name__: each for each in (vae, gan, averaged, plain_tensorflow, penalty, accumulation, module)
}


def main(program: str, budget: str, answer: str) -> None:
    keras.utils.set_random_seed(3)
    run, state, planner = PROGRAMS[program](budget)
    returned, peaks = [], []
    for number in range(STEPS):
        tf.config.experimental.reset_memory_stats("CPU:0")
        found = run(number)
        peaks.append(tf.config.experimental.get_memory_info("CPU:0")["peak"])
        returned += [np.asarray(leaf) for leaf in tf.nest.flatten(found) if leaf is not None]
    report = {"peaks": peaks, "returned": len(returned), "recomputations": 0}
    if budget != "plain":
        plans = list(planner().plans)
        report |= {
            "allowed": planner().allowed_bytes,
            "recomputations": sum(each.schedule.recomputations for each in plans if each.schedule),
            "sentences": [each.sentence for each in plans],
            "planned_peaks": [each.peak_bytes for each in plans],
        }
    values = [*returned, *(variable.numpy() for variable in state())]
    np.savez(answer, report=json.dumps(report), **{f"{i:04d}": value for i, value in enumerate(values)})


if __name__ == "__main__":
    if "exact" in sys.argv:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    main(*sys.argv[1:4])
