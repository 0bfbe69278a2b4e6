"""Networks that label every pixel, on VGG16's encoder or a plain one.

They are laid out like the implementations that the Checkmate paper used: a public Keras collection,
image-segmentation-keras, with the 19 classes of Cityscapes. These differ from the papers: U-Net labels at
half the resolution and has no second convolution per stage of the decoder. SegNet upsamples by repetition,
without remembered positions, ends at half the resolution and starts from the encoder's fourth stage.
"""

from __future__ import annotations

from collections.abc import Callable

from checkmate.graphs.layers import LayerBuilder, Network, Shape, Tensor

Make = Callable[[str, Shape], Network]

CLASSES = 19
_VGG16 = (2, 2, 3, 3, 3)


def vgg_features(net: LayerBuilder, blocks: tuple[int, ...] = _VGG16) -> list[Tensor]:
    """Return the output of each block: 3x3 convolutions, then pooling by two.

    ``blocks`` has the number of convolutions of each block.
    """
    x, levels = net.input, []
    for block, convolutions in enumerate(blocks, 1):
        for conv in range(1, convolutions + 1):
            x = net.conv(x, min(512, 32 * 2**block), 3, name=f"block{block}_conv{conv}")
        x = net.pool(x, 2, name=f"block{block}_pool")
        levels.append(x)
    return levels


def plain_features(net: LayerBuilder, blocks: int = 5) -> list[Tensor]:
    """Return the output of each block of the collection's plain encoder.

    A block is padding, convolution, normalization, activation and pooling.
    """
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
    """Build U-Net: four stages of the encoder, and a decoder.

    Each stage of the decoder also reads the encoder's stage of its size.
    """
    net = LayerBuilder(name, size)
    levels = vgg_features(net, _VGG16[:4])
    x = _padded_conv(net, levels[3], 512, "up4")
    for stage, filters in ((3, 256), (2, 128), (1, 64)):
        x = net.concat(
            [net.upsample(x, name=f"up{stage}_upsample"), levels[stage - 1]], name=f"up{stage}_concat"
        )
        x = _padded_conv(net, x, filters, f"up{stage}")
    return _labelled(net, net.conv(x, CLASSES, 3, name="classes"))


def segnet(*, plain: bool = False) -> Make:
    """Return a function that builds SegNet.

    It has four stages of the encoder, and a decoder that mirrors three of them.
    """

    def make(name: str, size: Shape) -> Network:
        net = LayerBuilder(name, size)
        x = _padded_conv(
            net, (plain_features(net, 4) if plain else vgg_features(net, _VGG16[:4]))[3], 512, "up4"
        )
        for stage, filters in ((3, 256), (2, 128), (1, 64)):
            x = _padded_conv(net, net.upsample(x, name=f"up{stage}_upsample"), filters, f"up{stage}")
        return _labelled(net, net.conv(x, CLASSES, 3, name="classes"))

    return make


def _cropped(net: LayerBuilder, one: Tensor, other: Tensor, name: str) -> list[Tensor]:
    """Return both tensors at the smaller one's size.

    Width and height are cropped by one layer each, even if there is nothing to crop.
    """
    for axis in (1, 0):
        difference = one.shape[axis] - other.shape[axis]
        cut = (abs(difference), 0) if axis == 0 else (0, abs(difference))
        where = f"{name}_crop_{'width' if axis else 'height'}"
        if difference > 0:
            one = net.crop(one, *cut, name=where)
        else:
            other = net.crop(other, *cut, name=where)
    return [one, other]


def fcn8(*, plain: bool = False) -> Make:
    """Return a function that builds FCN8.

    It has five stages of the encoder and dense layers as convolutions of 4,096 features. Two stages of the
    encoder are added on the way up.
    """

    def make(name: str, size: Shape) -> Network:
        net = LayerBuilder(name, size)
        _, _, third, fourth, fifth = plain_features(net) if plain else vgg_features(net)
        x = net.dropout(net.conv(fifth, 4096, 7, name="fc6"), name="drop6")
        x = net.dropout(net.conv(x, 4096, 1, name="fc7"), name="drop7")
        x = net.conv_transpose(net.conv(x, CLASSES, 1, name="score"), CLASSES, 4, stride=2, name="up2")
        skip = net.conv(fourth, CLASSES, 1, name="score4")
        x = net.add(_cropped(net, x, skip, "fuse4"), name="fuse4")
        x = net.conv_transpose(x, CLASSES, 4, stride=2, name="up4")
        skip = net.conv(third, CLASSES, 1, name="score3")
        x = net.add(_cropped(net, skip, x, "fuse3"), name="fuse3")
        return _labelled(net, net.conv_transpose(x, CLASSES, 16, stride=8, name="up8"))

    return make
