"""Train a KerasHub network from its configuration, within a budget.

``python examples/hub.py bert`` (or ``gpt2``, or ``resnet``) needs ``pip install keras-hub``; nothing else is
downloaded. ``--small`` takes seconds.
"""

import argparse

import keras
import keras_hub
import numpy as np

import checkmate


def bert(small):
    """Return BERT as a classifier of texts, and data for it."""
    words, length, layers, width, batch = (500, 48, 3, 64, 16) if small else (4000, 96, 6, 192, 8)
    backbone = keras_hub.models.BertBackbone(words, layers, 4, width, 4 * width, max_sequence_length=length)
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=4, preprocessor=None)
    random = np.random.default_rng(0)
    texts = random.integers(0, words, (10 * batch, length), dtype=np.int32)
    data = {"token_ids": texts, "segment_ids": np.zeros_like(texts), "padding_mask": np.ones_like(texts)}
    return model, data, random.integers(0, 4, len(texts)), batch


def gpt2(small):
    """Return GPT-2 as a model of texts, and data for it."""
    words, length, layers, width, batch = (500, 48, 3, 64, 16) if small else (4000, 96, 6, 192, 8)
    backbone = keras_hub.models.GPT2Backbone(words, layers, 4, width, 4 * width, max_sequence_length=length)
    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    texts = np.random.default_rng(0).integers(0, words, (10 * batch, length + 1), dtype=np.int32)
    data = {"token_ids": texts[:, :-1], "padding_mask": np.ones_like(texts[:, 1:])}
    return model, data, texts[:, 1:], batch


def resnet(small):
    """Return a ResNet as a classifier of images, and data for it."""
    size, widths, blocks, batch = (32, [64, 64], [1, 1], 16) if small else (64, [64, 128, 256], [2, 2, 2], 16)
    backbone = keras_hub.models.ResNetBackbone(
        input_conv_filters=[widths[0]],
        input_conv_kernel_sizes=[3],
        stackwise_num_filters=widths,
        stackwise_num_blocks=blocks,
        stackwise_num_strides=[1, *[2] * (len(widths) - 1)],
        block_type="basic_block",
        use_pre_activation=True,
        image_shape=(size, size, 3),
    )
    model = keras_hub.models.ResNetImageClassifier(backbone, num_classes=10, preprocessor=None)
    random = np.random.default_rng(0)
    images = random.random((10 * batch, size, size, 3), dtype=np.float32)
    return model, images, random.integers(0, 10, len(images)), batch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", nargs="?", default="bert", choices=["bert", "gpt2", "resnet"])
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    keras.utils.set_random_seed(0)
    model, data, labels, batch = {"bert": bert, "gpt2": gpt2, "resnet": resnet}[chosen.network](chosen.small)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    model.fit(data, labels, batch_size=batch, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
