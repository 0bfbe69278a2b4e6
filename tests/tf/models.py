"""Build compiled models that each have one difficulty of real networks.

Tests load them as ``models.py:name``. Sized for a batch of 8: activations of 32 KiB to 1 MiB, a step in
milliseconds."""

import keras
import tensorflow as tf
from keras import layers, ops


def dict_inputs_outputs():
    """Return a model with inputs and outputs by name. Each output has a loss, one of them weighted."""
    left, right = keras.Input((32, 32, 3), name="left"), keras.Input((32, 32, 3), name="right")
    encode = layers.Conv2D(16, 3, padding="same", activation="relu", name="encode")  # used twice
    x, y = encode(left), encode(right)
    joined = layers.Concatenate()([x, y])
    classes = layers.Dense(7, activation="softmax", name="class_head")(
        layers.GlobalAveragePooling2D()(joined)
    )
    depth = layers.Conv2D(1, 3, padding="same", name="depth_head")(layers.Subtract()([x, y]))
    model = keras.Model({"right": right, "left": left}, {"depth": depth, "classes": classes}, name="dict_io")
    model.compile(
        "adam",
        loss={"depth": "mse", "classes": keras.losses.SparseCategoricalCrossentropy()},
        loss_weights={"depth": 0.5, "classes": 1.0},
    )
    return model


def output_without_loss():
    """Return a model with two outputs, and a loss for the first only."""
    inputs = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    outputs = [layers.Conv2D(2, 1, name="kept")(x), layers.Conv2D(4, 1, name="watched")(x)]
    model = keras.Model(inputs, outputs, name="watched")
    model.compile("sgd", loss=["mse", None])
    return model


class Activity(layers.Layer):
    """Add the mean square of what passes to the loss."""

    def call(self, x):
        self.add_loss(1e-3 * ops.mean(ops.square(x)))
        return x


class Block(layers.Layer):
    """Add a residual block with statistics and dropout of its own."""

    def __init__(self, units, **options):
        super().__init__(**options)
        self.first, self.second = layers.Dense(units, activation="gelu"), layers.Dense(units)
        self.norm, self.dropout = layers.BatchNormalization(), layers.Dropout(0.3, seed=11)
        self.activity = Activity()

    def call(self, x, training=False):
        y = self.dropout(self.second(self.first(x)), training=training)
        return self.activity(self.norm(x + y, training=training))


class Subclassed(keras.Model):
    """Hold layers in attributes and lists, with added losses. It has a loss of its own on top."""

    def __init__(self, **options):
        super().__init__(**options)
        self.embed = layers.Dense(256, kernel_regularizer=keras.regularizers.L2(1e-4))
        self.blocks = [Block(256) for _ in range(3)]
        self.head = layers.Dense(10)

    def call(self, x, training=False):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x, training=training)
        return self.head(x)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        own = super().compute_loss(x, y, y_pred, sample_weight, training)
        return own + 1e-2 * ops.mean(ops.abs(y_pred))


def subclassed():
    model = Subclassed(name="subclassed")
    model(ops.zeros((1, 64, 32)))
    model.compile(keras.optimizers.Adam(1e-3, clipnorm=1.0), "huber")
    return model


def regularized():
    """Return a model with every kind of regularizer, and constraints. Constraints act in the update."""
    inputs = keras.Input((64, 64))
    x = layers.Dense(
        128,
        activation="relu",
        kernel_regularizer=keras.regularizers.L1L2(1e-4, 1e-4),
        bias_regularizer="l2",
        activity_regularizer=keras.regularizers.L1(1e-5),
    )(inputs)
    x = layers.Dense(128, activation="tanh", kernel_constraint=keras.constraints.MaxNorm(1.0))(x)
    model = keras.Model(inputs, layers.Dense(3, activation="sigmoid")(x), name="regularized")
    model.compile(keras.optimizers.RMSprop(1e-3, momentum=0.9, centered=True), "binary_crossentropy")
    return model


def random_layers():
    """Return layers that each draw random numbers. The same seed must give the same numbers when they are
    computed again."""
    inputs = keras.Input((32, 32, 3))
    x = layers.GaussianNoise(0.1, seed=1)(inputs)
    x = layers.Conv2D(16, 3, padding="same", activation="silu")(x)
    x = layers.SpatialDropout2D(0.2, seed=2)(x)
    x = layers.Conv2D(16, 3, padding="same")(layers.AlphaDropout(0.1, seed=3)(x))
    x = layers.GaussianDropout(0.1)(layers.GroupNormalization(4)(x))
    x = layers.Dropout(0.5)(layers.Flatten()(layers.MaxPooling2D(4)(x)))
    model = keras.Model(inputs, layers.Dense(10, activation="softmax")(x), name="random_layers")
    model.compile("adam", "categorical_crossentropy")
    return model


