"""What-ifs: constraints as a part of the question, each with a frontier of its own, in a window with its real solver process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from checkmate.check import check
from checkmate.solvers.constraints import Constraints, constrained
from tests.app.windows import open_chain

KEEP_ONE = Constraints(keep=("a4",))
KEEP_MORE = Constraints(keep=("a4", "a5"), keep_groups=("layer7",))
NO_REPEATS = Constraints(never_recompute_groups=("layer*",))


def solved(window, qtbot, constraints: Constraints, share: float = 0.7):
    """The solve for a share of the plain step's peak, under ``constraints``."""
    exploration = window.session.exploration
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        exploration.set_budget(int(exploration.plain.peak_bytes * share))
        if constraints == exploration.constraints:
            window.session.solve()
        else:
            window.session.constrain(constraints)
    return exploration.solve


def runs(found, op: str) -> int:
    graph = found.graph
    index = next(i for i, entry in enumerate(graph.ops) if entry.name == op)
    return int(np.sum(found.schedule.steps == index))


def test_schedules_keep_the_constraints_and_are_schedules_of_the_plain_graph(window, qtbot) -> None:
    open_chain(window, qtbot)
    exploration = window.session.exploration
    solve = solved(window, qtbot, KEEP_MORE, 0.75)
    assert solve.status in ("optimal", "feasible")
    graph, limited = exploration.graph, constrained(exploration.graph, KEEP_MORE)
    assert len(exploration.known) > 1
    for found in exploration.known:
        assert [runs(found, op) for op in ("f4", "f5", "f7", "b7")] == [1, 1, 1, 1]
        steps = found.schedule.steps.tolist()
        assert found.schedule.graph_fingerprint == graph.fingerprint
        assert check(graph, steps).ok and check(limited, steps).ok
        assert exploration.unconstrained.best_for(found.peak_bytes).cost <= found.cost
        assert found.result().assumptions == KEEP_MORE.assumptions
    assert exploration.shown in exploration.known


def test_a_bound_proved_under_constraints_is_never_one_of_the_plain_graph(window, qtbot) -> None:
    open_chain(window, qtbot)
    exploration = window.session.exploration
    budget = int(exploration.plain.peak_bytes * 0.8)
    assert solved(window, qtbot, NO_REPEATS, 0.8).status == "infeasible"
    assert exploration.least_possible > budget
    assert np.isfinite(exploration.unconstrained.frontier.bound(budget))
    assert solved(window, qtbot, Constraints(), 0.8).status in ("optimal", "feasible")
    assert exploration.shown.peak_bytes <= budget
    # And what was proved of the plain graph holds under any constraints.
    proved = exploration.unconstrained.frontier.bounds
    window.session.constrain(KEEP_ONE)
    assert all(exploration.frontier.bound(at) >= bound for at, bound in proved)


def test_earlier_constraints_bring_their_frontier_back_at_once(window, qtbot) -> None:
    open_chain(window, qtbot)
    exploration = window.session.exploration
    solved(window, qtbot, KEEP_ONE)
    found, shown = list(exploration.known), exploration.shown
    solved(window, qtbot, Constraints())
    assert exploration.what_if is exploration.unconstrained
    window.session.constrain(KEEP_ONE)
    assert all(exploration.best_for(earlier.peak_bytes).cost <= earlier.cost for earlier in found)
    assert exploration.shown.cost <= shown.cost and exploration.shown.peak_bytes <= exploration.budget_bytes
    # The same question in other words has the same answers.
    window.session.constrain(Constraints(never_recompute=("f4",)))
    assert exploration.frontier.points and exploration.shown.cost <= shown.cost
    assert exploration.shown.result().assumptions == ("op 'f4' never recomputed",)


def test_news_about_earlier_constraints_stays_with_them(window, qtbot) -> None:
    """The solver process may send what it found for a question that was changed meanwhile."""
    open_chain(window, qtbot)
    exploration = window.session.exploration
    for _ in range(4):
        for constraints in (NO_REPEATS, KEEP_MORE, Constraints(), KEEP_ONE):
            window.session.constrain(constraints)
            qtbot.wait(60)
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        window.session.constrain(Constraints())
    for constraints, what_if in exploration._what_ifs.items():
        limited = constrained(exploration.graph, constraints)
        for found in what_if.known:
            assert check(limited, found.schedule.steps.tolist()).ok
            assert found.lower_bound <= found.cost * (1 + 1e-9)
    least = min(found.peak_bytes for found in exploration.known)
    assert exploration.unconstrained.frontier.infeasible_below < least


def test_explorations_keep_their_constraints(window, qtbot, tmp_path: Path) -> None:
    open_chain(window, qtbot)
    exploration = window.session.exploration
    solved(window, qtbot, KEEP_MORE, 0.75)
    shown, known = exploration.shown, len(exploration.known)
    path = tmp_path / "chain.exploration.json"
    assert window.session.save(path)
    solved(window, qtbot, Constraints())
    window.session.open_file(path)
    assert exploration.constraints == KEEP_MORE
    assert len(exploration.known) >= known
    assert exploration.shown.cost <= shown.cost and runs(exploration.shown, "f4") == 1

    data = json.loads(path.read_text())
    assert data["constraints"]["keep"] == ["a4", "a5"]
    for broken, said in (({"keep": ["nothing"]}, "nothing"), ({"kept": []}, "no field 'kept'")):
        path.write_text(json.dumps({**data, "constraints": broken}))
        graph = exploration.graph
        with qtbot.waitSignal(window.session.failed, timeout=5000) as failed:
            window.session.open_file(path)
        assert said in failed.args[0] and exploration.graph is graph
    del data["constraints"]
    path.write_text(json.dumps(data))
    window.session.open_file(path)
    assert exploration.constraints.is_empty
