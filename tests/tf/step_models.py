"""Make small training steps of one's own, with tensors that are metered.

Tests load them as ``step_models.py:name``. Each is written as users write them."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def plain_step():
    """Return a step of plain variables, with dropout and momentum by hand."""
    make = tf.random.Generator.from_seed(3)
    weights = [tf.Variable(0.1 * make.normal((3, 3, n, 16)), name="kernel") for n in (3, 16, 16, 16, 16)]
    slots = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
    seeds, last = tf.random.Generator.from_seed(5), tf.Variable(0.0, name="last")

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            x = images
            for weight in weights:
                x = tf.nn.elu(tf.nn.conv2d(x, weight, 1, "SAME"))
                kept = tf.random.stateless_uniform(tf.shape(x), seeds.make_seeds(1)[:, 0]) < 0.9
                x = tf.where(kept, x / 0.9, 0.0)
            logits = tf.reduce_mean(x, axis=(1, 2))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        for weight, slot, gradient in zip(weights, slots, tape.gradient(loss, weights), strict=True):
            slot.assign(0.9 * slot + gradient)
            weight.assign_sub(0.1 * slot)
        last.assign(loss)  # it is written here and read nowhere
        return {"loss": loss, "logits": (logits, None)}

    images = np.random.default_rng(0).random((16, 32, 32, 3), dtype=np.float32)
    return step, (images, np.arange(16) % 16)


def sized_step(batch_size):
    """Return a step without a loss, of Keras layers, for any batch."""
    network = keras.Sequential(
        [layers.Conv2D(16, 3, padding="same", activation="tanh", name=f"block_{i}") for i in range(5)],
        name="network",
    )
    optimizer = keras.optimizers.Adam(1e-3)

    def step(images):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(network(images, training=True) - 0.5), axis=(1, 2, 3))
        weights = network.trainable_weights
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return step, (tf.TensorSpec((batch_size, 32, 32, 3)),)


class Autoencoder(keras.Model):
    """Hold two parts, and train them by a step of its own."""

    def __init__(self):
        super().__init__(name="autoencoder")
        image = x = keras.Input((32, 32, 3))
        for _ in range(3):
            x = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
        self.encoder = keras.Model(image, layers.Dense(8)(layers.Flatten()(layers.AveragePooling2D(4)(x))))
        code = keras.Input((8,))
        x = layers.Reshape((32, 32, 8))(layers.Dense(32 * 32 * 8, activation="relu")(code))
        for _ in range(3):
            x = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
        self.decoder = keras.Model(code, layers.Conv2D(3, 3, padding="same", activation="sigmoid")(x))
        self.error = keras.metrics.Mean(name="error")
        self.seeds = keras.random.SeedGenerator(4)

    @property
    def metrics(self):
        return [self.error]

    def train_step(self, data):
        noisy = data + 0.1 * keras.random.normal(keras.ops.shape(data), seed=self.seeds)
        with tf.GradientTape() as tape:
            found = self.decoder(self.encoder(noisy, training=True), training=True)
            loss = keras.ops.mean(keras.ops.square(found - data))
        weights = self.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.error.update_state(loss)
        return {"error": self.error.result()}


def autoencoder():
    model = Autoencoder()
    model.compile(keras.optimizers.Adam(1e-3))
    return model


class Reader(keras.Model):
    """Train a transformer by a step of its own: it smooths the labels and clips the gradients."""

    def __init__(self):
        super().__init__(name="reader")
        tokens = keras.Input((32,), dtype="int32")
        x = layers.Embedding(100, 64)(tokens)
        for _ in range(2):
            attended = layers.MultiHeadAttention(4, 16, dropout=0.1)(x, x)
            x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(attended)]))
            x = layers.Add()([x, layers.Dense(64)(layers.Dense(256, activation="gelu")(x))])
        self.network = keras.Model(tokens, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)))

    def call(self, tokens, training=False):
        return self.network(tokens, training=training)

    def train_step(self, data):
        tokens, labels, _ = keras.utils.unpack_x_y_sample_weight(data)
        smooth = 0.9 * tf.one_hot(labels, 5) + 0.02
        with tf.GradientTape() as tape:
            logits = self(tokens, training=True)
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(smooth, logits))
        weights = self.trainable_weights
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, weights), 1.0)
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"loss": loss}


def reader():
    model = Reader()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"], jit_compile=False)
    random = np.random.default_rng(0)
    model(np.zeros((16, 32), np.int32))
    return model, (
        random.integers(1, 100, (16, 32)).astype(np.int32),
        random.integers(0, 5, 16).astype(np.int32),
    )
