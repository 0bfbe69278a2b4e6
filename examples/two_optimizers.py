"""Train by a loop of one's own with two optimizers, within a budget.

The convolutions have one optimizer and the head another. ``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import checkmate


def make_network(size, width, blocks):
    image = x = keras.Input((size, size, 3))
    for _ in range(blocks):
        x = layers.SeparableConv2D(width, 3, padding="same")(x)
        x = layers.LeakyReLU(0.1)(layers.BatchNormalization()(x))
    body = keras.Model(image, layers.GlobalAveragePooling2D()(x), name="body")
    return body, keras.Sequential([keras.Input((width,)), layers.Dropout(0.2, seed=1), layers.Dense(10)])


def make_step(body, head):
    body_optimizer = keras.optimizers.SGD(1e-2, momentum=0.9, nesterov=True)
    head_optimizer = keras.optimizers.Adam(1e-3)
    weights = body.trainable_weights, head.trainable_weights

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            logits = head(body(images, training=True), training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        gradients = tape.gradient(loss, weights)
        body_optimizer.apply_gradients(zip(gradients[0], weights[0], strict=True))
        head_optimizer.apply_gradients(zip(gradients[1], weights[1], strict=True))
        return loss

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, width, blocks, batch = (32, 16, 4, 16) if chosen.small else (64, 64, 8, 16)
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    images = random.random((batch * 10, size, size, 3), dtype=np.float32)
    labels = random.integers(0, 10, len(images))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    step = make_step(*make_network(size, width, blocks))
    step = checkmate.rematerialize_function(step, chosen.budget, options=options)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch)
    for number, (some, their_labels) in enumerate(data.repeat(2)):
        print(f"step {number}: loss: {step(some, their_labels):.4f}")


if __name__ == "__main__":
    main()
