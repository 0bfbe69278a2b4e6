"""The networks that the Checkmate paper evaluates, layer by layer.

They follow the papers that describe them:

* VGG16, VGG19: Simonyan, Zisserman: Very Deep Convolutional Networks, ICLR 2015. ReLU belongs to the layer
  before it, as in Keras.
* MobileNet: Howard et al.: MobileNets, 2017; ResNet50: He et al.: Deep Residual Learning, CVPR 2016.
  Normalization, activation and padding are layers of their own.
* DenseNet161: Huang et al.: Densely Connected Convolutional Networks, CVPR 2017: growth 48, blocks of 6, 12,
  36 and 24.
* U-Net (Ronneberger et al., MICCAI 2015), FCN8 (Long et al., CVPR 2015) and SegNet (Badrinarayanan et al.,
  2017) label every pixel, on VGG16's encoder or a plain one, as the implementations do that the paper used: a
  public Keras collection, image-segmentation-keras, with the 19 classes of Cityscapes. These differ from the
  papers: U-Net labels at half the resolution and has no second convolution per stage of the decoder. SegNet
  upsamples by repetition, without remembered positions, ends at half the resolution and starts from the
  encoder's fourth stage.

The name is ``paper.NAME`` wherever a graph is asked for. ``batch_size`` is what the paper's sweeps over
budgets use, where that is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from checkmate.errors import UsageError
from checkmate.formats.graph import ENDINGS
from checkmate.graphs.layers import LayerBuilder, Network, Shape, Tensor, training_graph
from checkmate.ir import Graph

PREFIX = "paper."
_PHOTO_CLASSES, _STREET_CLASSES = 1000, 19
_VGG16, _VGG19 = (2, 2, 3, 3, 3), (2, 2, 4, 4, 4)


def _vgg_features(net: LayerBuilder, blocks: tuple[int, ...] = _VGG16) -> list[Tensor]:
    """Return the output of each block: so many 3x3 convolutions, then pooling by two."""
    x, levels = net.input, []
    for block, convolutions in enumerate(blocks, 1):
        for conv in range(1, convolutions + 1):
            x = net.conv(x, min(512, 32 * 2**block), 3, name=f"block{block}_conv{conv}")
        x = net.pool(x, 2, name=f"block{block}_pool")
        levels.append(x)
    return levels


def _plain_features(net: LayerBuilder, blocks: int = 5) -> list[Tensor]:
    """Return each block of the collection's plain encoder: pad, conv, norm, activation, pool."""
    x, levels = net.input, []
    for block, filters in enumerate((64, 128, 256, 256, 256)[:blocks], 1):
        x = net.activation(_padded_conv(net, x, filters, f"block{block}"), name=f"block{block}_relu")
        x = net.pool(x, 2, name=f"block{block}_pool")
        levels.append(x)
    return levels


def _padded_conv(net: LayerBuilder, x: Tensor, filters: int, name: str) -> Tensor:
    x = net.conv(net.pad(x, 1, 1, 1, 1, name=f"{name}_pad"), filters, 3, padding="valid", name=f"{name}_conv")
    return net.batch_norm(x, name=f"{name}_bn")


def _labelled(net: LayerBuilder, x: Tensor) -> Network:
    height, width, classes = x.shape
    net.activation(net.reshape(x, (height * width, classes), name="pixels"), name="softmax")
    return net.build()


def unet(name: str, size: Shape) -> Network:
    """Build U-Net: four stages of the encoder; each of the decoder also reads the encoder's of its size."""
    net = LayerBuilder(name, size)
    levels = _vgg_features(net, _VGG16[:4])
    x = _padded_conv(net, levels[3], 512, "up4")
    for stage, filters in ((3, 256), (2, 128), (1, 64)):
        x = net.concat(
            [net.upsample(x, name=f"up{stage}_upsample"), levels[stage - 1]], name=f"up{stage}_concat"
        )
        x = _padded_conv(net, x, filters, f"up{stage}")
    return _labelled(net, net.conv(x, _STREET_CLASSES, 3, name="classes"))


def segnet(name: str, size: Shape, *, plain: bool = False) -> Network:
    """Build SegNet: four stages of the encoder, three of them mirrored."""
    net = LayerBuilder(name, size)
    x = _padded_conv(
        net, (_plain_features(net, 4) if plain else _vgg_features(net, _VGG16[:4]))[3], 512, "up4"
    )
    for stage, filters in ((3, 256), (2, 128), (1, 64)):
        x = _padded_conv(net, net.upsample(x, name=f"up{stage}_upsample"), filters, f"up{stage}")
    return _labelled(net, net.conv(x, _STREET_CLASSES, 3, name="classes"))


