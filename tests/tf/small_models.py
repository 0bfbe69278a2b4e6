"""Build small compiled models with tensors big enough to be metered.

Tests load them as ``small_models.py:name``."""

import keras
import tensorflow as tf
from keras import layers


def _regression(inputs, outputs, name):
    model = keras.Model(inputs, outputs, name=name)
    model.compile("adam", "mean_squared_error")
    return model


def convnet():
    inputs = keras.Input((64, 64, 3))
    x = inputs
    for filters in (16, 32):
        x = layers.Conv2D(filters, 3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
        y = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(layers.Add()([x, y]))
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, layers.Dense(10, activation="softmax")(x), name="convnet")
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def encoder():
    tokens = keras.Input((64,), dtype="int32")
    x = layers.Embedding(100, 128)(tokens)
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, 32, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(attended)]))
        x = layers.Add()([x, layers.Dense(128)(layers.Dense(512, activation="gelu")(x))])
    model = keras.Model(tokens, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)), name="encoder")
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mean_squared_error")
    return model


def recurrent():
    inputs = keras.Input((32, 64))
    x = layers.LSTM(128, return_sequences=True)(inputs)
    x = layers.GRU(64)(x)
    return _regression(inputs, layers.Dense(1)(x), "recurrent")


class AddingCell(layers.Layer):
    """Add the input to the state, as a recurrent cell. No gradient needs the input again."""

    state_size = 128

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(128,), name="scale")

    def call(self, x, states):
        state = keras.ops.tanh(x + self.scale * states[0])
        return state, [state]


def bidirectional():
    """Return two loops side by side, and one with an input that is not kept. The gradient of that loop does
    not need the input."""
    inputs = keras.Input((32, 64))
    x = layers.Bidirectional(layers.LSTM(64, return_sequences=True))(inputs)
    x = layers.RNN(AddingCell(), return_sequences=True)(layers.Dense(128)(x))
    return _regression(inputs, layers.Dense(1)(x), "bidirectional")


class OwnLoop(layers.Layer):
    """Run a cell of one's own in a ``tf.while_loop``."""

    def build(self, shape):
        self.steps = shape[1]
        self.kernel = self.add_weight(shape=(shape[-1], 128), name="kernel")
        self.recurrent = self.add_weight(shape=(128, 128), name="recurrent")

    def call(self, inputs):
        kernel, recurrent = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.recurrent)
        x = tf.transpose(inputs, [1, 0, 2])

        def step(i, state):
            gate = tf.matmul(x[i], kernel) + tf.matmul(state, recurrent)
            return i + 1, tf.tanh(gate) * tf.sigmoid(gate)

        state = tf.zeros((tf.shape(inputs)[0], 128))
        return tf.while_loop(lambda i, state: i < self.steps, step, (0, state))[1]

    def compute_output_shape(self, shape):
        return shape[0], 128


def own_loop():
    inputs = keras.Input((32, 64))
    return _regression(inputs, layers.Dense(1)(OwnLoop()(inputs)), "own_loop")


def ends_in_loop():
    """Return a model whose output is what a loop returns."""
    inputs = keras.Input((32, 64))
    return _regression(inputs, OwnLoop()(inputs), "ends_in_loop")


class EndsEarly(layers.Layer):
    """Run a loop that ends when its own state says so. That is after 10 of up to 32 iterations."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(128, 128), name="kernel")

    def call(self, inputs):
        def step(i, done, x):
            return i + 1, done + 1.0, tf.tanh(tf.matmul(x, self.kernel)) * tf.sigmoid(x)

        state = (0, tf.reduce_mean(inputs) * 0.0, inputs)
        return tf.while_loop(lambda i, done, x: done < 9.5, step, state, maximum_iterations=32)[2]


def early_end():
    inputs = keras.Input((128,))
    return _regression(inputs, layers.Dense(1)(EndsEarly()(inputs)), "early_end")


class LoopInLoop(layers.Layer):
    """Run a loop in each iteration of a loop."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(128, 128), name="kernel")

    def call(self, inputs):
        def inner(i, x):
            return i + 1, tf.tanh(tf.matmul(x, self.kernel)) * tf.sigmoid(x)

        def outer(i, x):
            return i + 1, tf.while_loop(lambda i, x: i < 3, inner, (0, x))[1]

        return tf.while_loop(lambda i, x: i < 6, outer, (0, inputs))[1]


def nested_loop():
    inputs = keras.Input((128,))
    return _regression(inputs, layers.Dense(1)(LoopInLoop()(inputs)), "nested_loop")


