"""Train a conditional GAN with a gradient penalty, within a memory budget.

Both networks are told the class. The step is a ``tf.function`` of one's own. ``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import checkmate

CLASSES = 10


def make_critic(size, width):
    image, label = keras.Input((size, size, 3)), keras.Input((), dtype="int32")
    plane = layers.Reshape((size, size, 1))(layers.Embedding(CLASSES, size * size)(label))
    x = layers.Concatenate()([image, plane])
    for strides in (1, 1, 2, 1, 1, 2, 1, 2):
        x = layers.LeakyReLU(0.2)(layers.Conv2D(width, 3, strides=strides, padding="same")(x))
    return keras.Model([image, label], layers.Dense(1)(layers.Flatten()(x)), name="critic")


def make_generator(size, width):
    code, label = keras.Input((64,)), keras.Input((), dtype="int32")
    x = layers.Concatenate()([code, layers.Embedding(CLASSES, 16)(label)])
    x = layers.Reshape((size // 8, size // 8, width))(layers.Dense((size // 8) ** 2 * width)(x))
    for strides in (2, 1, 2, 1, 2, 1):
        x = layers.Conv2DTranspose(width, 3, strides=strides, padding="same", activation="relu")(x)
    image = layers.Conv2D(3, 5, padding="same", activation="tanh")(x)
    return keras.Model([code, label], image, name="generator")


def make_step(critic, generator, seeds):
    critic_optimizer, generator_optimizer = (keras.optimizers.Adam(2e-4, beta_1=0.5) for _ in range(2))

    def penalty(real, fake, labels):
        share = keras.random.uniform((real.shape[0], 1, 1, 1), seed=seeds)
        between = share * real + (1 - share) * fake
        with tf.GradientTape() as tape:
            tape.watch(between)
            judged = critic([between, labels], training=True)
        slope = tf.sqrt(tf.reduce_sum(tape.gradient(judged, between) ** 2, axis=(1, 2, 3)) + 1e-12)
        return tf.reduce_mean((slope - 1.0) ** 2)

    @tf.function
    def step(real, labels):
        codes = keras.random.normal((2, real.shape[0], 64), seed=seeds)
        fake = generator([codes[0], labels], training=True)
        with tf.GradientTape() as tape:
            judged = critic([tf.concat([fake, real], 0), tf.tile(labels, (2,))], training=True)
            of_fake, of_real = tf.split(judged, 2)
            critic_loss = tf.reduce_mean(of_fake - of_real) + 10.0 * penalty(real, fake, labels)
        weights = critic.trainable_weights
        critic_optimizer.apply_gradients(zip(tape.gradient(critic_loss, weights), weights, strict=True))
        with tf.GradientTape() as tape:
            generator_loss = -tf.reduce_mean(critic([generator([codes[1], labels]), labels], training=True))
        weights = generator.trainable_weights
        gradients = tape.gradient(generator_loss, weights)
        generator_optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"loss": critic_loss, "generator": generator_loss}

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, width, batch = (32, 16, 16) if chosen.small else (64, 32, 64)
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    images = random.uniform(-1, 1, (batch * 10, size, size, 3)).astype("float32")
    labels = random.integers(0, CLASSES, len(images), dtype=np.int32)
    step = make_step(make_critic(size, width), make_generator(size, width), keras.random.SeedGenerator(1))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    step = checkmate.rematerialize_function(step, chosen.budget, options=options)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch, drop_remainder=True)
    for number, (real, their_labels) in enumerate(data.repeat(2)):
        losses = step(real, their_labels)
        print(f"step {number}: loss: {losses['loss']:.4f}, generator: {losses['generator']:.4f}")


if __name__ == "__main__":
    main()
