"""Train a tf.Module that makes its variables late, within a budget.

It makes them when it is first called. Sonnet's modules are like this. ``--small`` takes seconds.
"""

import argparse

import numpy as np
import tensorflow as tf

import checkmate


class Linear(tf.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.weight, self.bias = width, None, None

    def __call__(self, x):
        if self.weight is None:
            first = tf.random.normal((x.shape[-1], self.width))
            self.weight = tf.Variable(first / x.shape[-1] ** 0.5, name="weight")
            self.bias = tf.Variable(tf.zeros(self.width), name="bias")
        return x @ self.weight + self.bias


class Mixer(tf.Module):
    """Mix patches, then channels, in every block."""

    def __init__(self, blocks, width, patches):
        super().__init__()
        self.begin, self.end = Linear(width), Linear(10)
        self.blocks = [
            (Linear(2 * patches), Linear(patches), Linear(4 * width), Linear(width)) for _ in range(blocks)
        ]

    def __call__(self, patches):
        x = self.begin(patches)
        for widen_patches, narrow_patches, widen, narrow in self.blocks:
            across = tf.transpose(x, (0, 2, 1))
            across = narrow_patches(tf.nn.gelu(widen_patches(across)))
            x += tf.transpose(across, (0, 2, 1))
            x += narrow(tf.nn.gelu(widen(x)))
        return self.end(tf.reduce_mean(x, axis=1))

    @tf.function
    def train(self, patches, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self(patches))
            loss = tf.reduce_mean(losses)
        weights = self.trainable_variables
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.02 * gradient)
        return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    blocks, width, patches, batch = (3, 32, 36, 16) if chosen.small else (8, 128, 196, 16)
    tf.random.set_seed(0)
    random = np.random.default_rng(0)
    data = random.random((batch * 10, patches, 48), dtype=np.float32), random.integers(0, 10, batch * 10)
    network = Mixer(blocks, width, patches)
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    step = checkmate.rematerialize_function(network.train, chosen.budget, options=options)
    for number, batch_of in enumerate(tf.data.Dataset.from_tensor_slices(data).batch(batch).repeat(2)):
        print(f"step {number}: loss: {step(*batch_of):.4f}")


if __name__ == "__main__":
    main()
