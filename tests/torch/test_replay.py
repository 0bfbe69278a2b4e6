"""Test that halves compute what the joint graph computes, and hold what the timeline says.

Schedules come from the solver and from chance. ``tests/torch/replay.py`` runs them; that it notices faults is
shown by faults put into the analysis.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, cached_property
from itertools import chain
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import fx

from checkmate.backends.torch import emission
from checkmate.backends.torch.graph import Region, region_of
from checkmate.backends.torch.joint import Joint
from checkmate.ir import Schedule
from checkmate.memory.check import check
from tests.torch.regions import Traced, solved, traced, wild
from tests.torch.replay import Outcome, Replay, reference, replayed
from tests.torch.small_modules import small_modules

NAMES = tuple(small_modules())
SNAPSHOTS = {"noise", "convolutions", "odd draws"}  # they draw, or write over buffers


@pytest.fixture(autouse=True)
def _plainly() -> Iterator[None]:
    """Without gradients, and on one thread: several would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


@cache
def small(name: str) -> tuple[Traced, Outcome]:
    module, inputs = small_modules()[name]
    with torch.enable_grad():
        found = traced(module, *inputs)
    return found, reference(found)


def replays(name: str, schedules: Callable[[Any, int], Iterator[Schedule]], count: int) -> Iterator[Replay]:
    found, wanted = small(name)
    region = found.region()
    for schedule in schedules(region.graph, count):
        assert check(region.graph, schedule.steps.tolist()).ok
        yield replayed(found, region, schedule, wanted)


def snapshot_bytes(region: Region) -> int:
    graph = region.graph
    return sum(graph.values[op.outputs[0]].bytes for op in graph.ops if op.type == "snapshot")


@pytest.mark.parametrize("name", NAMES)
def test_the_plain_schedule_is_the_joint_graph(name: str) -> None:
    found, wanted = small(name)
    region = found.region()
    replay = replayed(found, region, Schedule.plain(region.graph), wanted)
    assert replay, replay
    assert replay.overwritten > 20
    # Nothing runs again, so no generator's state is taken, and all that is counted for them is spare. An
    # input that the caller writes over is copied where the backward pass reads it.
    assert (replay.spare > 0) == (name in SNAPSHOTS)
    assert replay.spare <= snapshot_bytes(region)


@pytest.mark.parametrize("name", NAMES)
def test_solved_schedules(name: str) -> None:
    found = list(replays(name, solved, 10))
    for replay in found:
        assert replay, replay
        assert name in SNAPSHOTS or replay.spare == 0
    assert len(found) >= 8  # a solve may end without a schedule
    assert any(replay.recomputations for replay in found)


@pytest.mark.parametrize("name", NAMES)
def test_any_valid_schedule(name: str) -> None:
    for replay in replays(name, wild, 15):
        assert replay, replay
        assert name in SNAPSHOTS or replay.spare == 0


def test_small_modules_hold_what_is_hard() -> None:
    joints = {name: small(name)[0].joint for name in NAMES}
    targets = {str(node.target) for joint in joints.values() for node in joint.nodes}
    shared = ("split", "unbind", "t", "transpose", "permute", "expand", "select", "unsqueeze")
    for each in (
        *shared,
        "arange",
        "index",
        "where",
        "native_dropout",
        "select_scatter",
        "topk",
        "bernoulli",
    ):
        assert any(target.startswith(f"aten.{each}.") for target in targets), each
    assert (
        len(joints["noise"].overwritten) == 4
    )  # running mean, variance, count of batches, and its own count
    outputs = joints["outputs"]
    (sort,) = (node for node in outputs.selections if "aten.sort." in str(node.target))
    assert len(outputs.selections[sort]) == 1 < len(sort.meta["val"])
    given = set(outputs.storages_of(outputs.primals))
    assert given.intersection(outputs.storages_of(outputs.results))


class Torn(Joint):
    """The analysis with a fault: what ``torn`` ops make shares nothing with what they are views of."""

    torn = ""

    @cached_property
    def _found(self) -> Any:
        true_of, true_first = Joint.__dict__["_found"].func(self)
        of: dict[fx.Node, tuple[int, ...]] = {}
        first = list(true_first)

        def inherited(node: fx.Node, storage: int) -> int:
            for each in node.all_input_nodes:
                if storage in true_of[each]:
                    return of[each][true_of[each].index(storage)]
            return storage

        for node in self.nodes:
            if f"aten.{self.torn}." in str(node.target):
                parts = node.meta["val"] if isinstance(node.meta["val"], list | tuple) else [node.meta["val"]]
                of[node] = tuple(range(len(first), len(first) + len(parts)))
                first += [(node, torch.empty_like(each)) for each in parts]  # with a storage of its own
            elif node.target is operator.getitem and f"aten.{self.torn}." in str(node.args[0].target):
                of[node] = (of[node.args[0]][node.args[1]],)
            else:
                of[node] = tuple(
                    each if true_first[each][0] is node else inherited(node, each) for each in true_of[node]
                )
        return of, tuple(first)


def torn(name: str, target: str) -> Region:
    joint = small(name)[0].joint
    kind = type("TornHere", (Torn,), {"torn": target})
    return region_of(kind(joint.module, joint.forward_outputs, joint.written))


@pytest.mark.parametrize(
    ("name", "target"),
    [("views", "unbind"), ("views", "split"), ("outputs", "select"), ("attention", "permute")],
)
def test_a_torn_view_is_noticed(name: str, target: str) -> None:
    """By what is held, and by what is computed from storages that should be dead."""
    found, wanted = small(name)
    region = torn(name, target)
    assert len(region.joint.ops) > len(found.joint.ops)
    noticed = [
        replayed(found, region, schedule, wanted)
        for schedule in chain([Schedule.plain(region.graph)], wild(region.graph, 5))
    ]
    assert any(replay.bytes for replay in noticed)
    assert any(replay.planned for replay in noticed)
    assert not any(replay.read for replay in noticed)  # what is emitted is right for a graph that is wrong


def test_draws_that_are_not_repeated_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emission, "is_random", lambda node: False)
    found = list(replays("noise", wild, 5))
    assert any(replay.read and replay.planned and -2 in replay.read for replay in found)


def test_an_input_written_over_is_noticed() -> None:
    found, wanted = small("noise")
    region = region_of(replace(found.joint, written=frozenset()))
    replay = [replayed(found, region, each, wanted) for each in wild(region.graph, 5)]
    assert any(each.read for each in replay)
