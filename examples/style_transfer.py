"""Paint one picture in the style of another, within a memory budget.

What is trained is the picture: a ``tf.Variable``, through a network that stays as it is. The losses are Gram
matrices of several layers, and total variation. ``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import checkmate

STYLE_WEIGHT, CONTENT_WEIGHT, VARIATION_WEIGHT = 1e-2, 1.0, 1e-4


def make_features(size, width, blocks):
    """Return a network like VGG.

    Its weights would be loaded if this were no example.
    """
    image = x = keras.Input((size, size, 3))
    outputs = {}
    for block in range(1, blocks + 1):
        for number in (1, 2):
            name = f"block{block}_conv{number}"
            x = layers.Conv2D(width * block, 3, padding="same", activation="relu", name=name)(x)
            outputs[name] = x
        x = layers.MaxPooling2D()(x)
    return keras.Model(image, outputs, trainable=False)


def gram_matrix(x):
    features = tf.reshape(tf.transpose(x, (2, 0, 1)), (tf.shape(x)[2], -1))
    return tf.matmul(features, features, transpose_b=True) / tf.cast(tf.size(x), tf.float32)


def style_loss(style, combination):
    return tf.reduce_mean(tf.square(gram_matrix(style) - gram_matrix(combination)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, width, blocks, steps = (96, 12, 2, 20) if chosen.small else (384, 32, 4, 30)
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    base, style = (tf.constant(random.random((1, size, size, 3), dtype=np.float32)) for _ in range(2))
    extract = make_features(size, width, blocks)
    style_layers = [f"block{block}_conv1" for block in range(1, blocks + 1)]
    content_layer = f"block{blocks}_conv2"
    picture = tf.Variable(base)
    optimizer = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(10.0, 100, 0.96))

    @tf.function
    def step(base, style):
        with tf.GradientTape() as tape:
            features = extract(tf.concat([base, style, picture], axis=0))
            content = features[content_layer]
            loss = CONTENT_WEIGHT * tf.reduce_mean(tf.square(content[2] - content[0]))
            for name in style_layers:
                loss += STYLE_WEIGHT / len(style_layers) * style_loss(features[name][1], features[name][2])
            loss += VARIATION_WEIGHT * tf.reduce_sum(tf.image.total_variation(picture)) / size
        optimizer.apply_gradients([(tape.gradient(loss, picture), picture)])
        picture.assign(tf.clip_by_value(picture, 0.0, 1.0))
        return loss

    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    step = checkmate.rematerialize_function(step, chosen.budget, options=options)
    for number in range(1, steps + 1):
        loss = step(base, style)
        if number % 5 == 0:
            print(f"step {number} - loss: {loss:.6f}")


if __name__ == "__main__":
    main()
