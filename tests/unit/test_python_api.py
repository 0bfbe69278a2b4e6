"""Test that the Python functions return what ``--json`` prints.

The words of both are the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import checkmate
from checkmate import Budget, Graph, SolveOptions
from checkmate.arguments import on_miss_of
from checkmate.cli.commands import max_batch_text
from checkmate.cli.main import main
from checkmate.errors import FormatError, InfeasibleError, UsageError
from checkmate.formats import write_graph
from checkmate.frontiers.table import facts as frontier_facts
from checkmate.request import OnMiss
from tests.generated_graphs import training_chain

BRIEF = SolveOptions(time_limit_s=60.0)
CLOCKS = (
    "seconds",
    "probes",
    "time_limit_s",
    "measuring_seconds",
    "notes",
    "engine",
    "schedules",
    "baselines",
    "bounds",
)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return training_chain(7)


@pytest.fixture(scope="module")
def file(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("api") / "chain.json"
    write_graph(path, graph)
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    main([*map(str, arguments), "--json", "--quiet"])
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def numbers(facts: Any) -> Any:
    """Return ``facts`` as JSON has them, without what the clock decides.

    A proof ends when a bound is near enough, so bounds depend on the clock too.
    """
    if isinstance(facts, float):
        return float(f"{facts:.6g}")
    if isinstance(facts, dict):
        return {key: numbers(value) for key, value in facts.items() if key not in CLOCKS}
    if isinstance(facts, list | tuple):
        return [numbers(each) for each in facts]
    return facts


def test_info(graph: Graph, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "info", file)
    found = checkmate.info(file)
    assert json.loads(json.dumps(found.to_json())) == told
    assert checkmate.info(graph).to_json() == found.to_json()
    assert found.keep_everything_peak_bytes == checkmate.keep_everything_peak(graph)
    assert found.minimum.bytes == told["minimum_reached_bytes"] and found.peak_op == told["peak_op"]
    assert sum(found.alive_at_peak_by_layer.values()) == sum(alive.bytes for alive in found.alive_at_peak)


def test_read_graph_takes_a_file_or_a_name(graph: Graph, file: Path, tmp_path: Path) -> None:
    assert checkmate.read_graph(file).fingerprint == checkmate.read_graph(str(file)).fingerprint
    assert checkmate.read_graph(file).fingerprint == graph.fingerprint
    assert checkmate.read_graph("unet-b8.graph").n == 280
    assert checkmate.read_graph("paper.unet@2").batch_size == 2
    with pytest.raises(FormatError, match="there is no file"):
        checkmate.read_graph(tmp_path / "none.json")


def test_values_print_as_one_short_line(graph: Graph) -> None:
    """Test what a notebook shows: not every op, nor every step."""
    found = checkmate.info(graph)
    plain = checkmate.Schedule.plain(graph)
    assert repr(graph) == f"Graph('chain7', {graph.n} ops, {graph.m} values)"
    assert repr(plain) == f"Schedule({graph.n} steps, 0 of them recomputed)"
    assert repr(found.timeline).startswith(
        f"Timeline({graph.n} steps, peak {found.timeline.peak_bytes} bytes"
    )
    assert len(repr(found)) < 500


@pytest.mark.parametrize("budget", ["70%", "min", Budget(share=0.7)])
def test_solve(graph: Graph, file: Path, budget: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = SolveOptions(seed=0)
    found = checkmate.solve(file, budget, solver="greedy", options=options)
    words = ["solve", str(file), "--solver", "greedy", "--json", "-o", str(file.parent / "solved.json")]
    main([*words, "--budget", "min" if budget == "min" else "70%"])
    printed = json.loads(capsys.readouterr().out)
    assert found.require_schedule().steps.size and found.peak_bytes == printed["peak_bytes"]
    assert found.budget_bytes == printed["budget_bytes"]
    as_bytes = checkmate.solve(graph, found.budget_bytes, solver="greedy", options=options)
    assert as_bytes.cost == found.cost
    with pytest.raises(UsageError, match="6 potatoes"):
        checkmate.solve(graph, "6 potatoes")


def test_frontier(graph: Graph, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(
        capsys, "frontier", file, "--budgets", "60%,80%,100%", "--time-limit", 60, "--baseline", "keep-all"
    )
    found = checkmate.frontier(file, "60%,80%,100%", options=BRIEF, baselines=["keep-all"])
    assert isinstance(found, checkmate.TradeOff)
    assert numbers(frontier_facts(found)) == numbers(told)
    assert {row["status"] for row in told["budgets"]} == {"optimal"}
    for each in told["bounds"]:  # a bound holds for every smaller budget too
        costs = [row["cost"] for row in told["budgets"] if row["budget_bytes"] <= each["budget_bytes"]]
        assert not costs or each["lower_bound"] <= min(costs) * (1 + 1e-6)
    again = checkmate.frontier(
        graph, [Budget(share=0.6), "80%", told["budgets"][-1]["budget_bytes"]], options=BRIEF, baselines=[]
    )
    assert [row.budget_bytes for row in again.rows] == [row["budget_bytes"] for row in told["budgets"]]


def test_sweep(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    write_graph(other, training_chain(5))
    words = [file, other, "--budgets", "70%,100%", "--time-limit", 60, "--baseline", "none"]
    told = printed(capsys, "frontier", *words, "--journal", tmp_path / "told.jsonl")
    found = checkmate.sweep(
        [file, other], "70%,100%", options=BRIEF, baselines=[], journal=tmp_path / "found.jsonl"
    )
    assert numbers([frontier_facts(one) for one in found]) == numbers(told["curves"])
    with pytest.raises(UsageError, match="is not an engine"):
        checkmate.sweep([file], engine="abacus")


def test_max_batch(graph: Graph, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, longer = ["-b", 1, "--budget", 100, "--time-limit", 30], SolveOptions(time_limit_s=30.0)
    told = printed(capsys, "max-batch", file, *words)
    found = checkmate.max_batch(file, 100, batch_size=1, options=longer)
    assert told["proved"] and numbers(max_batch_text.facts(found.found, found.measured)) == numbers(told)
    assert (found.batch, found.graph.batch_size) == (told["batch"], told["batch"])
    assert found.result.peak_bytes == told["peak_bytes"] and "no step to run" in found.measured.note
    told = printed(capsys, "max-batch", file, *words, "--max-overhead", "5%")
    dear = checkmate.max_batch(graph, "100", batch_size=1, max_overhead="5%", options=longer)
    assert told["proved"] and dear.batch == told["batch"]


def test_max_batch_of_a_network_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    """Test a network whose fixed bytes may be given."""
    words = ["--max-overhead", "0%", "--fixed", "1MiB", "--time-limit", 5]
    told = printed(capsys, "max-batch", "paper.unet", "--budget", "16GiB", *words)
    found = checkmate.max_batch(
        "paper.unet", "16GiB", max_overhead=0.0, fixed="1MiB", options=SolveOptions(time_limit_s=5.0)
    )
    assert (found.batch, found.graph.fixed_bytes) == (told["batch"], 2**20)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"budget": "60%"}, "depends on the batch"),
        ({"budget": "much"}, "cannot read 'much' as a budget"),
        ({"budget": 0}, "leaves no memory at all"),
        ({"budget": 400, "max_overhead": "5"}, "write the % sign"),
        ({"budget": 400, "fixed": "some"}, "some"),
        ({"budget": 400, "measure": "perhaps"}, "perhaps"),
        ({"budget": 400, "measure": "always"}, "has no step to run"),
    ],
)
def test_wrong_words_end_in_one_sentence(graph: Graph, words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        checkmate.max_batch(graph, batch_size=1, **words)


def test_on_miss_is_one_of_two_words() -> None:
    assert [on_miss_of(word) for word in ("closest", "raise")] == [OnMiss.CLOSEST, OnMiss.RAISE]
    for wrong in ("closer", "", None, True):
        with pytest.raises(UsageError, match=r"on_miss=.* is not known") as caught:
            on_miss_of(wrong)  # type: ignore[arg-type]
        assert "closest" in caught.value.hint and "raise" in caught.value.hint


def test_no_batch_at_all_is_an_error_with_a_remedy(graph: Graph) -> None:
    with pytest.raises(InfeasibleError) as caught:
        checkmate.max_batch(graph, 1, batch_size=1)
    assert "raise the budget" in caught.value.hint


def test_report(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curve = tmp_path / "curve.json"
    main(["frontier", str(file), "--budgets", "80%,100%", "--time-limit", "2", "-o", str(curve), "--quiet"])
    capsys.readouterr()
    told = printed(capsys, "report", curve, "-o", tmp_path / "told.html")
    found = checkmate.report(curve, tmp_path / "found.html")
    assert [[one.title, list(one.sources)] for one in found.sections] == [
        [one["title"], one["sources"]] for one in told["sections"]
    ]
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("told.html", "found.html")]
    assert len(pages[0]) == len(pages[1]) and "Results of Checkmate Explorer" in pages[1]
    with pytest.raises(UsageError, match="is not a page of results"):
        checkmate.report([curve], curve)
