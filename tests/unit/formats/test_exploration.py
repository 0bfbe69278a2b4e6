from __future__ import annotations

import copy
import gzip
import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from checkmate.errors import FormatError, SchemaVersionError
from checkmate.formats import files
from checkmate.formats.exploration import (
    BoundsUnder,
    SavedExploration,
    SavedOwn,
    exploration_from_json,
    is_exploration,
    read_exploration,
    write_exploration,
)
from checkmate.formats.graph import graph_to_json
from checkmate.formats.schedule import result_to_json
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from tests.graphs_strategies import random_graph, random_steps, training_chain
from tests.unit.formats.test_bad_input import Edit, top, without
from tests.unit.formats.test_formats import same


def result(graph: Graph, steps: list[int], **given: Any) -> SolveResult:
    report = check(graph, steps)
    assert report.ok
    facts: dict[str, Any] = {
        "status": SolveStatus.FEASIBLE,
        "solver": "test",
        "budget_bytes": report.peak_bytes + 1,
        "base_cost": graph.base_cost,
        "schedule": Schedule.of(graph, steps),
        "cost": report.cost,
        "peak_bytes": report.peak_bytes,
        **given,
    }
    return SolveResult(**facts)


def exploration(layers: int = 4) -> SavedExploration:
    """Return the plain step, and one that makes its first value again."""
    graph = training_chain(layers)
    plain = [*range(graph.n)]
    again = [*plain[:-1], 0, plain[-1]]
    results = (
        result(graph, again, lower_bound=graph.base_cost + 0.1, solve_seconds=0.25, message="stopped"),
        result(graph, plain, status=SolveStatus.OPTIMAL, lower_bound=graph.base_cost),
    )
    bounds = ((20, math.inf), (30, graph.base_cost + 0.1))
    kept = {"keep": ["a0"], "recompute_gradients": True}
    own = {
        0: SavedOwn(budget_bytes=45, name="mine", note="tried first", pinned=True, constraints=kept),
        1: SavedOwn(max_overhead=math.inf),
    }
    under = (
        BoundsUnder(kept, ((20, math.inf), (40, graph.base_cost + 0.2))),
        BoundsUnder({"recompute_gradients": False}, ()),
    )
    saved = SavedExploration(graph, 45, results, bounds, own=own, constrained_bounds=under, step=3)
    return replace(saved, under={1: (kept,)}, missed={0: 44})


def random_exploration(random: Random) -> SavedExploration:
    graph = random_graph(random)
    plans = [plan for plan in (random_steps(random, graph) for _ in range(4)) if check(graph, plan).ok]
    results = tuple(result(graph, plan, solve_seconds=random.random()) for plan in plans)
    least = min((r.peak_bytes or 0 for r in results), default=9)
    bounds = ((least - 1, math.inf),) if least else ()
    constraints = random.choice([None, {"keep": ["a0"], "recompute_gradients": False}])
    bounds = (*bounds, (least, graph.base_cost))
    return SavedExploration(graph, random.randint(0, 50), results, bounds, constraints)


