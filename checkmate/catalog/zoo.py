"""List the models on which prediction is compared with measurement; a request names one as ``zoo.NAME``.

They cover the models and kinds of training that Keras users bring. ``checkmate.models.zoo_networks`` builds
them."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "zoo."


@dataclass(frozen=True)
class ZooModel:
    """``size``: one sample's input. ``batch_size``: a step takes seconds on two cores; ``quick``: well under
    one."""

    name: str
    description: str
    size: str
    batch_size: int
    quick: bool = False

    @property
    def spec(self) -> str:
        return PREFIX + self.name


ZOO: tuple[ZooModel, ...] = (
    ZooModel("vgg16", "VGG16, SGD with momentum", "96x96x3", 4),
    ZooModel("resnet50", "ResNet50, SGD with momentum", "128x128x3", 8),
    ZooModel("resnet50v2", "ResNet50V2, Adam", "128x128x3", 8),
    ZooModel("mobilenetv2", "MobileNetV2, RMSprop", "128x128x3", 16),
    ZooModel("densenet121", "DenseNet121, SGD with Nesterov momentum", "128x128x3", 8),
    ZooModel("efficientnetb0", "EfficientNetB0, Adam", "128x128x3", 8),
    ZooModel("inceptionv3", "InceptionV3, Adam", "139x139x3", 8),
    ZooModel("xception", "Xception, Adam", "128x128x3", 4),
    ZooModel("convnexttiny", "ConvNeXtTiny, AdamW", "128x128x3", 4),
    ZooModel("unet_vgg", "U-Net on a VGG16 encoder, the size published with Checkmate", "416x608x3", 1),
    ZooModel("unet_small", "the same U-Net, small", "128x128x3", 4),
    ZooModel("fcn8", "FCN8 on a VGG16 encoder, 512 features in place of 4,096", "128x128x3", 4),
    ZooModel("segnet", "SegNet: VGG16 encoder, mirrored decoder with BatchNorm", "128x128x3", 4),
    ZooModel("encoder", "Transformer encoder with dropout, 4 blocks of width 256", "256 tokens", 8),
    ZooModel("encoder_small", "the same, 2 blocks of width 64", "128 tokens", 8, quick=True),
    ZooModel("gpt", "causal Transformer decoder predicting tokens, 4 blocks of width 256", "256 tokens", 8),
    ZooModel("vit", "vision Transformer, patches of 8, 6 blocks of width 192", "128x128x3", 8),
    ZooModel("lstm", "two LSTM layers over 128 steps, a label for each", "128x128", 32, quick=True),
    ZooModel("gru", "two GRU layers over 128 steps, the last bidirectional", "128x128", 32, quick=True),
    ZooModel(
        "two_io",
        "an image and a vector in, a mask and a class out, two weighted losses",
        "96x96x3 and 32",
        8,
        True,
    ),
    ZooModel("subclassed", "a subclassed model: own layer, own loss, add_loss", "64x64x3", 16, True),
    ZooModel(
        "regularized", "weight, bias and activity regularizers, a constraint, Adam", "64x64x3", 16, True
    ),
    ZooModel("mixed_float16", "float16 activations under a loss scale, Adam", "64x64x3", 16, True),
    ZooModel("mixed_bfloat16", "bfloat16 activations, SGD with momentum", "64x64x3", 16, True),
    ZooModel(
        "adamw_clipped", "AdamW: weight decay, clipping by global norm, moving average", "64x64x3", 16, True
    ),
    ZooModel("accumulated", "gradients of 4 steps accumulated before each Adam update", "64x64x3", 16, True),
)


def find_zoo_model(spec: str) -> ZooModel | None:
    name = spec.removeprefix(PREFIX)
    return next((model for model in ZOO if model.name == name), None)
