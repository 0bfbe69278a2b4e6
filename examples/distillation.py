"""Train a student on what its teacher says, within a memory budget.

The teacher runs in the same step, and is not trained. ``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

import checkmate


def make_network(name, size, width, blocks, classes=10):
    image = keras.Input((size, size, 3))
    x = layers.Conv2D(width, 3, padding="same")(image)
    for _ in range(blocks):
        y = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.Add()([x, layers.Conv2D(width, 3, padding="same")(y)])
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(x))
    return keras.Model(image, layers.Dense(classes)(x), name=name)


class Distiller(keras.Model):
    def __init__(self, student, teacher, temperature=3.0, share=0.1):
        super().__init__(name="distiller")
        self.student, self.teacher = student, teacher
        self.teacher.trainable = False
        self.temperature, self.share = temperature, share
        self.divergence = keras.losses.KLDivergence()
        self.loss_mean = keras.metrics.Mean(name="loss")
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    @property
    def metrics(self):
        return [self.loss_mean, self.accuracy]

    def call(self, images, training=False):
        return self.student(images, training=training)

    def train_step(self, data):
        images, labels = data
        told = ops.softmax(self.teacher(images, training=False) / self.temperature)
        with tf.GradientTape() as tape:
            logits = self.student(images, training=True)
            found = ops.softmax(logits / self.temperature)
            loss = self.share * self.compute_loss(y=labels, y_pred=logits)
            loss += (1 - self.share) * self.divergence(told, found) * self.temperature**2
        weights = self.student.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.loss_mean.update_state(loss)
        self.accuracy.update_state(labels, logits)
        return {metric.name: metric.result() for metric in self.metrics}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, width, batch = (32, 16, 32) if chosen.small else (64, 32, 32)
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    images = random.random((batch * 10, size, size, 3), dtype=np.float32)
    labels = random.integers(0, 10, len(images))
    model = Distiller(make_network("student", size, width, 6), make_network("teacher", size, 2 * width, 8))
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    model.fit(images, labels, batch_size=batch, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