def _cropped(net: LayerBuilder, one: Tensor, other: Tensor, name: str) -> list[Tensor]:
    """Crop both tensors to the smaller size: a layer each for width and height, even for nothing."""
    for axis in (1, 0):
        difference = one.shape[axis] - other.shape[axis]
        cut = (abs(difference), 0) if axis == 0 else (0, abs(difference))
        where = f"{name}_crop_{'width' if axis else 'height'}"
        if difference > 0:
            one = net.crop(one, *cut, name=where)
        else:
            other = net.crop(other, *cut, name=where)
    return [one, other]


def fcn8(name: str, size: Shape, *, plain: bool = False) -> Network:
    """Build FCN8: dense layers as convolutions, two stages added on the way up."""
    net = LayerBuilder(name, size)
    _, _, third, fourth, fifth = _plain_features(net) if plain else _vgg_features(net)
    x = net.dropout(net.conv(fifth, 4096, 7, name="fc6"), name="drop6")
    x = net.dropout(net.conv(x, 4096, 1, name="fc7"), name="drop7")
    x = net.conv_transpose(
        net.conv(x, _STREET_CLASSES, 1, name="score"), _STREET_CLASSES, 4, stride=2, name="up2"
    )
    skip = net.conv(fourth, _STREET_CLASSES, 1, name="score4")
    x = net.add(_cropped(net, x, skip, "fuse4"), name="fuse4")
    x = net.conv_transpose(x, _STREET_CLASSES, 4, stride=2, name="up4")
    skip = net.conv(third, _STREET_CLASSES, 1, name="score3")
    x = net.add(_cropped(net, skip, x, "fuse3"), name="fuse3")
    return _labelled(net, net.conv_transpose(x, _STREET_CLASSES, 16, stride=8, name="up8"))


@dataclass(frozen=True)
class PaperNetwork:
    """A network; ``title`` is the paper's, ``size`` the height, width and channels of one example."""

    name: str
    title: str
    size: Shape
    batch_size: int

    def network(self, size: Shape | None = None) -> Network:
        return _BUILDERS[self.name](self.name, size or self.size)

    def graph(self, batch_size: int | None = None) -> Graph:
        return training_graph(self.network(), batch_size or self.batch_size)


def vgg(name: str, size: Shape, *, blocks: tuple[int, ...] = _VGG16) -> Network:
    net = LayerBuilder(name, size)
    x = _vgg_features(net, blocks)[-1]
    x = net.reshape(x, (x.size,), name="flatten")
    x = net.dense(x, 4096, name="fc1")
    x = net.dense(x, 4096, name="fc2")
    net.dense(x, _PHOTO_CLASSES, name="predictions")
    return net.build()


def _normalized(net: LayerBuilder, x: Tensor, name: str) -> Tensor:
    return net.activation(net.batch_norm(x, name=f"{name}_bn"), name=f"{name}_relu")


def mobilenet(name: str, size: Shape) -> Network:
    """Build MobileNet: thirteen depthwise separable convolutions; those of stride 2 are padded before."""
    net = LayerBuilder(name, size)
    x = _normalized(net, net.conv(net.input, 32, 3, stride=2, bias=False, name="conv1"), "conv1")
    filters = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
    for block, count in enumerate(filters, 1):
        stride = 2 if block in (2, 4, 6, 12) else 1
        if stride == 2:
            x = net.pad(x, 0, 0, 1, 1, name=f"conv_pad_{block}")
        padding = "valid" if stride == 2 else "same"
        x = net.depthwise(x, 3, stride=stride, padding=padding, name=f"conv_dw_{block}")
        x = _normalized(net, x, f"conv_dw_{block}")
        x = _normalized(net, net.conv(x, count, 1, bias=False, name=f"conv_pw_{block}"), f"conv_pw_{block}")
    x = net.dropout(net.global_pool(x, name="global_pool"), name="dropout")
    x = net.conv(_image(x), _PHOTO_CLASSES, 1, name="conv_preds")
    net.activation(net.reshape(x, (_PHOTO_CLASSES,), name="reshape"), name="predictions")
    return net.build()


def _image(x: Tensor) -> Tensor:
    """Return ``x``'s features as an image of one pixel; this adds no layer."""
    return Tensor(x.layer, (1, 1, x.size))