class CallingLoop(layers.Layer):
    """In each iteration call a function that reads a weight, and choose between two by a branch."""

    def build(self, shape):
        self.kernels = [self.add_weight(shape=(128, 128), name=f"kernel_{number}") for number in range(3)]

    def call(self, inputs):
        first, second, third = self.kernels

        @tf.function(autograph=False)
        def called(x):
            return tf.tanh(tf.matmul(x, first))

        def step(i, x):
            x = called(x)
            positive = tf.reduce_sum(x) > 0
            return i + 1, tf.cond(
                positive, lambda: tf.sigmoid(tf.matmul(x, second)), lambda: tf.sin(tf.matmul(x, third))
            )

        return tf.while_loop(lambda i, x: i < 16, step, (0, inputs))[1]


def calling_loop():
    inputs = keras.Input((128,))
    return _regression(inputs, layers.Dense(1)(CallingLoop()(inputs)), "calling_loop")


class NoisyLoop(layers.Layer):
    """Draw from a stateful generator in each iteration."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(128, 128), name="kernel")

    def call(self, inputs):
        def step(i, x):
            return i + 1, tf.tanh(tf.matmul(x, self.kernel)) + tf.random.normal((32, 128))

        return tf.while_loop(lambda i, x: i < 9, step, (0, inputs))[1]


def noisy_loop():
    inputs = keras.Input((128,))
    return _regression(inputs, layers.Dense(1)(NoisyLoop()(inputs)), "noisy_loop")


class WritingLoop(layers.Layer):
    """Write the averages of a normalization and the seed of a dropout, which is used outside too."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(128, 128), name="kernel")
        self.norm, self.drop = layers.BatchNormalization(), layers.Dropout(0.2, seed=3)
        self.norm.build((None, 128))

    def call(self, inputs, training=None):
        def step(i, x):
            x = self.norm(tf.matmul(x, self.kernel), training=training)
            return i + 1, self.drop(tf.tanh(x), training=training)

        x = self.drop(inputs, training=training)
        for _ in range(2):
            x = tf.while_loop(lambda i, x: i < 16, step, (0, x))[1]
        return self.drop(x, training=training)


def writing_loop():
    inputs = keras.Input((128,))
    return _regression(inputs, layers.Dense(1)(WritingLoop()(inputs)), "writing_loop")


def unrolled():
    inputs = keras.Input((8, 64))
    return _regression(inputs, layers.Dense(1)(layers.LSTM(128, unroll=True)(inputs)), "unrolled")


def dropout_loop():
    inputs = keras.Input((32, 64))
    x = layers.LSTM(64, dropout=0.2, recurrent_dropout=0.2, seed=3, return_sequences=True)(inputs)
    return _regression(inputs, layers.Dense(1)(x), "dropout_loop")


def conv_recurrent():
    inputs = keras.Input((8, 16, 16, 4))
    x = layers.ConvLSTM2D(8, 3, padding="same", return_sequences=True)(inputs)
    x = layers.ConvLSTM2D(8, 3, padding="same")(x)
    return _regression(inputs, layers.Conv2D(1, 1)(x), "conv_recurrent")


def two_heads():
    image, extra = keras.Input((64, 64, 3), name="image"), keras.Input((8,), name="extra")
    x = layers.Conv2D(16, 3, padding="same", activation="relu", kernel_regularizer="l2")(image)
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
    mask = layers.Conv2D(1, 1, activation="sigmoid", name="mask")(x)
    joined = layers.Concatenate()([layers.GlobalAveragePooling2D()(x), extra])
    score = layers.Dense(1, name="score")(joined)
    model = keras.Model([image, extra], [mask, score], name="two_heads")
    model.compile(
        "adam",
        {"mask": "binary_crossentropy", "score": "mean_squared_error"},
        loss_weights={"mask": 1, "score": 2},
    )
    return model


def grouped():
    """Return grouped convolutions between ops that take almost no time. Keras lets XLA compile such
    convolutions on a CPU."""
    x = inputs = keras.Input((32, 32, 32))
    for _ in range(2):
        x = layers.Activation("gelu")(layers.Conv2D(32, 5, padding="same", groups=32)(x))
    model = keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)), name="grouped")
    model.compile("sgd", "mean_squared_error")
    return model


def residual():
    """Return six blocks at one resolution. Their activations hold most of the step's memory, however the
    executor orders it."""
    x = layers.Conv2D(16, 3, padding="same")(inputs := keras.Input((32, 32, 3)))
    for _ in range(6):
        y = layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same", activation="relu")(x))
        x = layers.Add()([x, layers.Conv2D(16, 3, padding="same", activation="relu")(y)])
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, layers.Dense(10, activation="softmax")(x), name="residual")
    model.compile("adam", "sparse_categorical_crossentropy")
    return model
