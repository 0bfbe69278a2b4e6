from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from app.models.exploration import Exploration
from app.models.session import Session
from checkmate import planning
from checkmate.errors import UnknownNameError
from checkmate.formats.exploration import exploration_from_json, read_exploration, write_exploration
from checkmate.solvers.constraints import Constraints, constrained
from tests.app.test_whatif import KEEP_MORE, KEEP_ONE, NO_REPEATS, solved
from tests.app.windows import exploration_of, training_chain

# They make schedules dearer: 47 instead of 44 at four fifths of the memory.
DEAR = Constraints(keep=("a2", "a5", "a8"))


def proved_under(constraints: Constraints) -> tuple[Exploration, int, float]:
    exploration = exploration_of(training_chain())
    budget, bound = int(exploration.plain.peak_bytes * 0.8), exploration.graph.base_cost * 1.2
    exploration.add_bound(exploration.plain.peak_bytes // 2, exploration.graph.base_cost * 1.5)
    exploration.set_constraints(constraints)
    exploration.add_bound(budget, bound)
    return exploration, budget, bound


def saved_in(folder: Path, exploration: Exploration) -> Path:
    write_exploration(folder / "chain.json", exploration.saved())
    return folder / "chain.json"


def reopened(exploration: Exploration, folder: Path) -> Exploration:
    again = Exploration()
    again.restore(read_exploration(saved_in(folder, exploration)))
    return again


def test_a_bound_proved_under_constraints_comes_back_with_them(tmp_path: Path) -> None:
    exploration, budget, bound = proved_under(KEEP_ONE)
    again = reopened(exploration, tmp_path)
    assert again.constraints == KEEP_ONE and again.frontier.bounds == exploration.frontier.bounds
    assert again.frontier.bound(budget) == bound
    # It need not hold without them.
    assert again.unconstrained.frontier.bounds == exploration.unconstrained.frontier.bounds
    again.set_constraints(Constraints())
    assert again.frontier.bound(budget) == again.graph.base_cost


def test_a_bound_of_other_constraints_comes_back_when_they_do(tmp_path: Path) -> None:
    exploration, budget, bound = proved_under(KEEP_ONE)
    exploration.set_constraints(Constraints())
    again = reopened(exploration, tmp_path)
    assert again.frontier.bound(budget) == again.graph.base_cost
    third = reopened(again, tmp_path)  # a window that did not ask for them does not lose it
    third.set_constraints(KEEP_ONE)
    assert third.frontier.bound(budget) == bound


def test_an_answer_under_other_constraints_is_known_again_when_they_are_set(tmp_path: Path) -> None:
    exploration, _, _ = proved_under(DEAR)
    budget = int(exploration.plain.peak_bytes * 0.9)
    steps = planning.solve(constrained(exploration.graph, DEAR), budget).require_schedule().steps
    exploration.set_budget(budget)
    exploration.begin_solve(1)
    exploration.add(steps, budget_bytes=budget, solver="x", seconds=0.0)
    exploration.answered()
    found = exploration.shown
    assert found.peak_bytes <= budget < exploration.plain.peak_bytes
    exploration.set_constraints(Constraints())
    # Without constraints there is a better one, which takes its place there.
    better = planning.solve(exploration.graph, found.peak_bytes).require_schedule().steps
    exploration.add(better, budget_bytes=budget, solver="x", seconds=0.0)
    assert found.key not in {one.key for one in exploration.known}
    again = reopened(exploration, tmp_path)
    again.set_constraints(DEAR)
    assert again.shown.key == found.key


def test_what_was_found_under_other_constraints_comes_back_when_they_do(tmp_path: Path) -> None:
    """Test schedules that are not in the user's own list."""
    exploration = exploration_of(training_chain())
    exploration.set_constraints(DEAR)
    limited = constrained(exploration.graph, DEAR)
    for share in (0.8, 0.9):
        budget = int(exploration.plain.peak_bytes * share)
        steps = planning.solve(limited, budget).require_schedule().steps
        exploration.add(steps, budget_bytes=budget, solver="x", seconds=0.0)
    frontier = [one.key for one in exploration.known]
    exploration.set_constraints(Constraints())
    for found in list(exploration.known):  # a cheaper one takes the place of each
        if found is not exploration.plain:
            better = planning.solve(exploration.graph, found.peak_bytes).require_schedule().steps
            exploration.add(better, budget_bytes=found.peak_bytes, solver="x", seconds=0.0)
    assert not set(frontier) <= {one.key for one in exploration.known}
    again = reopened(exploration, tmp_path)
    assert [one.key for one in again.known] == [one.key for one in exploration.known]
    third = reopened(again, tmp_path)  # a window that did not ask for them does not lose them
    third.set_constraints(DEAR)
    assert [one.key for one in third.known] == frontier


def test_a_bound_holds_under_further_constraints_and_under_no_others(tmp_path: Path) -> None:
    exploration, budget, bound = proved_under(KEEP_ONE)
    again = reopened(exploration, tmp_path)
    again.set_constraints(Constraints(keep=("a5",)))
    assert again.frontier.bound(budget) == again.graph.base_cost
    fresh = Exploration()
    exploration.set_constraints(Constraints())
    fresh.restore(exploration.saved())
    fresh.set_constraints(KEEP_MORE)
    assert fresh.frontier.bound(budget) == bound


def test_a_proof_that_none_fits_comes_back(tmp_path: Path) -> None:
    exploration, budget, _ = proved_under(NO_REPEATS)
    exploration.add_bound(budget, None)
    again = reopened(exploration, tmp_path)
    assert math.isinf(again.frontier.bound(budget)) and again.least_possible == budget + 1
    assert again.least_of_all <= budget


def test_what_is_proved_without_constraints_is_written_once(tmp_path: Path) -> None:
    exploration = exploration_of(training_chain())
    exploration.add_bound(exploration.plain.peak_bytes // 2, exploration.graph.base_cost * 1.5)
    for constraints in (KEEP_ONE, KEEP_MORE, NO_REPEATS):
        exploration.set_constraints(constraints)  # each takes the bound over
        assert exploration.frontier.bounds
    stored = json.loads(saved_in(tmp_path, exploration).read_text(encoding="utf-8"))
    assert len(stored["bounds"]) == 1 and "constrained_bounds" not in stored


def test_a_bound_that_a_schedule_contradicts_is_not_used(tmp_path: Path) -> None:
    exploration, budget, bound = proved_under(KEEP_ONE)
    path = saved_in(tmp_path, exploration)
    data = json.loads(path.read_text(encoding="utf-8"))
    peak = exploration.plain.peak_bytes
    data["constrained_bounds"][0]["bounds"].append({"budget_bytes": peak, "lower_bound": bound})
    again = Exploration()
    again.restore(exploration_from_json(path, data))
    assert again.frontier.bound(peak) == again.graph.base_cost == again.plain.cost
    assert again.frontier.bound(budget) == bound


@pytest.mark.parametrize("field", ["constrained_bounds", "schedules"])
def test_a_name_that_the_graph_lacks_is_refused(tmp_path: Path, field: str) -> None:
    exploration, _, _ = proved_under(KEEP_ONE)
    path = saved_in(tmp_path, exploration)
    data = json.loads(path.read_text(encoding="utf-8"))
    if field == "schedules":
        data["constrained_bounds"] = []
        data["schedules"][0]["on_frontier_of"] = [{"keep": ["a99"]}]
    else:
        data["constrained_bounds"][0]["constraints"]["keep"] = ["a99"]
    with pytest.raises(UnknownNameError, match="a99"):
        Exploration().restore(exploration_from_json(path, data))


@pytest.mark.heavy  # it solves in a process of its own
def test_the_gap_is_the_same_after_opening(window, exploration, qtbot, tmp_path: Path, chain_open) -> None:
    solve = solved(window, qtbot, DEAR, 0.8)
    assert solve.status == "optimal"
    plain = exploration.unconstrained
    assert solve.lower_bound > plain.best_for(exploration.budget_bytes).cost  # it is proved of these alone
    assert window.session.save(tmp_path / "chain.json")
    other = Session()
    try:
        other.open_file(tmp_path / "chain.json", at_once=True)
        again = other.exploration
        assert again.shown.result().gap == exploration.shown.result().gap
        assert again.frontier.bound(again.budget_bytes) >= solve.lower_bound
    finally:
        other.close()
