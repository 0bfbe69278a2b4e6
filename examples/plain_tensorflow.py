"""Train with TensorFlow's variables and nothing else, within a budget.

Weights, dropout and momentum are written by hand. ``--small`` takes seconds.
"""

import argparse
import itertools

import numpy as np
import tensorflow as tf

import checkmate


def make_weights(widths):
    random = tf.random.Generator.from_seed(3)
    return [
        tf.Variable(random.normal((3, 3, before, after)) * (2 / (9 * before)) ** 0.5)
        for before, after in itertools.pairwise(widths)
    ]


def make_step(weights):
    slots = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
    random = tf.random.Generator.from_seed(5)

    def logits_of(images):
        x = images
        for weight in weights[:-1]:
            x = tf.nn.elu(tf.nn.conv2d(x, weight, 1, "SAME"))
            x = tf.nn.experimental.stateless_dropout(x, 0.1, seed=random.make_seeds(1)[:, 0])
        return tf.reduce_mean(tf.nn.conv2d(x, weights[-1], 1, "SAME"), axis=(1, 2))

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits_of(images))
            loss = tf.reduce_mean(losses)
        for weight, slot, gradient in zip(weights, slots, tape.gradient(loss, weights), strict=True):
            slot.assign(0.9 * slot + gradient)
            weight.assign_sub(0.01 * slot)
        return loss

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, width, batch = (32, 16, 16) if chosen.small else (64, 48, 16)
    random = np.random.default_rng(0)
    images = random.random((batch * 10, size, size, 3), dtype=np.float32)
    labels = random.integers(0, 10, len(images))
    step = make_step(make_weights([3, *[width] * 5, 10]))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    step = checkmate.rematerialize_function(step, chosen.budget, options=options)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch)
    for number, (some, their_labels) in enumerate(data.repeat(2)):
        print(f"step {number}: loss: {step(some, their_labels):.4f}")


if __name__ == "__main__":
    main()
