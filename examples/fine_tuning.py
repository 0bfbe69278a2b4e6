"""Tune a trained network in two phases, within a memory budget.

First only the new head is trained, then all of the network at a low rate. Each phase is compiled anew and has
a plan of its own. ``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
from keras import layers

import checkmate


def make_base(size, small):
    """Return a network whose weights would be loaded, if this were no example."""
    if small:
        return keras.Sequential(
            [keras.Input((size, size, 3))]
            + [layers.Conv2D(24, 3, padding="same", activation="relu") for _ in range(6)]
            + [layers.GlobalAveragePooling2D()],
            name="base",
        )
    return keras.applications.MobileNetV2((size, size, 3), include_top=False, weights=None, pooling="avg")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, batch = (48, 16) if chosen.small else (128, 16)
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    images = random.random((batch * 10, size, size, 3), dtype=np.float32)
    labels = random.integers(0, 5, len(images))
    base = make_base(size, chosen.small)
    image = keras.Input((size, size, 3))
    x = layers.Dropout(0.2, seed=1)(base(image, training=False))
    model = keras.Model(image, layers.Dense(5)(x), name="fine_tuning")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)

    base.trainable = False
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss, metrics=["accuracy"])
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    model.fit(images, labels, batch_size=batch, epochs=1, verbose=2)

    base.trainable = True
    model.compile(optimizer=keras.optimizers.Adam(1e-5), loss=loss, metrics=["accuracy"])
    model.fit(images, labels, batch_size=batch, epochs=1, verbose=2)


if __name__ == "__main__":
    main()
