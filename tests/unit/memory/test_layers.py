from __future__ import annotations

from dataclasses import replace

import numpy as np

import checkmate
from checkmate.ir import Graph, Schedule
from checkmate.memory.layers import LayerMemory, activation_bytes, layer_memory
from checkmate.memory.simulate import simulate


def in_pairs(chain: Graph) -> Graph:
    """Return the chain with a layer to each two ops."""
    return replace(chain, ops=tuple(replace(op, group=f"pair/{int(op.name[1:]) // 2}") for op in chain.ops))


def test_what_the_layers_of_a_chain_hold(chain: Graph) -> None:
    found = layer_memory(in_pairs(chain), lambda group: group)
    # Two values of 10 bytes each; the last pair's are read at the peak, beside the first gradient.
    pairs = [LayerMemory(f"pair/{number}", 20, 20, 20, 2.0) for number in range(3)]
    assert found == [*pairs, LayerMemory("pair/3", 20, 30, 0, 0.0)]
    (whole,) = layer_memory(in_pairs(chain), lambda group: group.partition("/")[0])
    assert (whole.kept, whole.at_peak, whole.freed) == (80, 90, 60)


def test_a_schedule_that_recomputes_keeps_less_for_the_backward_pass(chain: Graph) -> None:
    assert activation_bytes(chain, Schedule.plain(chain)) == 80
    smaller = checkmate.solve(chain, 60, quiet=True, options=checkmate.SolveOptions(time_limit_s=1))
    kept = activation_bytes(chain, smaller.require_schedule())
    assert kept is not None and 0 < kept < 60


def test_a_graph_without_a_backward_pass_tells_of_no_activations(chain: Graph) -> None:
    forward = replace(chain, ops=tuple(replace(op, phase="forward") for op in chain.ops))
    assert activation_bytes(forward, Schedule.plain(forward)) is None


def test_the_layers_of_a_network_add_up() -> None:
    graph = checkmate.read_graph("unet-b8.graph")
    found = layer_memory(graph, lambda group: group)
    timeline = simulate(graph, Schedule.plain(graph))
    assert sum(each.at_peak for each in found) == timeline.peak_bytes
    assert sum(each.kept for each in found) == activation_bytes(graph, Schedule.plain(graph))
    assert all(0 <= each.freed <= each.at_peak and (each.cost > 0) == (each.freed > 0) for each in found)
    assert np.median([each.freed for each in found if each.freed]) > 2**20
