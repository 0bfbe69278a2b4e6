"""Sum the gradients of several small batches, within a memory budget.

Every fourth step updates the weights. The step is a ``tf.function`` that calls others. ``--small`` takes
seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import checkmate


def make_network(words, length, width, blocks):
    text = keras.Input((length,), dtype="int32")
    x = layers.Embedding(words, width)(text)
    for number in range(blocks):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, width // 4, seed=number)(y, y, use_causal_mask=True)
        y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        x = x + layers.Dense(width)(y)
    return keras.Model(text, layers.Dense(words)(layers.LayerNormalization()(x)))


def make_step(network, optimizer, every=4):
    weights = network.trainable_weights
    optimizer.build(weights)
    sums, count = [tf.Variable(tf.zeros_like(weight)) for weight in weights], tf.Variable(0)

    @tf.function
    def add(text):
        with tf.GradientTape() as tape:
            logits = network(text[:, :-1], training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(text[:, 1:], logits)
            loss = tf.reduce_mean(losses)
        for total, gradient in zip(sums, tape.gradient(loss, weights), strict=True):
            total.assign_add(tf.convert_to_tensor(gradient) / every)
        return loss

    @tf.function
    def step(text):
        loss = add(text)
        count.assign_add(1)
        if count % every == 0:
            optimizer.apply_gradients(zip(sums, weights, strict=True))
            for total in sums:
                total.assign(tf.zeros_like(total))
        return loss

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="70%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    words, length, width, blocks, batch = (300, 32, 48, 2, 16) if chosen.small else (2000, 128, 128, 6, 8)
    keras.utils.set_random_seed(0)
    text = np.random.default_rng(0).integers(0, words, (20 * batch, length + 1), dtype=np.int32)
    step = make_step(make_network(words, length, width, blocks), keras.optimizers.AdamW(3e-4))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    step = checkmate.rematerialize_function(step, chosen.budget, options=options)
    for number, some in enumerate(tf.data.Dataset.from_tensor_slices(text).batch(batch)):
        print(f"step {number}: loss: {step(some):.4f}")


if __name__ == "__main__":
    main()
