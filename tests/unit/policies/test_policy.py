"""Test the choice of segments on small networks, against all choices that there are."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from random import Random

import pytest

import checkmate
from checkmate.cli.main import main
from checkmate.graphs.layers import LayerBuilder, training_graph
from checkmate.ir import CostUnit, Graph, GraphBuilder, Phase, Schedule, SolveStatus
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.policies.search import choose
from checkmate.policies.segment import Segment
from checkmate.policies.segments import Segments
from checkmate.runner import JAX, TORCH

BRIEF = checkmate.SolveOptions(time_limit_s=4)


def network(seed: int, layers: int = 6) -> Graph:
    """Return the step of random layers, of which some are added to an earlier one."""
    random = Random(seed)
    builder = LayerBuilder(f"network{seed}", (8, 8, 2))
    made = [builder.conv(builder.input, 2, 3)]
    while len(made) < layers:
        kind = random.randrange(4)
        if kind == 0:
            made.append(builder.conv(made[-1], 2, random.choice((1, 3, 5))))
        elif kind == 1:
            made.append(builder.batch_norm(made[-1]))
        elif kind == 2:
            made.append(builder.activation(made[-1]))
        else:
            made.append(builder.add([made[-1], random.choice(made)]))
    return training_graph(builder.build(), 4)


def disjoint(found: tuple[Segment, ...], end: int = 0) -> Iterator[tuple[Segment, ...]]:
    """Yield all sets of ``found`` that begin at ``end`` or behind it and do not overlap."""
    yield ()
    for first in found:
        if first.first >= end:
            yield from ((first, *rest) for rest in disjoint(found, first.end))


def modules(framework: str, separator: str) -> Graph:
    """Return a step of three modules with two layers each."""
    builder = GraphBuilder("modules")
    values: list[int] = []
    names = [f"block{i}{separator}{part}" for i in range(3) for part in ("linear", "act")]
    for name in names:
        values.append(builder.value(f"{name}:0", 100))
        kind = "mm" if name.endswith("linear") else "tanh"
        builder.op(name, values[-2:-1], [values[-1]], type=kind, group=name, cost=1.0)
    gradient: list[int] = []
    for index in reversed(range(len(names))):
        made = builder.value(f"gradient/{names[index]}", 10, keep=index == 0)
        builder.op(
            f"gradient/{names[index]}",
            [*values[max(0, index - 1) : index + 1], *gradient],
            [made],
            group=names[index],
            phase=Phase.BACKWARD,
            cost=2.0,
        )
        gradient = [made]
    return builder.build(cost_unit=CostUnit.FLOP, metadata={"framework": framework})


@pytest.mark.parametrize("seed", range(12))
def test_the_choice_is_near_the_best_of_all(seed: int) -> None:
    graph = network(seed)
    segments = Segments.of(graph)
    plain = segments.peak_bytes(())
    every = [
        (segments.peak_bytes(each), sum(part.cost for part in each)) for each in disjoint(segments.found)
    ]
    least = min(peak for peak, _ in every)
    for share in (0.0, 0.3, 0.6):
        budget = least + int(share * (plain - least))
        chosen = choose(segments, budget)
        assert segments.peak_bytes(chosen) <= budget
        best = min(cost for peak, cost in every if peak <= budget)
        assert sum(part.cost for part in chosen) <= 1.05 * best


@pytest.mark.parametrize("seed", range(20))
def test_a_policy_is_a_valid_schedule_that_frees_what_it_says(seed: int) -> None:
    graph = network(seed, 9)
    segments, random = Segments.of(graph), Random(seed)
    chosen: list[Segment] = []
    for each in random.sample(segments.found, len(segments.found)):
        if not any(each.overlaps(other) for other in chosen):
            chosen.append(each)
    steps = segments.steps(chosen)
    seen = check(graph, steps)
    assert seen.valid and seen.cost == pytest.approx(graph.base_cost + sum(part.cost for part in chosen))
    assert seen.peak_bytes == simulate(graph, Schedule.of(graph, steps)).peak_bytes
    assert seen.peak_bytes <= segments.peak_bytes(chosen)
    # Between the passes, no value is there that only its own segment reads.
    replayed = simulate(graph, Schedule.of(graph, steps))
    loss = steps.index(graph.ops[[op.name for op in graph.ops].index("loss")].outputs[0])
    there = replayed.buffer_value[(replayed.buffer_born < loss) & (replayed.buffer_last > loss)].tolist()
    for part in chosen:
        for value in there:
            units = {segments.unit[op] for op in graph.value_readers[value].tolist()}
            inside = segments.unit[graph.producer[value]], *units
            assert not all(part.first <= unit < part.end for unit in inside)


def test_a_closed_budget_takes_the_least_peak() -> None:
    graph = network(3)
    segments = Segments.of(graph)
    least = min(segments.peak_bytes(each) for each in disjoint(segments.found))
    assert segments.peak_bytes(choose(segments, least - 1)) == least
    found = checkmate.policy(graph, least - 1, options=BRIEF, quiet=True)
    assert not found.fits and "no policy found keeps it" in repr(found)


def test_nothing_is_chosen_where_everything_fits() -> None:
    found = checkmate.policy(network(1), "100%", options=BRIEF, quiet=True)
    assert found.fits and not found.code and found.best.status is SolveStatus.OPTIMAL
    assert "everything fits" in repr(found)


@pytest.mark.parametrize(("framework", "separator"), [(TORCH, "."), (JAX, "/")])
def test_modules_are_chosen_whole_or_in_part(framework: str, separator: str) -> None:
    graph = modules(framework, separator)
    segments = Segments.of(graph)
    last = f"block2{separator}act"  # nothing outside of it reads what it makes
    whole = {each.name: each for each in segments.found if not each.kept}
    assert set(whole) == {"block0", "block1", "block2", last}
    for each in segments.found:
        if each.kept:
            assert segments.shown(each) == f"{each.name}, except {each.kept[0]}"
            assert {graph.ops[op].type for op in each.again} == {"mm", "tanh"} - {*each.kept}
            # The next block's backward pass reads the last value of each block but the last.
            assert whole[each.name].freed - each.freed == (100 if each.name == "block2" else 0)
    assert {each.kept for each in segments.found if each.name == "block2"} >= {(), ("mm",)}
    found = checkmate.policy(graph, "90%", options=BRIEF, quiet=True)
    assert found.segments and found.code
    listed = ast.parse(found.code)
    names = next(each.value for each in listed.body if isinstance(each, ast.Assign))
    said = [", except ".join([name, *kept]) for name, kept in ast.literal_eval(names).items()]
    assert said == list(found.segments)


def test_no_run_computes_a_dropout_again() -> None:
    graph = checkmate.read_graph("transformer-b8.graph")
    random = {op.group.partition("/")[0] for op in graph.ops if "Random" in op.type}
    assert random
    segments = Segments.of(graph)
    assert segments.found
    for part in segments.found:
        assert random.isdisjoint(segments.units[part.first : part.end])


def test_the_command_prints_the_policy(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["policy", "unet-b8.graph", "--budget", "60%", "--time-limit", "2", "--quiet"]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fits"] and told["peak_bytes"] <= told["budget_bytes"]
    assert told["overhead"] >= told["schedule"]["overhead"] > 0
    assert ast.parse(told["code"])
