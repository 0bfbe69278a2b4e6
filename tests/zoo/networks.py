"""Build compiled models with random weights, at sizes for two CPU cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from checkmate.models.sample_networks import Positions

# Classifiers of keras.applications, and a vision Transformer, of 100 classes each.
_PHOTO_CLASSES = 100


def _application(name: str, side: int, optimizer: Callable[[], Any]) -> Callable[[], Any]:
    def build() -> Any:
        model = getattr(keras.applications, name)(
            weights=None, input_shape=(side, side, 3), classes=_PHOTO_CLASSES
        )
        model.compile(optimizer(), "sparse_categorical_crossentropy", jit_compile=False)
        return model

    return build


def _momentum() -> Any:
    return keras.optimizers.SGD(0.01, momentum=0.9)


def _nesterov() -> Any:
    return keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True)


class Patches(layers.Layer):
    """Turn images into rows of patches behind a learned class token, and add learned positions."""

    def __init__(self, size: int, width: int, **options: Any) -> None:
        super().__init__(**options)
        self.project = layers.Conv2D(width, size, strides=size)
        self.flatten = layers.Reshape((-1, width))
        self.width = width

    def build(self, shape: Any) -> None:
        self.project.build(shape)
        count = (shape[1] // self.project.strides[0]) * (shape[2] // self.project.strides[1])
        self.token = self.add_weight(shape=(1, 1, self.width), name="token")
        self.positions = self.add_weight(
            shape=(1, count + 1, self.width), initializer="uniform", name="positions"
        )

    def call(self, images: Any) -> Any:
        patches = self.flatten(self.project(images))
        token = keras.ops.broadcast_to(self.token, (keras.ops.shape(patches)[0], 1, self.width))
        return keras.ops.concatenate([token, patches], axis=1) + self.positions


def vit() -> Any:
    """Return pre-norm blocks of attention and a GELU network. The class token is classified."""
    width, heads = 192, 3
    inputs = keras.Input((128, 128, 3))
    x = layers.Dropout(0.1)(Patches(8, width)(inputs))
    for _ in range(6):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.MultiHeadAttention(heads, width // heads, dropout=0.1)(y, y)
        x = layers.Add()([x, layers.Dropout(0.1)(y)])
        y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization(epsilon=1e-6)(x))
        x = layers.Add()([x, layers.Dropout(0.1)(layers.Dense(width)(y))])
    x = layers.LayerNormalization(epsilon=1e-6)(x)[:, 0]
    model = keras.Model(inputs, layers.Dense(_PHOTO_CLASSES)(x), name="vit")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-3, weight_decay=0.05), loss, jit_compile=False)
    return model


# Segmentation: networks on VGG16's encoder.
_CLASSES = 12


def _encoder(height: int, width: int) -> tuple[Any, list[Any]]:
    """Return the inputs and outputs of VGG16's five blocks, each pooled."""
    vgg = keras.applications.VGG16(include_top=False, weights=None, input_shape=(height, width, 3))
    return vgg.input, [vgg.get_layer(f"block{number}_pool").output for number in range(1, 6)]


