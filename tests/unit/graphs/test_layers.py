"""Test layers and training steps, by hand and on published networks.

Some rules hold for every batch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkmate import planning
from checkmate.errors import GraphError, UsageError
from checkmate.formats import read_any_graph
from checkmate.graphs.layers import LayerBuilder, training_graph
from checkmate.graphs.paper import NETWORKS, find_network
from checkmate.ir import Graph, Phase
from checkmate.largest.scaling import BatchScaling
from tests.graphs_strategies import SHARED

PAPER = SHARED / "graphs" / "paper"
SMALL = (32, 32, 3)


def small() -> LayerBuilder:
    """Build a convolution, a branch of two layers beside it, and ten classes."""
    net = LayerBuilder("small", (6, 8, 3))
    x = net.conv(net.input, 4, 3, stride=2, name="conv")
    y = net.activation(net.batch_norm(x, name="norm"), name="relu")
    net.dense(net.global_pool(net.add([x, y], name="sum"), name="mean"), 10, name="classes")
    return net


def test_shapes_operations_and_parameters_by_hand() -> None:
    layers = {layer.name: layer for layer in small().build().layers}
    found = {name: (layer.shape, layer.flops, layer.parameters) for name, layer in layers.items()}
    assert found == {
        "conv": ((3, 4, 4), 48 * 27, 4 * 28),
        "norm": ((3, 4, 4), 4 * 48, 16),
        "relu": ((3, 4, 4), 48, 0),
        "sum": ((3, 4, 4), 96, 0),
        "mean": ((4,), 0, 0),
        "classes": ((10,), 40, 50),
    }
    assert layers["conv"].inputs == () and layers["sum"].inputs == (0, 2)


def test_every_other_layer_by_hand() -> None:
    net = LayerBuilder("others", (5, 7, 2))
    x = net.pad(net.input, 0, 1, 2, 3)
    assert x.shape == (7, 11, 2)
    assert net.pool(x, 2).shape == (3, 5, 2) and net.pool(x, 3, stride=2).shape == (3, 5, 2)
    assert net.crop(x, 1, 4).shape == (6, 7, 2) and net.upsample(x).shape == (14, 22, 2)
    assert net.depthwise(x, 3, stride=2, padding="valid").shape == (3, 5, 2)
    assert net.conv_transpose(x, 5, 4, stride=2).shape == (16, 24, 5)
    assert net.concat([x, x, net.conv(x, 3, 1)]).shape == (7, 11, 7)
    assert net.reshape(x, (154,)).shape == (154,) and net.dropout(x).shape == x.shape
    flops = [layer.flops for layer in net.build().layers]
    assert flops == [0, 0, 0, 0, 14 * 22 * 2, 3 * 5 * 2 * 9, 16 * 24 * 5 * 2, 7 * 11 * 3 * 2, 0, 0, 0]
    assert net.build().parameters == 2 * 9 + 16 * 5 * 2 + 3 * 3


def test_shapes_that_do_not_fit_are_refused() -> None:
    net = LayerBuilder("wrong", (4, 4, 2))
    other = net.conv(net.input, 3, 1)
    for wrong in (
        lambda: net.add([net.input, other]),
        lambda: net.concat([other, net.pool(other, 2)]),
        lambda: net.reshape(other, (47,)),
        lambda: net.conv(net.input, 1, 5, padding="valid"),
    ):
        with pytest.raises(GraphError, match="wrong"):
            wrong()


def test_the_training_step_by_hand() -> None:
    graph = training_graph(small().build(), 5)
    reads = {op.name: {graph.values[value].name for value in op.inputs} for op in graph.ops}
    assert [op.phase for op in graph.ops] == [Phase.FORWARD] * 6 + [Phase.LOSS] + [Phase.BACKWARD] * 6
    assert reads["loss"] == {"classes:0"} and reads["gradient/classes"] == {"classes:0", "loss"}
    assert reads["gradient/sum"] == {"sum:0", "mean:0", "gradient/mean:0"}
    assert reads["gradient/conv"] == {"conv:0", "norm:0", "sum:0", "gradient/norm:0", "gradient/sum:0"}
    by_name = {op.name: op for op in graph.ops}
    assert by_name["conv"].cost == 5 * 48 * 27 and by_name["gradient/conv"].cost == 2 * 5 * 48 * 27
    sizes = {value.name: value.bytes for value in graph.values}
    assert sizes["conv:0"] == sizes["gradient/conv:0"] == 4 * 5 * 48 and sizes["loss"] == 20
    assert [value.name for value in graph.values if value.keep] == ["gradient/conv:0"]
    assert graph.fixed_bytes == 2 * 4 * (112 + 16 + 50)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_sizes_and_costs_are_in_proportion_to_the_batch(network) -> None:
    size = SMALL if network.size[0] == 224 else (64, 64, 3)
    made = network.network(size)
    one, seven = training_graph(made, 1), training_graph(made, 7)
    assert (seven.cost == 7 * one.cost).all() and (seven.value_bytes == 7 * one.value_bytes).all()
    scaled = BatchScaling(one).at(7)
    assert scaled.fingerprint == seven.fingerprint and (scaled.cost == seven.cost).all()
    assert seven.n == 2 * len(made.layers) + 1 and seven.base_cost == 3 * 7 * sum(
        layer.flops for layer in made.layers
    )


@pytest.mark.parametrize(
    "network", [n for n in NETWORKS if n.name != "vgg16"], ids=lambda network: network.name
)
def test_a_step_fits_its_own_peak(network) -> None:
    graph = training_graph(network.network(SMALL if network.size[0] == 224 else (64, 64, 3)), 2)
    peak = planning.keep_everything_peak(graph)
    assert planning.check_schedule(graph, list(range(graph.n)), budget=peak).ok


def test_the_number_of_parameters_is_the_published_one() -> None:
    """Count as Keras does, with the statistics of normalization."""
    known = {"vgg16": 138_357_544, "vgg19": 143_667_240, "mobilenet": 4_253_864, "resnet50": 25_636_712}
    assert {name: find_network(name).network().parameters for name in known} == known
    # DenseNet161 is published with 28,681,000 trained parameters. Normalization adds two
    # statistics for each two of them.
    dense = find_network("densenet161").network()
    statistics = sum(layer.parameters // 2 for layer in dense.layers if layer.kind == "BatchNormalization")
    assert dense.parameters - statistics == 28_681_000


def facts(graph: Graph) -> tuple[list[object], ...]:
    """Return everything that schedules depend on, without names and kinds."""
    return (
        [(op.cost, frozenset(op.inputs), op.outputs, op.phase) for op in graph.ops],
        [(value.bytes, value.keep) for value in graph.values],
    )


@pytest.mark.parametrize("name", ["vgg16", "vgg19", "mobilenet", "unet", "resnet50"])
def test_the_published_graphs_are_built_exactly(name: str) -> None:
    path = PAPER / f"{name}.graph.json"
    if not path.is_file():
        pytest.skip("the published graphs are not here")
    published = read_any_graph(path)
    assert facts(find_network(name).graph(published.batch_size)) == facts(published)


def test_fcn8_costs_what_the_published_one_does() -> None:
    graph = find_network("fcn8").graph(32)
    assert (graph.n, graph.base_cost) == (73, 10275337746048.0)  # of CM1, published with MOCCASIN
    assert sum(len(op.inputs) for op in graph.ops) == 149


def test_names() -> None:
    assert find_network("paper.unet") is find_network("unet")
    with pytest.raises(UsageError, match="lenet"):
        find_network("paper.lenet")
    assert len({network.name for network in NETWORKS}) == len(NETWORKS)
    assert replace(NETWORKS[0]).graph(3).batch_size == 3
