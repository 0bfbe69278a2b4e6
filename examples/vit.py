"""Train a transformer on images that it augments, within a budget.

``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
from keras import layers, ops

import checkmate


class Positions(layers.Layer):
    """Add a learned vector to every patch."""

    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="random_normal")

    def call(self, patches):
        return patches + self.table


def make_vit(size, patch, width, blocks, classes=10):
    image = keras.Input((size, size, 3))
    x = layers.RandomFlip("horizontal", seed=1)(image)
    x = layers.RandomTranslation(0.1, 0.1, seed=2)(x)
    x = layers.Conv2D(width, patch, strides=patch)(x)
    x = Positions()(layers.Reshape(((size // patch) ** 2, width))(x))
    for number in range(blocks):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.MultiHeadAttention(4, width // 4, dropout=0.1, seed=number)(y, y)
        x = layers.Add()([x, y])
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.Dense(2 * width, activation="gelu")(y)
        y = layers.Dropout(0.1, seed=number)(layers.Dense(width)(y))
        x = layers.Add()([x, y])
    x = ops.mean(layers.LayerNormalization(epsilon=1e-6)(x), axis=1)
    return keras.Model(image, layers.Dense(classes)(x), name="vit")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, patch, width, blocks, batch = (32, 4, 32, 2, 16) if chosen.small else (64, 4, 96, 6, 16)
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    images = random.random((batch * 10, size, size, 3), dtype=np.float32)
    labels = random.integers(0, 10, len(images))
    model = make_vit(size, patch, width, blocks)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    model.fit(images, labels, batch_size=batch, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
