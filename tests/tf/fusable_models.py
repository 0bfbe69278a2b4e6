"""Build small compiled models that TensorFlow's graph passes rewrite.

Tests load them as ``fusable_models.py:name``. The passes merge, hoist or remove their ops. The patterns are
those of TensorFlow 2.21's remapper (convolution, depthwise convolution or product + bias + activation; batch
normalisation + addition + activation; sigmoid x input; GELU; layer normalisation; scaled and masked
products), of oneDNN's layout pass (convolution + bias; padding + convolution; filter gradient + bias gradient
that read one tensor), and of its arithmetic, constant folding and function passes. Sized for a batch of 8:
tensors of 16 KiB (scheduled) to 128 KiB."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import layers


class Raw(layers.Layer):
    """Call one TensorFlow function as a layer."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function

    def call(self, *inputs):
        return self.function(*inputs)


def _image_model(inputs, x, name):
    model = keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)), name=name)
    model.compile("adam", "mse", jit_compile=False)
    return model


def convolutions():
    """Return convolutions with a bias and each activation that is fused."""
    inputs = x = keras.Input((12, 12, 8))
    for activation in ("relu", "relu6", "elu", "leaky_relu", "tanh", "sigmoid", "silu", "gelu", None):
        x = layers.Conv2D(8, 3, padding="same", activation=activation)(x)
    return _image_model(inputs, x, "convolutions")


def shared_gradient():
    """Return sums of biased convolutions. One tensor is the gradient that several filter and bias gradients
    read."""
    inputs = x = keras.Input((12, 12, 8))
    for _ in range(2):
        left, right = layers.Conv2D(8, 3, padding="same")(x), layers.Conv2D(8, 1, padding="same")(x)
        x = layers.Add()([left, right, layers.Conv2D(8, 5, padding="same")(x)])
        x = layers.ReLU()(x)
    return _image_model(inputs, x, "shared_gradient")


def padded():
    """Return padding read by several kinds of convolutions. They are trained, frozen, with and without a
    bias; the padding is read once and twice."""
    inputs = x = keras.Input((12, 12, 8))
    for trainable in (True, False, True, False):
        p = layers.ZeroPadding2D(1)(x)
        y = layers.Conv2D(8, 3, trainable=trainable, activation="relu" if trainable else None)(p)
        z = layers.Conv2D(8, 3, use_bias=False, trainable=trainable)(layers.ZeroPadding2D(1)(x))
        x = layers.Add()([y, z])
    return _image_model(inputs, x, "padded")


def depthwise():
    """Return depthwise and separable convolutions, and pooling. They have a bias and an activation. The
    gradient of the pooling reads what oneDNN keeps."""
    inputs = x = keras.Input((12, 12, 8))
    for activation in ("relu", "relu6", "elu"):
        x = layers.DepthwiseConv2D(3, padding="same", activation=activation)(x)
        x = layers.SeparableConv2D(8, 3, padding="same", activation=activation)(x)
        x = layers.Add()([layers.MaxPooling2D(3, 1, "same")(x), layers.AveragePooling2D(3, 1, "same")(x)])
    return _image_model(inputs, x, "depthwise")


class Standardised(layers.Layer):
    """Convolve with a kernel that is computed from the weights. The order may put that computation between
    padding and convolution."""

    def build(self, shape):
        self.weights_ = self.add_weight(shape=(3, 3, shape[-1], shape[-1]), name="weights")
        self.trainable = (
            False  # then only the convolution reads the padded tensor, as oneDNN needs it for merging
        )

    def call(self, x):
        kernel = tf.convert_to_tensor(self.weights_)
        mean, variance = tf.nn.moments(kernel, (0, 1, 2), keepdims=True)
        kernel = tf.tanh((kernel - mean) * tf.math.rsqrt(variance + 1e-3))
        return tf.nn.conv2d(tf.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), kernel, 1, "VALID")


def standardised():
    """Return padding, then a convolution whose kernel is scheduled too. The step of the kernel can stand
    between the two."""
    inputs = x = keras.Input((12, 12, 24))
    x = layers.Conv2D(24, 1)(x)
    for _ in range(2):
        x = layers.Add()([Standardised()(x), x])
    return _image_model(inputs, x, "standardised")


