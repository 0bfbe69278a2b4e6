"""Train a U-Net on batches that a PyDataset makes, within a memory budget.

``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
from keras import layers

import checkmate


class Shapes(keras.utils.PyDataset):
    """Pictures of a bright disc in noise, and where the disc is."""

    def __init__(self, batches, batch, size, **options):
        super().__init__(**options)
        self.batches, self.batch, self.size = batches, batch, size

    def __len__(self):
        return self.batches

    def __getitem__(self, number):
        random = np.random.default_rng(number)
        across = np.arange(self.size)
        centre = random.uniform(0.2, 0.8, (self.batch, 2, 1, 1)) * self.size
        far = (across[:, None] - centre[:, 0]) ** 2 + (across - centre[:, 1]) ** 2
        inside = far < (random.uniform(0.1, 0.2, (self.batch, 1, 1)) * self.size) ** 2
        pictures = inside[..., None] + random.normal(0, 0.3, (self.batch, self.size, self.size, 3))
        return pictures.astype("float32"), inside.astype("int32")


def twice(x, width):
    for _ in range(2):
        x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    return x


def make_unet(size, widths):
    picture = x = keras.Input((size, size, 3))
    skips = []
    for width in widths[:-1]:
        skips.append(twice(x, width))
        x = layers.MaxPooling2D()(skips[-1])
    x = twice(x, widths[-1])
    for width in reversed(widths[:-1]):
        x = layers.Conv2DTranspose(width, 2, strides=2)(x)
        x = twice(layers.Concatenate()([x, skips.pop()]), width)
    return keras.Model(picture, layers.Conv2D(2, 1)(x), name="unet")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, widths, batch = (32, (8, 16), 16) if chosen.small else (96, (24, 48, 96), 8)
    keras.utils.set_random_seed(0)
    model = make_unet(size, widths)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    model.fit(Shapes(10, batch, size, workers=2), epochs=2, verbose=2)


if __name__ == "__main__":
    main()