def _bottleneck(
    net: LayerBuilder, x: Tensor, filters: int, stride: int, name: str, *, project: bool
) -> Tensor:
    before = x
    x = _normalized(net, net.conv(before, filters, 1, stride=stride, name=f"{name}_1_conv"), f"{name}_1")
    x = _normalized(net, net.conv(x, filters, 3, name=f"{name}_2_conv"), f"{name}_2")
    if not project:
        x = net.batch_norm(net.conv(x, 4 * filters, 1, name=f"{name}_3_conv"), name=f"{name}_3_bn")
        return net.activation(net.add([before, x], name=f"{name}_add"), name=f"{name}_out")
    shortcut = net.conv(before, 4 * filters, 1, stride=stride, name=f"{name}_0_conv")
    x = net.conv(x, 4 * filters, 1, name=f"{name}_3_conv")
    shortcut = net.batch_norm(shortcut, name=f"{name}_0_bn")
    x = net.batch_norm(x, name=f"{name}_3_bn")
    return net.activation(net.add([shortcut, x], name=f"{name}_add"), name=f"{name}_out")


def _stem(net: LayerBuilder, filters: int, *, bias: bool) -> Tensor:
    """Add the first convolution and pooling of ResNet and DenseNet: a quarter of height and width."""
    x = net.conv(
        net.pad(net.input, 3, 3, 3, 3), filters, 7, stride=2, padding="valid", bias=bias, name="conv1"
    )
    return net.pool(net.pad(_normalized(net, x, "conv1"), 1, 1, 1, 1), 3, stride=2, name="pool1")


def resnet50(name: str, size: Shape) -> Network:
    """Build ResNet50: four stages of bottlenecks, strided in the first convolution as first published."""
    net = LayerBuilder(name, size)
    x = _stem(net, 64, bias=True)
    for stage, (filters, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 2):
        for block in range(1, blocks + 1):
            stride = 2 if block == 1 and stage > 2 else 1
            x = _bottleneck(net, x, filters, stride, f"conv{stage}_block{block}", project=block == 1)
    net.dense(net.global_pool(x, name="avg_pool"), _PHOTO_CLASSES, name="predictions")
    return net.build()


def densenet161(name: str, size: Shape) -> Network:
    """Build DenseNet161: four dense blocks. Each layer's output is concatenated to all outputs before it."""
    net, growth = LayerBuilder(name, size), 48
    x = _stem(net, 2 * growth, bias=False)
    for stage, layers in enumerate((6, 12, 36, 24), 2):
        for layer in range(1, layers + 1):
            where = f"conv{stage}_block{layer}"
            y = net.conv(_normalized(net, x, f"{where}_0"), 4 * growth, 1, bias=False, name=f"{where}_1_conv")
            y = net.conv(_normalized(net, y, f"{where}_1"), growth, 3, bias=False, name=f"{where}_2_conv")
            x = net.concat([x, y], name=f"{where}_concat")
        x = _normalized(net, x, f"pool{stage}")
        if stage < 5:
            x = net.conv(x, x.channels // 2, 1, bias=False, name=f"pool{stage}_conv")
            x = net.pool(x, 2, name=f"pool{stage}_pool")
    net.dense(net.global_pool(x, name="avg_pool"), _PHOTO_CLASSES, name="predictions")
    return net.build()


_PHOTO, _STREET = (224, 224, 3), (416, 608, 3)

NETWORKS: tuple[PaperNetwork, ...] = (
    PaperNetwork("vgg16", "VGG16", _PHOTO, 256),
    PaperNetwork("vgg19", "VGG19", _PHOTO, 256),
    PaperNetwork("mobilenet", "MobileNet", _PHOTO, 512),
    PaperNetwork("unet", "U-Net", _STREET, 32),
    PaperNetwork("fcn8", "FCN8", _STREET, 32),
    PaperNetwork("fcn8_plain", "FCN8, plain encoder", _STREET, 32),
    PaperNetwork("segnet", "SegNet", _STREET, 32),
    PaperNetwork("segnet_plain", "SegNet, plain encoder", _STREET, 32),
    PaperNetwork("resnet50", "ResNet50", _PHOTO, 256),
    PaperNetwork("densenet161", "DenseNet161", _PHOTO, 64),
)
_BUILDERS: dict[str, Callable[[str, Shape], Network]] = {
    "vgg16": vgg,
    "vgg19": partial(vgg, blocks=_VGG19),
    "mobilenet": mobilenet,
    "unet": unet,
    "fcn8": fcn8,
    "fcn8_plain": partial(fcn8, plain=True),
    "segnet": segnet,
    "segnet_plain": partial(segnet, plain=True),
    "resnet50": resnet50,
    "densenet161": densenet161,
}


def is_paper_name(text: str) -> bool:
    return text.startswith(PREFIX) and not text.endswith(ENDINGS)


def find_network(name: str) -> PaperNetwork:
    wanted = name.removeprefix(PREFIX)
    for network in NETWORKS:
        if network.name == wanted:
            return network
    prefix = PREFIX if name.startswith(PREFIX) else ""  # the names as they can be typed in this place
    known = ", ".join(f"{prefix}{network.name}" for network in NETWORKS)
    raise UsageError(f"the paper has no network {name!r}", hint=f"choose one of: {known}")
