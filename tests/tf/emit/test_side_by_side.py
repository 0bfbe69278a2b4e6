"""Test that steps which may run side by side need no more memory than one after the other, in any order."""

from __future__ import annotations

from random import Random

import keras
import tensorflow as tf

from checkmate.backends.tf.emit.side_by_side import made_bytes, side_by_side, waits_within
from checkmate.backends.tf.measure.concrete import compiled_step
from checkmate.backends.tf.node_times import position_of
from checkmate.ir import Graph, Phase, Schedule, Timeline
from checkmate.memory.simulate import simulate
from tests.graphs_strategies import random_graph
from tests.tf.conftest import folded_model
from tests.tf.schedules import recompute_forward


def reads(graph: Graph, steps: list[int]) -> list[set[int]]:
    """Return for each step the steps whose results it reads."""
    newest: dict[int, int] = {}
    found: list[set[int]] = []
    for step, op in enumerate(steps):
        found.append({newest[value] for value in graph.ops[op].inputs if value in newest})
        newest |= dict.fromkeys(graph.ops[op].outputs, step)
    return found


def most_held(timeline: Timeline, needs: list[set[int]], random: Random) -> int:
    """Run the steps on any number of threads, in a random order that ``needs`` allows; return the most bytes
    held at once.

    As the worst case, nothing is written over, and a buffer is held until all have ended that the schedule
    has up to its last reader.
    """
    made, buffers = made_bytes(timeline), [0] * len(needs)
    for bytes_, born in zip(timeline.buffer_bytes.tolist(), timeline.buffer_born.tolist(), strict=True):
        buffers[born] += bytes_
    scratch = made - buffers
    waiting, running, ended = set(range(len(needs))), set(), set()
    most = 0
    while waiting or running:
        ready = [step for step in waiting if needs[step] <= ended]
        if ready and (not running or random.random() < 0.7):
            step = random.choice(sorted(ready))
            waiting.remove(step)
            running.add(step)
        else:
            step = random.choice(sorted(running))
            running.remove(step)
            ended.add(step)
        begun = running | ended
        behind = min(waiting | running, default=len(needs))  # all before it have ended
        alone = running == {behind} and begun == set(range(behind + 1))
        spared = int(timeline.taken_over[behind]) if alone else 0
        instances = zip(timeline.buffer_bytes, timeline.buffer_born, timeline.buffer_last, strict=True)
        held = sum(int(bytes_) for bytes_, born, last in instances if born in begun and last >= behind)
        used = sum(int(scratch[each]) for each in running)
        most = max(most, timeline.fixed_bytes + held + used - spared)
    return most


def test_no_order_that_is_allowed_needs_more_than_the_peak() -> None:
    beside = 0
    for seed in range(150):
        random = Random(seed)
        graph = random_graph(random, least_ops=4, most_ops=14)
        schedule = Schedule.plain(graph)
        timeline = simulate(graph, schedule)
        waits_for = waits_within(timeline.peak_bytes, timeline, made_bytes(timeline))
        for step, first in enumerate(waits_for):
            assert waits_for[max(step - 1, 0)] <= first <= step
            beside += first < step
        read = reads(graph, schedule.steps.tolist())
        needs = [set(range(first)) | before for first, before in zip(waits_for, read, strict=True)]
        for _ in range(8):
            assert most_held(timeline, needs, random) <= timeline.peak_bytes, seed
    assert beside > 300


def test_without_waiting_it_would_need_more() -> None:
    """Check that the replay above sees what waiting prevents."""
    random, over = Random(1), 0
    for _ in range(60):
        graph = random_graph(random, least_ops=8, most_ops=14)
        schedule = Schedule.plain(graph)
        timeline = simulate(graph, schedule)
        over += most_held(timeline, reads(graph, schedule.steps.tolist()), random) > timeline.peak_bytes
    assert over > 20


def waited_for(op: tf.Operation) -> set[str]:
    """Return the names of all ops that run before ``op``."""
    found: set[str] = set()
    stack = [op]
    while stack:
        before = stack.pop()
        for each in (*(tensor.op for tensor in before.inputs), *before.control_inputs):
            if each.name not in found:
                found.add(each.name)
                stack.append(each)
    return found


def test_an_update_waits_for_what_reads_its_variable_and_not_for_all() -> None:
    """Test that no update copies its variable because a product still reads it."""
    dense = [keras.layers.Dense(256, activation="tanh") for _ in range(4)]
    model = keras.Sequential([keras.Input((256,)), *dense, keras.layers.Dense(256)])
    model.compile("adam", "mse")
    folded = folded_model(model, (64, 256), (64, 256))
    structure, schedule = folded.structure, recompute_forward(folded.graph)
    steps = schedule.steps.tolist()
    emitted: dict[int, list[tf.Operation]] = {}
    for op in compiled_step(folded, steps).graph.get_operations():
        if op.name.startswith("step"):
            emitted.setdefault(position_of(op.name), []).append(op)
    read, beside = 0, 0
    for step, node in enumerate(steps):
        if structure.phase(folded.nodes[node][0]) is not Phase.UPDATE:
            continue
        written = set().union(*map(structure.variables_taken, folded.nodes[node]))
        for assign in (op for op in emitted[step] if op.type.startswith("Assign")):
            before = waited_for(assign)
            for earlier in range(step):
                readers = [
                    op for op in folded.nodes[steps[earlier]] if structure.variables_read(op) & written
                ]
                types = {structure.ops[op].type for op in readers}
                names = {op.name for op in emitted[earlier] if op.type in types}
                assert bool(names) == bool(readers) and names <= before, (step, earlier)
                read += len(names)
            beside += any(op.name not in before for op in emitted[step - 1])
    assert (
        read > 20
        and beside
        and any(first < step for step, first in enumerate(side_by_side(folded, schedule).waits_for))
    )