def _conv_norm(x: Any, filters: int) -> Any:
    x = layers.Conv2D(filters, 3, padding="same")(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def _compiled(inputs: Any, logits: Any, name: str) -> Any:
    model = keras.Model(inputs, layers.Softmax()(logits), name=name)
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    return model


def _unet(height: int, width: int, name: str) -> Any:
    inputs, (f1, f2, f3, f4, _) = _encoder(height, width)
    x = _conv_norm(f4, 512)
    for skip, filters in ((f3, 256), (f2, 128), (f1, 64)):
        x = _conv_norm(layers.Concatenate()([layers.UpSampling2D()(x), skip]), filters)
    x = _conv_norm(layers.UpSampling2D()(x), 64)
    return _compiled(inputs, layers.Conv2D(_CLASSES, 3, padding="same")(x), name)


def unet_vgg() -> Any:
    """Return the U-Net at the size that published figures are for."""
    return _unet(416, 608, "unet_vgg")


def unet_small() -> Any:
    return _unet(128, 128, "unet_small")


def fcn8() -> Any:
    """Return FCN8: the scores of the last three blocks, added on the way up. The upsampling is learned."""
    inputs, (_, _, f3, f4, f5) = _encoder(128, 128)
    x = layers.Dropout(0.5)(layers.Conv2D(512, 7, padding="same", activation="relu")(f5))
    x = layers.Dropout(0.5)(layers.Conv2D(512, 1, activation="relu")(x))
    x = layers.Conv2D(_CLASSES, 1)(x)
    for skip in (f4, f3):
        x = layers.Conv2DTranspose(_CLASSES, 4, strides=2, padding="same", use_bias=False)(x)
        x = layers.Add()([x, layers.Conv2D(_CLASSES, 1)(skip)])
    x = layers.Conv2DTranspose(_CLASSES, 16, strides=8, padding="same", use_bias=False)(x)
    return _compiled(inputs, x, "fcn8")


def segnet() -> Any:
    """Return SegNet: four levels up again, without skips. BatchNorm follows each convolution."""
    inputs, (*_, x, _) = _encoder(128, 128)
    for filters in (512, 256, 128, 64):
        x = _conv_norm(layers.UpSampling2D()(_conv_norm(x, filters)), filters)
    return _compiled(inputs, layers.Conv2D(_CLASSES, 3, padding="same")(x), "segnet")


# Sequences.
_VOCABULARY, _TOKENS, _WIDTH, _HEADS, _BLOCKS = 2000, 256, 256, 4, 4


def _embedded(tokens_count: int = _TOKENS, width: int = _WIDTH) -> tuple[Any, Any]:
    tokens = keras.Input((tokens_count,), dtype="int32")
    x = Positions(name="positions")(layers.Embedding(_VOCABULARY, width)(tokens))
    return tokens, layers.Dropout(0.1)(x)


def _feed_forward(x: Any, width: int = _WIDTH) -> Any:
    y = layers.Dense(4 * width, activation="gelu")(x)
    return layers.Dropout(0.1)(layers.Dense(width)(y))


def _encoder_blocks(x: Any, blocks: int, width: int) -> Any:
    for _ in range(blocks):
        y = layers.MultiHeadAttention(_HEADS, width // _HEADS, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(y)]))
        x = layers.LayerNormalization()(layers.Add()([x, _feed_forward(x, width)]))
    return x


def _sequence_encoder(name: str, tokens_count: int, width: int, blocks: int) -> Any:
    tokens, x = _embedded(tokens_count, width)
    x = _encoder_blocks(x, blocks, width)
    x = layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(tokens, x, name=name)
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    return model


def encoder() -> Any:
    """Return a Transformer of post-norm blocks that classifies their mean."""
    return _sequence_encoder("encoder", _TOKENS, _WIDTH, _BLOCKS)


def encoder_small() -> Any:
    return _sequence_encoder("encoder_small", 128, 64, 2)


def gpt() -> Any:
    """Return a causal Transformer of pre-norm blocks. Each position predicts the next token."""
    tokens, x = _embedded()
    for _ in range(_BLOCKS):
        y = layers.LayerNormalization()(x)
        y = layers.MultiHeadAttention(_HEADS, _WIDTH // _HEADS, dropout=0.1)(y, y, use_causal_mask=True)
        x = layers.Add()([x, y])
        x = layers.Add()([x, _feed_forward(layers.LayerNormalization()(x))])
    logits = layers.Dense(_VOCABULARY, use_bias=False)(layers.LayerNormalization()(x))
    model = keras.Model(tokens, logits, name="gpt")
    optimizer = keras.optimizers.AdamW(3e-4, weight_decay=0.1, global_clipnorm=1.0)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return model


def lstm() -> Any:
    """Return two LSTM layers with a wide output for every step."""
    inputs = keras.Input((128, 128))
    x = layers.LSTM(256, return_sequences=True)(inputs)
    x = layers.Dropout(0.2)(layers.LayerNormalization()(x))
    x = layers.LSTM(256, return_sequences=True)(x)
    x = layers.Dense(512, activation="relu")(x)
    model = keras.Model(inputs, layers.Dense(50, activation="softmax")(x), name="lstm")
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    return model


def gru() -> Any:
    """Return a GRU forward and one in both directions. The last state is classified."""
    inputs = keras.Input((128, 128))
    x = layers.GRU(256, return_sequences=True)(inputs)
    x = layers.Dense(256, activation="tanh")(x)
    x = layers.Bidirectional(layers.GRU(128))(x)
    model = keras.Model(inputs, layers.Dense(10, activation="softmax")(x), name="gru")
    model.compile("rmsprop", "categorical_crossentropy", jit_compile=False)
    return model


# Small convolutional networks that differ in how they are trained.
_SIDE = 64


def _features(x: Any, *, norm: bool = True, policy: Any = None, **convolution: Any) -> Any:
    options = {"dtype": policy} if policy is not None else {}
    for filters in (32, 64):
        x = layers.Conv2D(filters, 3, padding="same", **convolution, **options)(x)
        for _ in range(2):
            y = layers.BatchNormalization(**options)(x) if norm else x
            y = layers.Conv2D(filters, 3, padding="same", activation="relu", **convolution, **options)(y)
            x = layers.Add(**options)([x, y])
        x = layers.MaxPooling2D(**options)(layers.ReLU(**options)(x))
    return layers.GlobalAveragePooling2D(**options)(x)


def _classifier(name: str, optimizer: Any, *, policy: Any = None, **features: Any) -> Any:
    inputs = keras.Input((_SIDE, _SIDE, 3))
    x = _features(inputs, policy=policy, **features)
    outputs = layers.Dense(10, activation="softmax", dtype="float32")(x)
    model = keras.Model(inputs, outputs, name=name)
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=False)
    return model


def two_io() -> Any:
    """Return a model with two inputs and two losses: a vector is mixed into an image's features."""
    image, vector = keras.Input((96, 96, 3), name="image"), keras.Input((32,), name="vector")
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(image)
    skip = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    y = layers.MaxPooling2D()(skip)
    scale = layers.Reshape((1, 1, 32))(layers.Dense(32, activation="sigmoid")(vector))
    y = layers.Conv2D(64, 3, padding="same", activation="relu")(layers.Multiply()([y, scale]))
    up = layers.Concatenate()([layers.UpSampling2D()(y), skip])
    mask = layers.Conv2D(1, 3, padding="same", activation="sigmoid", name="mask")(up)
    label = layers.Dense(10, activation="softmax", name="label")(layers.GlobalAveragePooling2D()(y))
    model = keras.Model([image, vector], {"mask": mask, "label": label}, name="two_io")
    model.compile(
        "adam",
        loss={"mask": "binary_crossentropy", "label": "sparse_categorical_crossentropy"},
        loss_weights={"mask": 1.0, "label": 0.3},
        jit_compile=False,
    )
    return model


class Gated(layers.Layer):
    """Multiply a convolution by a gate of its own. An added loss pushes the gate towards zero."""

    def __init__(self, filters: int, **options: Any) -> None:
        super().__init__(**options)
        self.main = layers.Conv2D(filters, 3, padding="same")
        self.gate = layers.Conv2D(filters, 1, activation="sigmoid")
        self.norm = layers.BatchNormalization()

    def call(self, x: Any, training: bool = False) -> Any:
        gate = self.gate(x)
        self.add_loss(1e-3 * ops.mean(gate))
        return self.norm(self.main(x) * gate, training=training)


class Subclassed(keras.Model):
    """Hold layers in a list, with an auxiliary loss on the way."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.blocks = [Gated(filters) for filters in (24, 24, 48)]
        self.pool = layers.AveragePooling2D(2)
        self.head = layers.Dense(10)

    def call(self, x: Any, training: bool = False) -> Any:
        for block in self.blocks:
            x = ops.relu(block(x, training=training))
        x = self.pool(x)
        self.add_loss(1e-4 * ops.mean(ops.square(x)))
        return self.head(ops.mean(x, axis=(1, 2)))


def _mean_quartic(y_true: Any, y_pred: Any) -> Any:
    return ops.mean(ops.power(y_true - y_pred, 4), axis=-1)


def subclassed() -> Any:
    """Return a subclassed model with a loss function of its own. It is built by one call."""
    model = Subclassed(name="subclassed")
    model(ops.zeros((1, _SIDE, _SIDE, 3)))
    model.compile(keras.optimizers.Adam(1e-3, clipnorm=1.0), _mean_quartic, jit_compile=False)
    return model


def regularized() -> Any:
    """Return a model with every kind of regularizer, and a constraint."""
    return _classifier(
        "regularized",
        keras.optimizers.Adam(),
        kernel_regularizer=keras.regularizers.L1L2(1e-5, 1e-4),
        bias_regularizer="l2",
        activity_regularizer=keras.regularizers.L2(1e-6),
        kernel_constraint=keras.constraints.MaxNorm(3.0),
    )


def mixed_float16() -> Any:
    """Return a model in float16, with loss scaling; BatchNorm's float16 kernels differ by machine."""
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=256.0)
    return _classifier("mixed_float16", optimizer, norm=False, policy=keras.DTypePolicy("mixed_float16"))


def mixed_bfloat16() -> Any:
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    return _classifier("mixed_bfloat16", optimizer, policy=keras.DTypePolicy("mixed_bfloat16"))


def adamw_clipped() -> Any:
    """Return a model with weight decay, clipping by the norm of all gradients and averaged weights."""
    optimizer = keras.optimizers.AdamW(1e-3, weight_decay=1e-2, global_clipnorm=1.0, use_ema=True)
    return _classifier("adamw_clipped", optimizer)


def accumulated() -> Any:
    return _classifier("accumulated", keras.optimizers.Adam(1e-3, gradient_accumulation_steps=4))


vgg16 = _application("VGG16", 96, _momentum)
resnet50 = _application("ResNet50", 128, _momentum)
resnet50v2 = _application("ResNet50V2", 128, keras.optimizers.Adam)
mobilenetv2 = _application("MobileNetV2", 128, keras.optimizers.RMSprop)
densenet121 = _application("DenseNet121", 128, _nesterov)
efficientnetb0 = _application("EfficientNetB0", 128, keras.optimizers.Adam)
inceptionv3 = _application("InceptionV3", 139, keras.optimizers.Adam)
xception = _application("Xception", 128, keras.optimizers.Adam)
convnexttiny = _application("ConvNeXtTiny", 128, keras.optimizers.AdamW)
