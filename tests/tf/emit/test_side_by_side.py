"""Test that steps which may run side by side need no more memory than one after the other, in any order."""

from __future__ import annotations

from random import Random

from checkmate.backends.tf.emit.side_by_side import made_bytes, waits_within
from checkmate.ir import Graph, Schedule, Timeline
from checkmate.memory.simulate import simulate
from tests.graphs_strategies import random_graph


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
