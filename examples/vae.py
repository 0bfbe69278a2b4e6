"""Train a variational autoencoder within a memory budget.

``python examples/vae.py --budget 60%`` trains on random images; ``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

import checkmate


class Sampling(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        self.seeds = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_variance = inputs
        return mean + ops.exp(0.5 * log_variance) * keras.random.normal(ops.shape(mean), seed=self.seeds)


class VAE(keras.Model):
    def __init__(self, size, width):
        super().__init__(name="vae")
        image = x = keras.Input((size, size, 3))
        for strides in (1, 1, 2, 1, 2):
            x = layers.Conv2D(width, 3, strides=strides, padding="same", activation="relu")(x)
        x = layers.Dense(32, activation="relu")(layers.Flatten()(x))
        mean, log_variance = layers.Dense(16)(x), layers.Dense(16)(x)
        self.encoder = keras.Model(image, [mean, log_variance, Sampling()([mean, log_variance])])
        code = keras.Input((16,))
        x = layers.Dense((size // 4) ** 2 * width, activation="relu")(code)
        x = layers.Reshape((size // 4, size // 4, width))(x)
        for strides in (2, 1, 2, 1, 1):
            x = layers.Conv2DTranspose(width, 3, strides=strides, padding="same", activation="relu")(x)
        self.decoder = keras.Model(code, layers.Conv2D(3, 3, padding="same", activation="sigmoid")(x))
        self.trackers = [keras.metrics.Mean(name=name) for name in ("loss", "reconstruction", "kl")]

    @property
    def metrics(self):
        return self.trackers

    def train_step(self, images):
        with tf.GradientTape() as tape:
            mean, log_variance, code = self.encoder(images, training=True)
            found = self.decoder(code, training=True)
            error = ops.mean(ops.sum(keras.losses.binary_crossentropy(images, found), axis=(1, 2)))
            kl = 1 + log_variance - ops.square(mean) - ops.exp(log_variance)
            kl = -0.5 * ops.mean(ops.sum(kl, axis=1))
            loss = error + kl
        weights = self.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        for tracker, value in zip(self.trackers, (loss, error, kl), strict=True):
            tracker.update_state(value)
        return {tracker.name: tracker.result() for tracker in self.trackers}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="70%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, width, batch = (32, 16, 32) if chosen.small else (64, 32, 64)
    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).random((batch * 10, size, size, 3), dtype=np.float32)
    model = VAE(size, width)
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    model.fit(images, batch_size=batch, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
