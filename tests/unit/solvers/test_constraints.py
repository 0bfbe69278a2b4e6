"""Constraints: their meaning, against exact search, results' claims, wrong names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from checkmate import planning
from checkmate.errors import FormatError, UnknownNameError
from checkmate.formats import read_schedule, write_schedule
from checkmate.ir import Graph, GraphBuilder, Phase, Schedule, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.bounds import run_once_bound, working_set_bound
from checkmate.solvers.constraints import (
    Constraints,
    constrained,
    list_assumptions,
    run_once,
    start_for_constrained,
)
from checkmate.solvers.problem import SolveOptions
from tests.graphs_strategies import random_constraints, tiny_graphs, training_chain
from tests.oracles import least_budget, optimum
from tests.recorder import Recorder

BRIEF = SolveOptions(time_limit_s=0.4)


def layered() -> Graph:
    chain, groups = training_chain(6), ["encoder/a", "encoder/a", "encoder/b", "block1_x", "block1_y", "head"]
    return replace(chain, ops=tuple(replace(op, group=groups[int(op.name[1:])]) for op in chain.ops))


def test_every_kind_clears_the_right_ops() -> None:
    graph = layered()

    def cleared(constraints: Constraints) -> list[str]:
        again = constrained(graph, constraints).recomputable
        return [op.name for index, op in enumerate(graph.ops) if not again[index]]

    assert cleared(Constraints(keep=("a2",))) == ["f2"]
    assert cleared(Constraints(never_recompute=("b1", "f0"))) == ["f0", "b1"]
    assert cleared(Constraints(keep_groups=("encoder/b",))) == ["f2", "b2"]
    assert cleared(Constraints(never_recompute_groups=("encoder",))) == ["f0", "f1", "f2", "b2", "b1", "b0"]
    assert cleared(Constraints(never_recompute_groups=("block1_*",))) == ["f3", "f4", "b4", "b3"]
    assert cleared(Constraints(recompute_gradients=False)) == [f"b{i}" for i in reversed(range(6))]
    assert constrained(graph, Constraints()) is graph
    assert constrained(graph, Constraints(keep=("a2",))).fingerprint != graph.fingerprint


def test_names_as_a_user_writes_them() -> None:
    found = Constraints.named(
        layered(), keep=["a2", "encoder"], never_recompute=["f0", "block1_*", "f0"], recompute_gradients=False
    )
    assert found == Constraints(("a2",), ("encoder",), ("f0",), ("block1_*",), False)
    assert found.assumptions == (
        "value 'a2' always kept",
        "layer 'encoder' always kept",
        "op 'f0' never recomputed",
        "layer 'block1_*' never recomputed",
        "no gradient recompute",
    )
    assert (
        list_assumptions(found.assumptions, 2)
        == "value 'a2' always kept, layer 'encoder' always kept, and 3 more"
    )


@pytest.mark.parametrize(
    ("given", "sentence", "near"),
    [
        ({"keep": ["encoderr"]}, "there is no value or layer 'encoderr' in the graph", "'encoder/b'"),
        ({"keep": ["A2"]}, "there is no value or layer 'A2' in the graph", "'a2'"),
        ({"never_recompute": ["hed"]}, "there is no op or layer 'hed' in the graph", "'head'"),
        ({"never_recompute": [""]}, "there is no op or layer '' in the graph", ""),
        ({"keep": ["zzzzzz*"]}, "there is no value or layer 'zzzzzz*' in the graph", ""),
    ],
)
def test_names_with_typos(given: dict[str, list[str]], sentence: str, near: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        Constraints.named(layered(), **given)
    assert str(caught.value) == sentence
    assert near in caught.value.hint and caught.value.exit_code == 2
    assert ("did you mean" in caught.value.hint) == bool(near)


@pytest.mark.parametrize("field", ["keep", "never_recompute", "keep_groups", "never_recompute_groups"])
def test_unknown_names_in_every_field(field: str) -> None:
    with pytest.raises(UnknownNameError, match="'nothing like it'"):
        planning.solve(
            layered(), 50, solver="greedy", constraints=Constraints(**{field: ("nothing like it",)})
        )


def test_json_and_back() -> None:
    for constraints in (Constraints(), Constraints(("a",), ("b",), ("c",), ("d", "e"), False)):
        assert Constraints.from_json(constraints.to_json()) == constraints
    assert Constraints.from_json({"keep": ["a", "a"]}) == Constraints(("a",))
    for data, sentence in (
        ([], "is not an object"),
        ({"keeep": []}, "there is no field 'keeep'"),
        ({"keep": "a"}, "keep is 'a', not a list of names"),
        ({"keep_groups": [1]}, "keep_groups is"),
        ({"recompute_gradients": 1}, "recompute_gradients is 1"),
    ):
        with pytest.raises(FormatError, match=sentence):
            Constraints.from_json(data)


def test_held_against_exact_search() -> None:
    proved = infeasible = 0
    for seed, graph in enumerate(tiny_graphs()):
        constraints, once = random_constraints(Random(seed), graph)
        least = least_budget(graph, once=once)
        for budget in {least, (least + planning.keep_everything_peak(graph)) // 2, max(0, least - 1)}:
            best = optimum(graph, budget, once=once)
            result = planning.solve(graph, budget, options=BRIEF, constraints=constraints)
            infeasible += result.status is SolveStatus.INFEASIBLE
            assert result.status is not SolveStatus.INFEASIBLE or best is None
            if result.schedule is None:
                continue
            assert best is not None and result.cost is not None and result.lower_bound is not None
            assert result.lower_bound <= best.cost + 1e-6 and best.cost <= result.cost + 1e-9
            assert set(constraints.assumptions) <= set(result.assumptions)
            runs = np.bincount(result.schedule.steps, minlength=graph.n)
            assert all(runs[op] == 1 for op in once)
            assert result.schedule.graph_fingerprint == graph.fingerprint
            assert check(graph, result.schedule.steps.tolist(), budget_bytes=budget).ok
            proved += result.status is SolveStatus.OPTIMAL
    assert proved >= 10 and infeasible >= 8


def test_the_bound_for_what_is_made_once_holds() -> None:
    above = 0
    for seed, graph in enumerate(tiny_graphs(8)):
        constraints, _ = random_constraints(Random(seed), graph)
        limited = constrained(graph, constraints)
        bound = run_once_bound(limited).bytes
        assert bound <= least_budget(limited)
        above += bound > working_set_bound(limited).bytes
    assert above >= 3


def test_constraints_can_make_a_budget_infeasible(tmp_path: Path) -> None:
    graph = training_chain(8)
    free = planning.solve(graph, 50, options=BRIEF)
    assert free.schedule is not None and not free.assumptions
    kept = Constraints(keep=tuple(f"a{i}" for i in range(8)))
    result = planning.solve(graph, 50, options=BRIEF, constraints=kept)
    assert result.status is SolveStatus.INFEASIBLE
    assert result.assumptions == kept.assumptions
    assert "with these constraints: value 'a0' always kept" in result.message
    assert "that are held while op" in result.message and result.statistics["needed_bytes"] == 90
    # A budget below one op's own need is too small whatever the constraints.
    unconditional = planning.solve(graph, 30, constraints=kept)
    assert unconditional.status is SolveStatus.INFEASIBLE and not unconditional.assumptions


def test_assumptions_survive_the_file(tmp_path: Path) -> None:
    graph = training_chain(6)
    constraints = Constraints(keep=("a3",), recompute_gradients=False)
    result = planning.solve(graph, 50, options=BRIEF, constraints=constraints)
    write_schedule(tmp_path / "s.json", graph, result)
    found = read_schedule(tmp_path / "s.json", graph)
    assert found.assumptions == constraints.assumptions == ("value 'a3' always kept", "no gradient recompute")
    assert found.schedule is not None and found.schedule.steps.tolist().count(3) == 1


def test_the_option_for_gradients_is_a_constraint_for_every_solver() -> None:
    builder = GraphBuilder("gradients")
    big, gradient = builder.value("big", 4), builder.value("gradient", 3)
    last, end = builder.value("last", 6, keep=True), builder.value("end", 1, keep=True)
    builder.op("forward", (), [big], cost=9.0)
    builder.op("backward", [big], [gradient], cost=1.0, phase=Phase.BACKWARD)
    builder.op("use", [gradient], [end], cost=1.0, phase=Phase.BACKWARD)
    builder.op("again", [gradient], [last], cost=1.0, phase=Phase.BACKWARD)
    graph = builder.build()
    result = planning.solve(graph, 10, options=replace(BRIEF, recompute_gradients=False))
    assert result.assumptions == ("no gradient recompute",)
    assert run_once(graph, Constraints(recompute_gradients=False)).tolist() == [False, True, True, True]


def test_a_start_that_breaks_a_constraint_is_repaired() -> None:
    graph = training_chain(3)
    steps = [0, 1, 2, 3, 0, 1, 4, 0, 5]
    start = Schedule.of(graph, steps)
    limited = constrained(graph, Constraints(keep=("a0",)))
    repaired = start_for_constrained(graph, limited, start)
    assert repaired is not None and repaired.steps.tolist() == [0, 1, 2, 3, 1, 4, 5]
    assert check(limited, repaired.steps.tolist()).valid
    assert start_for_constrained(graph, limited, repaired) is repaired
    assert start_for_constrained(graph, limited, Schedule.of(training_chain(4), [0])) is None
    assert start_for_constrained(graph, limited, None) is None


def test_bounds_are_told_with_the_constraints() -> None:
    constraints, heard = Constraints(keep=("a4",)), Recorder()
    planning.solve(training_chain(8), 60, options=BRIEF, constraints=constraints, listener=heard)
    assert heard.bounds and heard.assumptions == {constraints.assumptions}
