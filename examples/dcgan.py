"""Train a DCGAN within a memory budget.

Its ``train_step`` has two optimizers and two backward passes. ``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

import checkmate

CODE = 64


def make_discriminator(size, width):
    image = x = keras.Input((size, size, 3))
    for filters in (width, 2 * width, 4 * width):
        x = layers.LeakyReLU(0.2)(layers.Conv2D(filters, 4, strides=2, padding="same")(x))
    x = layers.Dropout(0.2)(layers.Flatten()(x))
    return keras.Model(image, layers.Dense(1)(x), name="discriminator")


def make_generator(size, width):
    code = keras.Input((CODE,))
    x = layers.Dense((size // 8) ** 2 * 4 * width)(code)
    x = layers.Reshape((size // 8, size // 8, 4 * width))(x)
    for filters in (4 * width, 2 * width, width):
        x = layers.Conv2DTranspose(filters, 4, strides=2, padding="same", use_bias=False)(x)
        x = layers.LeakyReLU(0.2)(layers.BatchNormalization()(x))
    return keras.Model(code, layers.Conv2D(3, 5, padding="same", activation="tanh")(x), name="generator")


class DCGAN(keras.Model):
    def __init__(self, size, width):
        super().__init__(name="dcgan")
        self.discriminator, self.generator = make_discriminator(size, width), make_generator(size, width)
        self.seeds = keras.random.SeedGenerator(1)
        self.judged = keras.losses.BinaryCrossentropy(from_logits=True)

    def compile(self, discriminator_optimizer, generator_optimizer):
        super().compile()
        self.discriminator_optimizer = discriminator_optimizer
        self.generator_optimizer = generator_optimizer

    def train_step(self, real):
        count = ops.shape(real)[0]
        codes = keras.random.normal((2, count, CODE), seed=self.seeds)
        images = ops.concatenate([self.generator(codes[0], training=True), real])
        labels = ops.concatenate([ops.ones((count, 1)), ops.zeros((count, 1))])
        labels += 0.05 * keras.random.uniform((2 * count, 1), seed=self.seeds)
        with tf.GradientTape() as tape:
            discriminator_loss = self.judged(labels, self.discriminator(images, training=True))
        self.update(self.discriminator_optimizer, tape, discriminator_loss, self.discriminator)
        with tf.GradientTape() as tape:
            fake = self.generator(codes[1], training=True)
            generator_loss = self.judged(ops.zeros((count, 1)), self.discriminator(fake, training=True))
        self.update(self.generator_optimizer, tape, generator_loss, self.generator)
        return {"loss": discriminator_loss, "generator_loss": generator_loss}

    def update(self, optimizer, tape, loss, network):
        weights = network.trainable_weights
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="80%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, width, batch = (32, 16, 32) if chosen.small else (64, 32, 64)
    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).uniform(-1, 1, (batch * 10, size, size, 3)).astype("float32")
    model = DCGAN(size, width)
    model.compile(*(keras.optimizers.Adam(2e-4, beta_1=0.5) for _ in range(2)))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    model.fit(images, batch_size=batch, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
