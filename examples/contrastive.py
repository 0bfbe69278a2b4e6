"""Train an encoder by contrast, with a memory bank, within a budget.

As MoCo does: two views of each image, a slow encoder for the keys, and a bank of the keys of earlier
batches. ``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

import checkmate


def make_encoder(size, width):
    image = x = keras.Input((size, size, 3))
    for filters in (width, 2 * width, 4 * width):
        for _ in range(2):
            x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.MaxPooling2D()(x)
    x = layers.Dense(64)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, layers.UnitNormalization()(x))


class Contrast(keras.Model):
    def __init__(self, size, width, bank, batch):
        super().__init__(name="contrastive")
        self.encoder, self.slow = make_encoder(size, width), make_encoder(size, width)
        self.slow.set_weights(self.encoder.get_weights())
        self.views = keras.Sequential(
            [
                layers.RandomFlip(seed=1),
                layers.RandomTranslation(0.2, 0.2, seed=2),
                layers.GaussianNoise(0.1, seed=3),
            ]
        )
        self.bank = self.add_weight(shape=(bank, 64), trainable=False)
        self.bank.assign(ops.normalize(keras.random.normal((bank, 64), seed=4)))
        self.labels = tf.zeros((batch,), "int32")
        self.loss_mean = keras.metrics.Mean(name="loss")
        self.match = keras.metrics.SparseCategoricalAccuracy(name="match")

    @property
    def metrics(self):
        return [self.loss_mean, self.match]

    def train_step(self, images):
        keys = self.slow(self.views(images, training=True), training=True)
        queries = self.views(images, training=True)
        with tf.GradientTape() as tape:
            queries = self.encoder(queries, training=True)
            alike = ops.sum(queries * keys, axis=1, keepdims=True)
            logits = ops.concatenate([alike, queries @ ops.transpose(self.bank)], axis=1) / 0.1
            losses = keras.losses.sparse_categorical_crossentropy(self.labels, logits, from_logits=True)
            loss = ops.mean(losses)
        weights = self.encoder.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        for fast, slow in zip(weights, self.slow.trainable_weights, strict=True):
            slow.assign(0.99 * slow + 0.01 * fast)
        self.bank.assign(ops.concatenate([keys, self.bank[: -keys.shape[0]]], axis=0))
        self.loss_mean.update_state(loss)
        self.match.update_state(self.labels, logits)
        return {metric.name: metric.result() for metric in self.metrics}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, width, bank, batch = (32, 16, 256, 32) if chosen.small else (64, 24, 4096, 32)
    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).random((batch * 10, size, size, 3), dtype=np.float32)
    model = Contrast(size, width, bank, batch)
    model.compile(optimizer=keras.optimizers.SGD(0.03, momentum=0.9))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    model.fit(images, batch_size=batch, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
