"""Train a diffusion model within a memory budget.

As DDIM is trained: a U-Net predicts the noise in an image; a slow copy of it is kept, an average over the
steps. ``--small`` takes seconds.
"""

import argparse
import math

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

import checkmate


def residual(x, width):
    short = x if x.shape[-1] == width else layers.Conv2D(width, 1)(x)
    x = layers.BatchNormalization(center=False, scale=False)(x)
    x = layers.Conv2D(width, 3, padding="same", activation="swish")(x)
    return layers.Add()([layers.Conv2D(width, 3, padding="same")(x), short])


def make_network(size, widths):
    image, variance = keras.Input((size, size, 3)), keras.Input((1, 1, 1))
    angles = ops.exp(ops.linspace(0.0, math.log(1000.0), 16)) * 2.0 * math.pi * variance
    wave = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=3)
    x = layers.Concatenate()([layers.Conv2D(widths[0], 1)(image), layers.UpSampling2D(size)(wave)])
    skips = []
    for width in widths[:-1]:
        for _ in range(2):
            x = residual(x, width)
            skips.append(x)
        x = layers.AveragePooling2D(2)(x)
    x = residual(residual(x, widths[-1]), widths[-1])
    for width in reversed(widths[:-1]):
        x = layers.UpSampling2D(2, interpolation="bilinear")(x)
        for _ in range(2):
            x = residual(layers.Concatenate()([x, skips.pop()]), width)
    return keras.Model([image, variance], layers.Conv2D(3, 1, kernel_initializer="zeros")(x))


class Diffusion(keras.Model):
    def __init__(self, size, widths):
        super().__init__(name="ddim")
        self.network, self.slow = make_network(size, widths), make_network(size, widths)
        self.slow.set_weights(self.network.get_weights())
        self.seeds = keras.random.SeedGenerator(1)
        self.noise_loss = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.noise_loss]

    def train_step(self, images):
        count = ops.shape(images)[0]
        noise = keras.random.normal(ops.shape(images), seed=self.seeds)
        angle = keras.random.uniform((count, 1, 1, 1), 0.3, 1.55, seed=self.seeds)
        signal_rate, noise_rate = ops.cos(angle), ops.sin(angle)
        noisy = signal_rate * images + noise_rate * noise
        with tf.GradientTape() as tape:
            found = self.network([noisy, noise_rate**2], training=True)
            loss = ops.mean(ops.abs(noise - found))
        weights = self.network.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        for fast, slow in zip(self.network.weights, self.slow.weights, strict=True):
            slow.assign(0.999 * slow + 0.001 * fast)
        self.noise_loss.update_state(loss)
        return {"loss": self.noise_loss.result()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, widths, batch = (32, (16, 32), 16) if chosen.small else (64, (32, 64, 96), 16)
    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).normal(size=(batch * 10, size, size, 3)).astype("float32")
    model = Diffusion(size, widths)
    model.compile(optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-4))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    model.fit(images, batch_size=batch, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