def recurrent_masked():
    """Return an LSTM and a GRU that read embedded tokens with a padding mask. The LSTM is bidirectional."""
    tokens = keras.Input((24,), name="tokens")  # real-valued, as many models declare their ids
    x = layers.Embedding(50, 64, mask_zero=True)(tokens)
    x = layers.Bidirectional(layers.LSTM(48, return_sequences=True, dropout=0.1))(x)
    x = layers.GRU(32, return_sequences=True, reset_after=False)(x)
    model = keras.Model(tokens, layers.TimeDistributed(layers.Dense(50))(x), name="recurrent_masked")
    model.compile("nadam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def shared_embedding():
    """Return one table read by two inputs. Its gradient is the sum of two sparse ones."""
    first, second = (
        keras.Input((32,), dtype="int32", name="first"),
        keras.Input((32,), dtype="int64", name="second"),
    )
    table = layers.Embedding(500, 64, name="table")
    x = layers.Concatenate()([table(first), table(second)])
    x = layers.Conv1D(64, 5, padding="causal", activation="relu")(x)
    score = layers.Dot(-1, normalize=True)(
        [layers.GlobalMaxPooling1D()(x), layers.GlobalAveragePooling1D()(x)]
    )
    model = keras.Model([first, second], score, name="shared_embedding")
    model.compile(keras.optimizers.Adagrad(0.1), "mean_absolute_error")
    return model


def half_precision():
    """Return a model with float16 activations, float32 weights, a scaled loss."""
    policy = keras.DTypePolicy("mixed_float16")
    inputs = keras.Input((32, 32, 3))
    x = layers.Conv2D(32, 3, padding="same", use_bias=False, dtype=policy)(inputs)
    x = layers.ReLU(dtype=policy)(layers.BatchNormalization(dtype=policy)(x))
    x = layers.Conv2D(32, 3, padding="same", activation="relu", dtype=policy)(x)
    x = layers.GlobalAveragePooling2D(dtype=policy)(x)
    model = keras.Model(
        inputs, layers.Dense(10, activation="softmax", dtype="float32")(x), name="half_precision"
    )
    model.compile(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=128.0), "kl_divergence"
    )
    return model


def nested():
    """Return a model inside a sequential model inside a model. Views stand between them."""
    inner = keras.Sequential(
        [keras.Input((256,)), layers.Dense(256, activation="relu"), layers.Dense(256)], name="mlp"
    )
    block_input = keras.Input((16, 256))
    block = keras.Model(
        block_input, layers.Add()([block_input, layers.TimeDistributed(inner)(block_input)]), name="block"
    )
    inputs = keras.Input((64, 64))
    x = layers.Reshape((16, 256))(inputs)
    x = layers.LayerNormalization()(block(block(x)))  # the block's weights are used twice
    x = layers.Permute((2, 1))(x)
    outputs = layers.Softmax()(layers.Dense(5)(layers.Flatten()(x)))
    model = keras.Model(inputs, outputs, name="nested")
    model.compile(keras.optimizers.AdamW(1e-3, use_ema=True), "categorical_crossentropy")
    return model


def accumulated():
    """Return a model that gathers gradients over two steps before an update."""
    inputs = keras.Input((32, 32, 3))
    x = layers.SeparableConv2D(32, 3, padding="same", activation="relu6")(inputs)
    x = layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2)(x)
    x = layers.Conv2DTranspose(8, 2, strides=2)(layers.AveragePooling2D(2)(x))
    model = keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x), name="accumulated")
    model.compile(
        keras.optimizers.SGD(0.1, nesterov=True, momentum=0.9, gradient_accumulation_steps=2), "dice"
    )
    return model


def frozen_front():
    """Return a model whose first half is not trained. That half has no backward pass, and its statistics
    stand still."""
    inputs = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same", trainable=False)(inputs)
    x = layers.ReLU()(layers.BatchNormalization(trainable=False)(x))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
    model = keras.Model(inputs, layers.Dense(4)(layers.GlobalMaxPooling2D()(x)), name="frozen_front")
    model.compile("lion", keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1))
    return model


def raw_tensorflow():
    """Return a layer with TensorFlow ops and a gradient of its own."""

    @tf.custom_gradient
    def clipped(x):
        def gradient(upstream):
            return tf.clip_by_norm(upstream, 1.0)

        return tf.identity(x), gradient

    class Mixer(layers.Layer):
        def build(self, shape):
            self.mix = self.add_weight(shape=(shape[-1], shape[-1]), initializer="orthogonal", name="mix")

        def call(self, x):
            y = tf.einsum("bij,jk->bik", x, tf.convert_to_tensor(self.mix))
            low, high = tf.split(tf.nn.leaky_relu(y), 2, axis=-1)
            return clipped(tf.concat([tf.math.cumsum(low, axis=1) / 32.0, high], axis=-1))

    inputs = keras.Input((32, 64))
    model = keras.Model(inputs, layers.Dense(2)(Mixer()(Mixer()(inputs))), name="raw_tensorflow")

    def mean_quartic(y_true, y_pred):
        return ops.mean((y_true - y_pred) ** 4, axis=-1)

    model.compile("adamax", mean_quartic)
    return model


ALL = ["dict_inputs_outputs", "output_without_loss", "subclassed", "regularized", "random_layers"]
ALL += ["recurrent_masked", "shared_embedding", "half_precision", "nested", "accumulated"]
ALL += ["frozen_front", "raw_tensorflow"]