class FusedNorm(layers.Layer):
    """Normalise by the statistics of the batch, with TensorFlow's one op."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")
        self.offset = self.add_weight(shape=(shape[-1],), initializer="zeros", name="offset")

    def call(self, x):
        scale, offset = tf.convert_to_tensor(self.scale), tf.convert_to_tensor(self.offset)
        return tf.compat.v1.nn.fused_batch_norm(x, scale, offset, is_training=True)[0]


def normalised():
    """Return batch normalisation, as one op and decomposed. An addition and an activation follow; it is
    frozen after a convolution."""
    inputs = x = keras.Input((12, 12, 8))
    for number in range(2):
        y = FusedNorm()(layers.Conv2D(8, 3, padding="same", use_bias=bool(number))(x))
        y = layers.ReLU()(layers.Add()([y, x]))
        y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(y)))
        z = layers.BatchNormalization(trainable=False)(layers.Conv2D(8, 3, padding="same", use_bias=False)(y))
        x = layers.ReLU()(layers.Add()([z, x]))
        x = layers.LayerNormalization()(layers.GroupNormalization(2)(x))
    return _image_model(inputs, x, "normalised")


def products():
    """Return products of several kinds, and layer normalisation. They are products + bias + activation,
    scaled, masked and soft-maxed products."""
    inputs = x = keras.Input((16, 32))
    for activation in ("relu", "gelu", "tanh", "sigmoid", "elu"):
        y = layers.Dense(32, activation=activation)(x)
        x = layers.LayerNormalization()(layers.Add()([x, y]))
    x = layers.Add()([x, layers.MultiHeadAttention(2, 16)(x, x, use_causal_mask=True)])
    left, right = layers.Dense(32)(x), layers.Dense(32)(x)
    x = layers.Softmax()(layers.Add()([left, right, Raw(lambda t: tf.nn.gelu(t, approximate=True))(right)]))
    flat = layers.Dense(64, activation="relu")(layers.Flatten()(x))
    model = keras.Model(inputs, layers.Dense(3)(layers.Dense(64, activation="gelu")(flat)), name="products")
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=1.0), "mse", jit_compile=False)
    return model


def arithmetic():
    """Return what the arithmetic passes rewrite. These are common factors, sums of sums, twin branches,
    neutral elements and paired transposes."""

    def hoisted(x, y, z):
        return tf.add_n([x * y, x * z, x * 2.0]) + tf.add_n([y, z, x])

    def twins(x):
        return tf.exp(-tf.square(x)) + tf.exp(-tf.square(x)) * 1.0 + 0.0

    def moved(x):
        return tf.transpose(tf.nn.relu(tf.transpose(x, (0, 3, 1, 2))), (0, 2, 3, 1))

    def split(x):
        low, high = tf.split(x, 2, axis=-1)
        return tf.concat([tf.sqrt(tf.nn.softplus(high)), tf.math.rsqrt(1.0 + tf.square(low))], axis=-1)

    inputs = x = keras.Input((12, 12, 8))
    x = layers.Conv2D(8, 1)(x)
    for _ in range(2):
        y, z = Raw(tf.sin)(x), Raw(twins)(x)
        x = Raw(split)(Raw(moved)(Raw(hoisted)(x, y, z)))
        x = Raw(lambda t: tf.reshape(tf.reshape(t, (-1, 144, 8)), (-1, 12, 12, 8)) * tf.ones((12, 12, 8)))(x)
    return _image_model(inputs, layers.Conv2D(8, 1)(x), "arithmetic")


def transposed():
    """Return convolutions between transposes, and transposed convolutions. Channels-first code makes such
    transposes, in two and three dimensions."""
    inputs = x = keras.Input((8, 12, 12))
    for _ in range(2):
        y = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.Permute((2, 3, 1))(x))
        x = layers.Permute((3, 1, 2))(y)
    x = layers.Conv2DTranspose(8, 2, 2, activation="relu")(layers.Permute((2, 3, 1))(x))
    y = layers.Reshape((8, 12, 6, 8))(x)
    y = layers.Conv3D(8, 3, padding="same", activation="relu")(y)
    y = layers.MaxPooling3D(2)(layers.Conv3D(8, 3, padding="same")(y))
    return _image_model(inputs, layers.Reshape((8, 9, 8))(y), "transposed")


def small_gradients():
    """Return a model whose bias gradients are too small to be scheduled. Its filter gradients are big
    enough."""
    inputs = x = keras.Input((4, 4, 32))
    for _ in range(3):
        y = layers.Conv2D(24, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(32, 3, padding="same")(layers.Add()([y, layers.Conv2D(24, 1)(x)]))
    model = keras.Model(inputs, layers.Conv2D(24, 3, strides=2, padding="same")(x), name="small_gradients")
    model.compile(keras.optimizers.Adam(1e-3, clipnorm=1.0), "mse", jit_compile=False)
    return model


class Branches(layers.Layer):
    """Run a branch and a loop that each read and return big tensors."""

    def call(self, x):
        high = tf.reduce_mean(x) > 0.1
        x = tf.cond(high, lambda: tf.nn.relu(x) * 0.5, lambda: tf.tanh(x))
        return tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, tf.sin(t) + t), (0, x))[1]


def control_flow():
    """Return loops of recurrent layers, and a branch and a loop of TensorFlow. They stand between ops that
    are fused."""
    inputs = x = keras.Input((16, 32))
    x = layers.Dense(32, activation="relu")(x)
    x = layers.Add()([layers.LSTM(32, return_sequences=True)(x), layers.Dense(32)(x)])
    x = Branches()(x)
    x = layers.GRU(32, return_sequences=True)(layers.Dense(32, activation="gelu")(x))
    model = keras.Model(inputs, layers.Dense(3, activation="relu")(x), name="control_flow")
    model.compile("adam", "mse", jit_compile=False)
    return model


ALL = ["convolutions", "shared_gradient", "padded", "standardised", "depthwise", "normalised"]
ALL += ["products", "arithmetic", "transposed", "small_gradients", "control_flow"]
