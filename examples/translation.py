"""Train a translator on sentences of several lengths, within a budget.

Recurrent encoder and decoder with attention. Every length of a batch has a plan of its own. ``--small``
takes seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import checkmate


def make_model(words, width):
    source, target = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    told = layers.Embedding(words, width)(source)
    told = layers.Bidirectional(layers.GRU(width, return_sequences=True), merge_mode="sum")(told)
    x = layers.Embedding(words, width)(target)
    x = layers.GRU(width, return_sequences=True)(x)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, width // 4)(x, told))
    x = layers.LayerNormalization()(x + layers.GRU(width, return_sequences=True)(x))
    return keras.Model(
        [source, target], layers.Dense(words)(layers.Dropout(0.1, seed=1)(x)), name="translation"
    )


def make_batches(words, batch, lengths, count):
    """Return batches of one length each: a sentence, and the same backwards."""
    random = np.random.default_rng(0)
    for number in range(count):
        length = lengths[number % len(lengths)]
        source = random.integers(2, words, (batch, length), dtype=np.int32)
        target = source[:, ::-1]
        begun = np.concatenate([np.ones((batch, 1), np.int32), target[:, :-1]], axis=1)
        yield (source, begun), target


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="70%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    words, width, batch, lengths = (500, 32, 16, (12, 16)) if chosen.small else (4000, 128, 32, (24, 32, 40))
    keras.utils.set_random_seed(0)
    model = make_model(words, width)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3, clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    kinds = ((tf.TensorSpec((None, None), tf.int32),) * 2, tf.TensorSpec((None, None), tf.int32))
    batches = tf.data.Dataset.from_generator(
        lambda: make_batches(words, batch, lengths, 10), output_signature=kinds
    ).apply(tf.data.experimental.assert_cardinality(10))
    model.fit(batches.prefetch(2), epochs=2, verbose=2)


if __name__ == "__main__":
    main()