def require_same(a: SavedExploration, b: SavedExploration) -> None:
    assert same(a.graph, b.graph) and a.graph.fingerprint == b.graph.fingerprint
    assert (a.budget_bytes, a.bounds, a.own, a.constraints) == (
        b.budget_bytes,
        b.bounds,
        b.own,
        b.constraints,
    )
    assert a.constrained_bounds == b.constrained_bounds and a.under == b.under
    assert (a.missed, a.step) == (b.missed, b.step)
    assert len(a.schedules) == len(b.schedules)
    names = (
        "status",
        "solver",
        "budget_bytes",
        "base_cost",
        "cost",
        "peak_bytes",
        "lower_bound",
        "solve_seconds",
    )
    for one, other in zip(a.schedules, b.schedules, strict=True):
        assert one.require_schedule().steps.tolist() == other.require_schedule().steps.tolist()
        for name in (*names, "assumptions", "message"):
            assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_an_exploration_reads_back_the_same(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"e{ending}"
    random = Random(3)
    for saved in (exploration(), *(random_exploration(random) for _ in range(40))):
        write_exploration(path, saved)
        require_same(read_exploration(path), saved)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == ending.endswith(".gz")


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_written_twice_the_bytes_are_the_same(ending: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    write_exploration(first, exploration())
    write_exploration(second, read_exploration(first))
    assert first.read_bytes() == second.read_bytes()


def test_the_file_has_the_fields_of_its_format(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    saved = exploration()
    write_exploration(path, saved)
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert is_exploration(stored) and (stored["format"], stored["version"]) == ("checkmate-exploration", 1)
    assert stored["graph"] == json.loads(json.dumps(graph_to_json(saved.graph)))
    own = [entry.pop("own") for entry in stored["schedules"]]
    assert own[0].keys() == {"budget_bytes", "name", "note", "pinned", "constraints"}
    assert own[1] == {"max_overhead": None}
    assert stored["step"] == 3 and stored["schedules"][0].pop("missed_budget_bytes") == 44
    assert stored["schedules"][1].pop("on_frontier_of") == [{"keep": ["a0"], "recompute_gradients": True}]
    assert stored["schedules"] == [
        json.loads(json.dumps(result_to_json(saved.graph, r))) for r in saved.schedules
    ]
    assert stored["bounds"] == [
        {"budget_bytes": 20, "lower_bound": None},
        {"budget_bytes": 30, "lower_bound": saved.graph.base_cost + 0.1},
    ]
    assert stored["budget_bytes"] == 45
    assert stored["constrained_bounds"] == [
        {
            "constraints": {"keep": ["a0"], "recompute_gradients": True},
            "bounds": [
                {"budget_bytes": 20, "lower_bound": None},
                {"budget_bytes": 40, "lower_bound": saved.graph.base_cost + 0.2},
            ],
        },
        {"constraints": {"recompute_gradients": False}, "bounds": []},
    ]


def test_a_graph_with_a_fingerprint_of_its_own_reads_back(tmp_path: Path) -> None:
    graph = replace(training_chain(3), declared_fingerprint="sha256:theirs")
    saved = SavedExploration(graph, 30, (result(graph, [*range(graph.n)]),), ())
    write_exploration(tmp_path / "e.json", saved)
    require_same(read_exploration(tmp_path / "e.json"), saved)


def test_a_graph_alone_is_an_exploration(tmp_path: Path) -> None:
    data = {"format": "checkmate-exploration", "version": 1, "graph": graph_to_json(training_chain(2))}
    found = exploration_from_json(tmp_path / "e.json", data)
    assert (found.budget_bytes, found.schedules, found.bounds) == (0, (), ())


@pytest.mark.parametrize(
    "data", [None, [], "checkmate-exploration", {}, {"format": "checkmate-graph"}, {"format": 1}]
)
def test_files_of_another_kind(data: Any) -> None:
    assert not is_exploration(data)


def stored(saved: SavedExploration, folder: Path) -> dict[str, Any]:
    path = folder / "whole.json"
    write_exploration(path, saved)
    data = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    assert isinstance(data, dict)
    return data


def bound(**fields: Any) -> Edit:
    """Change fields of bound 1."""
    return lambda data: data["bounds"][1].update(fields)


def schedule(**fields: Any) -> Edit:
    """Change fields of schedule 1."""
    return lambda data: data["schedules"][1].update(fields)


def put(field: str, index: int, value: Any) -> Edit:
    return lambda data: data[field].__setitem__(index, value)


def other_graph(data: dict[str, Any]) -> None:
    graph = training_chain(5)
    data["schedules"][1] = result_to_json(graph, result(graph, [*range(graph.n)]))


def own(**fields: Any) -> Edit:
    """Change fields of what the user's own list says of schedule 0."""
    return lambda data: data["schedules"][0]["own"].update(fields)


PEAK, BASE = 50, 8.0  # of the plain step
BROKEN: list[tuple[Edit, str]] = [
    (top(format="checkmate-graph"), "format is 'checkmate-graph', not 'checkmate-exploration'"),
    (without("format"), "format is missing"),
    (top(version=2), "version 2 of checkmate-exploration is newer than this program reads (1)"),
    (top(version=0), "version is 0, not 1"),
    (without("version"), "version is missing"),
    (without("graph"), "graph is missing"),
    (top(graph="unet"), 'graph is a text ("unet"), not an object'),
    (
        lambda data: data["graph"].update(version=7),
        "version 7 of checkmate-graph is newer than this program reads (1)",
    ),
    (without("graph", "ops", 1, "cost"), "ops[1].cost is missing"),
    (top(budget_bytes=-1), "budget_bytes is negative (-1)"),
    (top(constraints=["a0"]), "constraints is a list, not an object"),
    (top(budget_bytes=0.5), "budget_bytes is 0.5, not a whole number"),
    (top(schedules={}), "schedules is an object, not a list"),
    (top(bounds=3), "bounds is a number (3), not a list"),
    (put("bounds", 1, 3), "bounds[1] must be a JSON object, not a number (3)"),
    (without("bounds", 1, "budget_bytes"), "bounds[1].budget_bytes is missing"),
    (without("bounds", 1, "lower_bound"), "bounds[1].lower_bound is missing"),
    (bound(lower_bound="9"), 'bounds[1].lower_bound is a text ("9"), not a number'),
    (bound(lower_bound=-1), "bounds[1].lower_bound is -1, not a finite number of at least 0"),
    (bound(budget_bytes=-8), "bounds[1].budget_bytes is negative (-8)"),
    (without("constrained_bounds", 0, "constraints"), "constrained_bounds[0].constraints is missing"),
    (
        lambda data: data["constrained_bounds"][0]["bounds"][1].update(budget_bytes=-8),
        "constrained_bounds[0].bounds[1].budget_bytes is negative (-8)",
    ),
    (schedule(on_frontier_of=[3]), "schedules[1].on_frontier_of[0] must be a JSON object, not a number (3)"),
    (put("schedules", 1, 3), "schedules[1] must be a JSON object, not a number (3)"),
    (without("schedules", 1, "steps"), "schedules[1].steps is missing"),
    (schedule(steps=[0, 99]), "schedules[1].steps names op 99; the graph has 8"),
    (schedule(version=2), "version 2 of checkmate-schedule is newer than this program reads (1)"),
    (schedule(own="mine"), 'schedules[1].own is a text ("mine"), not an object'),
    (own(name=3), "schedules[0].own.name is a number (3), not a text"),
    (own(pinned=1), "schedules[0].own.pinned is a number (1), not true or false"),
    (own(budget_bytes=-5), "schedules[0].own.budget_bytes is negative (-5)"),
    (own(max_overhead=-0.5), "schedules[0].own.max_overhead is -0.5, not a finite number of at least 0"),
    (
        bound(budget_bytes=PEAK, lower_bound=BASE + 1),
        "the bound for 50 bytes contradicts a schedule of 50 bytes",
    ),
    (bound(budget_bytes=PEAK, lower_bound=None), "the bound for 50 bytes contradicts a schedule of 50 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "sentence"), BROKEN)
def test_a_broken_exploration(edit: Edit, sentence: str, tmp_path: Path) -> None:
    data = copy.deepcopy(stored(exploration(), tmp_path))
    edit(data)
    path = tmp_path / "e.json"
    path.write_text(json.dumps(data))
    with pytest.raises(FormatError) as caught:
        read_exploration(path)
    assert str(caught.value) == f"{path}: {sentence}"
    assert isinstance(caught.value, SchemaVersionError) == ("newer than" in sentence)


def test_a_schedule_of_another_graph(tmp_path: Path) -> None:
    data = stored(exploration(), tmp_path)
    other_graph(data)
    with pytest.raises(FormatError, match=r"was made for graph sha256:.*, not for 'chain'") as caught:
        exploration_from_json(tmp_path / "e.json", data)
    assert str(caught.value).startswith(f"{tmp_path / 'e.json'}: schedules[1]: ") and "\n" not in str(
        caught.value
    )


def test_a_contradiction_says_what_to_do(tmp_path: Path) -> None:
    data = stored(exploration(), tmp_path)
    bound(budget_bytes=PEAK, lower_bound=BASE + 1)(data)
    with pytest.raises(FormatError) as caught:
        exploration_from_json(tmp_path / "e.json", data)
    assert "remove the field bounds" in caught.value.hint
    del data["bounds"]
    assert exploration_from_json(tmp_path / "e.json", data).bounds == ()


def test_a_files_figures_neither_hide_nor_make_a_contradiction(tmp_path: Path) -> None:
    data = stored(exploration(), tmp_path)
    del data["schedules"][1]["peak_bytes"]  # the field may be missing
    assert len(exploration_from_json(tmp_path / "e.json", data).schedules) == 2
    data = stored(exploration(), tmp_path)
    schedule(cost=99.0)(data)
    bound(budget_bytes=PEAK, lower_bound=20.0)(data)
    with pytest.raises(FormatError, match="the bound for 50 bytes contradicts a schedule of 50 bytes"):
        exploration_from_json(tmp_path / "e.json", data)


def test_a_bound_that_does_not_cover_a_schedule_contradicts_nothing(tmp_path: Path) -> None:
    # One byte below its peak there may be no schedule; at the peak the bound may equal the cost.
    data = stored(exploration(), tmp_path)
    data["bounds"] = [
        {"budget_bytes": PEAK - 1, "lower_bound": BASE + 1},
        {"budget_bytes": PEAK, "lower_bound": BASE},
    ]
    del data["schedules"][0]
    assert exploration_from_json(tmp_path / "e.json", data).bounds == ((PEAK - 1, BASE + 1), (PEAK, BASE))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"budget_bytes":45', '"budget_bytes":NaN', "{} contains NaN, which is not a number"),
        ('"lower_bound":8.1}', '"lower_bound":NaN}', "{} contains NaN, which is not a number"),
        ('"lower_bound":8.1}', '"lower_bound":Infinity}', "{} contains Infinity, which is not a number"),
        (
            '"lower_bound":8.1}',
            '"lower_bound":1e999}',
            "{}: bounds[1].lower_bound is Infinity, not a finite number of at least 0",
        ),
    ],
)
def test_values_that_are_not_numbers(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    text = json.dumps(stored(exploration(), tmp_path), separators=(",", ":"))
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(FormatError) as caught:
        read_exploration(path)
    assert str(caught.value) == sentence.format(path)


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_cut_off_anywhere_is_one_sentence(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"e{ending}"
    write_exploration(path, exploration())
    whole = path.read_bytes()
    for end in range(0, len(whole) - 1, 23):
        path.write_bytes(whole[:end])
        with pytest.raises(FormatError) as caught:
            read_exploration(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
        assert end < 20 or "cut off" in str(caught.value)


def test_a_missing_file_and_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no file"):
        read_exploration(tmp_path / "none.json")
    with pytest.raises(FormatError, match="cannot write"):
        write_exploration(tmp_path / "none" / "e.json", exploration())


def full(*given: Any) -> None:
    raise OSError(28, "No space left on device")


def stopped(*given: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("fails", [full, stopped])
@pytest.mark.parametrize("step", ["replace", "chmod", "fdopen"])
def test_an_interrupted_write_keeps_the_old_file(
    step: str, fails: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "e.json.gz"
    write_exploration(path, exploration())
    before = path.read_bytes()
    monkeypatch.setattr(files.os, step, fails)
    with pytest.raises(FormatError if fails is full else KeyboardInterrupt) as caught:
        write_exploration(path, exploration(6))
    monkeypatch.undo()
    assert fails is stopped or str(caught.value) == f"cannot write {path}: No space left on device"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["e.json.gz"]
    assert json.loads(gzip.decompress(before))["graph"]["name"] == "chain"
